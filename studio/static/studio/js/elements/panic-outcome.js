/**
 * `<studio-panic-outcome>`: what a panic did, in the server's own counts; it stays until it is closed or the session left.
 */
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { number } from "#studio/format";
import { scopeWords } from "#studio/hold-words";
import { describeNotice } from "#studio/notice";
import { fill, gettext, ngettext } from "#studio/text";

class StudioPanicOutcome extends StudioElement {
  listen() {
    this.find("dismiss").addEventListener("click", () => this.actions.closePanic());
  }

  render({ panic, options }) {
    if (!this.changed(panic, options)) return;
    this.find("outcome").hidden = !panic.asked && panic.reply === null;
    this.find("outcome").classList.toggle("is-calm", isCalm(panic.reply));
    this.find("dismiss").hidden = panic.asked;
    setText(this.find("words"), outcomeWords(panic, options));
  }
}

function outcomeWords({ asked, reply }, options) {
  if (asked) return gettext("Panic is under way…");
  if (reply === null) return "";
  if (!reply.ok) return refusedWords(reply);
  const name = panicName(reply.request?.scope ?? {}, options);
  if (isCalm(reply)) return fill(gettext("%(panic)s: nothing was running."), { panic: name });
  return `${name}: ${countWords(reply).join(", ")}.`;
}

/** With the database down, what the server itself runs is struck all the same. */
function refusedWords(reply) {
  if (reply.code === "internal") {
    return gettext("Panic could not be recorded. What this server runs was told to end; press Panic again to make sure.");
  }
  const { text, detail } = describeNotice(reply);
  return [gettext("Panic was not carried out."), text, detail].filter(Boolean).join(" ");
}

function panicName(scope, options) {
  if (!scope.user && !scope.model) return gettext("Panic");
  return fill(gettext("Panic (%(scope)s)"), { scope: scopeWords(scope, options) });
}

/** Nothing ran and nothing is held, so nothing was done and nothing is left. */
function isCalm(reply) {
  return Boolean(reply?.ok) && !reply.hold && reply.abortedCount + reply.unconfirmedCount + reply.activeCount === 0;
}

/** An order that is not confirmed is still counted among the running; what is not zero is said. */
function countWords({ abortedCount, unconfirmedCount, activeCount, heldCount, hold }) {
  const say = (words, count) => fill(words, { n: number(count) });
  const stopped = say(ngettext("%(n)s run was stopped", "%(n)s runs were stopped", abortedCount), abortedCount);
  const unconfirmed = unconfirmedCount > 0 && say(gettext("%(n)s not confirmed yet"), unconfirmedCount);
  const left = activeCount > 0 ? say(gettext("%(n)s still running"), activeCount) : gettext("nothing is running now");
  const kept = heldCount > 0 && say(ngettext("%(n)s queued message too", "%(n)s queued messages too", heldCount), heldCount);
  const held = hold && gettext("new runs are held");
  return [stopped, unconfirmed, left, held, hold && kept].filter(Boolean);
}

customElements.define("studio-panic-outcome", StudioPanicOutcome);
