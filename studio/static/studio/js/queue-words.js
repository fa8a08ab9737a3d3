/**
 * What the queue says of itself and of each item. Pure.
 */
import { number } from "#studio/format";
import { fill, gettext, ngettext } from "#studio/text";

/** @param {number} count of the messages shown @param {object[]} holds that affect the reader */
export function queueTitle(conversation, count, holds) {
  const n = fill(ngettext("%(n)s message waits", "%(n)s messages wait", count), { n: number(count) });
  return `${n} · ${whatWillBe(conversation, holds)}`;
}

function whatWillBe({ active, messages }, holds) {
  if (active) return gettext("sent in turn when the answer is complete");
  if (holds.length > 0) return gettext("kept: nothing is sent while new runs are on hold");
  if (endedUncleanly(messages)) return gettext("kept: nothing will be sent until you say so");
  return gettext("sent in turn");
}

/** An answer that made way for a message is followed by it. */
function endedUncleanly(messages) {
  const { status, abortReason } = messages.findLast(({ role }) => role === "assistant") ?? {};
  return ["aborted", "error"].includes(status) && abortReason !== "user_interrupt";
}

export function sendNowWords(isRunning) {
  if (!isRunning) return gettext("This message is sent now; the others stay in their order.");
  return gettext(
    "The running answer ends, what has arrived is kept, and this message is sent next; the others stay in their order.",
  );
}

/** What goes on with an item, in a word or two. */
export function stateOf({ asked, editing }, connection) {
  if (asked !== null && connection !== "live") return gettext("Waits for the connection");
  if (asked === "studio_chat_send_now") return gettext("Sent next");
  if (asked === "studio_chat_send") return gettext("Sending…");
  if (asked !== null) return gettext("Saving…");
  return editing ? gettext("Edited elsewhere; not sent meanwhile") : "";
}
