/**
 * What went wrong with a command, and what to do: one text for each stable code of the protocol. Pure.
 */
import { gettext } from "#studio/text";

/** @param {{code: string, error: string, request: string|null}} notice @returns {{text: string, detail: string}} */
export function describeNotice({ code, error, request }) {
  const say = CODES[code] ?? (() => gettext("That did not work. Try again."));
  return { text: say(request), detail: SELF_EXPLAINING.has(code) ? "" : (error ?? "") };
}

const EDIT = "studio_chat_queue_edit";
const OF_THE_QUEUE = new Set(["studio_chat_queue_move", "studio_chat_queue_remove", "studio_chat_send_now"]);
const SELF_EXPLAINING = new Set(["disconnected", "queue_full", "not_found", "held", "stale"]);

const CODES = {
  disconnected: () => gettext("There is no connection, so nothing was changed. Try again when it is back."),
  not_found: (request) => {
    if (request === EDIT) return gettext("That message was removed from the queue. What you changed is kept below.");
    if (OF_THE_QUEUE.has(request)) return gettext("That message is not in the queue any more.");
    return gettext("This session does not exist, or it is not yours. Start a new one.");
  },
  forbidden: () => gettext("You do not have the permission for that."),
  held: (request) =>
    request === "studio_chat_send"
      ? gettext("New runs are on hold: your text is kept, send it when the hold is released.")
      : gettext("New runs are on hold: try again when the hold is released."),
  queue_full: () => gettext("The queue is full. Your text is kept; remove a queued message or wait for an answer."),
  too_large: () => gettext("The message is too long. Your text is kept; shorten it, or send it in parts."),
  invalid: (request) =>
    request === "studio_chat_send"
      ? gettext("The server refused this. Your text is kept; change it and send again.")
      : gettext("The server refused this."),
  stale: (request) =>
    request === EDIT
      ? gettext("That message had just been sent. What you changed is kept below; send it as a message of its own.")
      : gettext("That had just been taken or changed. What you see now is up to date."),
  conflict: () => gettext("The session is busy. Try again when the answer has ended."),
  internal: (request) =>
    request === "studio_chat_stop_session"
      ? gettext("The stop could not be recorded. The model was told to end; press Stop again to make sure.")
      : gettext("The server had a problem. Nothing you wrote is lost; try again."),
};
