/**
 * Editing a queued message in its place. While the editor is open the server holds the message; when it closes the
 * message is changed or given back. Promise: what was typed is saved, thrown away by the person, or in the composer.
 */
import { clone, slot } from "#studio/dom";
import { enterOf, isComposing, isMac } from "#studio/keys";

const RENEW_MS = 20_000; // the server lets go by itself after a minute

export class QueueEditor {
  #actions;
  #find;
  #open = null; // {sessionKey, queueId, form, text, before, timer, connection}

  /** @param {Function} find the element of a queued message, by id */
  constructor(actions, find) {
    this.#actions = actions;
    this.#find = find;
  }

  holds(queueId) {
    return this.#open?.queueId === queueId;
  }

  open(sessionKey, queueId) {
    this.#close({ save: true });
    const item = this.#find(queueId);
    const form = clone("queue-editor");
    const text = slot(form, "editor-text");
    text.value = slot(item, "text").textContent;
    const timer = setInterval(() => this.#hold(true), RENEW_MS);
    this.#open = { sessionKey, queueId, form, text, before: text.value, timer, connection: "live" };
    form.addEventListener("submit", (event) => this.#submit(event));
    form.addEventListener("keydown", (event) => this.#key(event));
    form.addEventListener("focusout", (event) => this.#left(event));
    slot(form, "editor-cancel").addEventListener("click", () => this.#close({ save: false, focus: true }));
    item.append(form);
    item.classList.add("is-edited");
    text.focus();
    form.scrollIntoView({ block: "nearest" });
    this.#hold(true);
  }

  /** After each change: the message may be gone, the session left, the connection back (which let the message go). */
  follow({ open, connection }, shown) {
    if (this.#open === null) return;
    const { sessionKey, queueId, connection: before } = this.#open;
    if (open !== sessionKey) return this.#close({ save: true });
    if (!shown.some(({ id }) => id === queueId)) return this.#gone();
    this.#open.connection = connection.status;
    if (connection.status === "live" && before !== "live") this.#hold(true);
  }

  #hold(editing) {
    this.#actions.holdQueued(this.#open.sessionKey, this.#open.queueId, editing);
  }

  #submit(event) {
    event.preventDefault();
    this.#close({ save: true, focus: true });
  }

  /** Esc is taken here, so that it does not stop the session as well. */
  #key(event) {
    if (event.key === "Escape" && !isComposing(event)) {
      event.preventDefault();
      return this.#close({ save: false, focus: true });
    }
    const enter = event.target === this.#open.text ? enterOf(event, { mac: isMac(navigator.platform) }) : null;
    if (enter === null || enter === "break") return;
    event.preventDefault();
    const { sessionKey, queueId } = this.#open;
    this.#close({ save: true, focus: true });
    if (enter === "now") this.#actions.sendNow(sessionKey, queueId);
  }

  /** A look into another window is no leaving. */
  #left({ relatedTarget }) {
    if (this.#open?.form.contains(relatedTarget) || !document.hasFocus()) return;
    this.#close({ save: true });
  }

  #close({ save, focus = false }) {
    if (this.#open === null) return;
    const { sessionKey, queueId, text, before } = this.#open;
    const changed = save && text.value.trim() !== "" && text.value !== before;
    if (changed) this.#actions.editQueued(sessionKey, queueId, text.value);
    else this.#hold(false);
    this.#takeAway();
    if (focus) slot(this.#find(queueId), "edit").focus();
  }

  #gone() {
    const { sessionKey, text, before } = this.#open;
    const typed = text.value;
    this.#takeAway();
    document.querySelector("studio-composer").focusText();
    if (typed.trim() !== "" && typed !== before) this.#actions.rescue(sessionKey, typed);
  }

  #takeAway() {
    const { form, timer } = this.#open;
    clearInterval(timer);
    this.#open = null; // first, since an element that is removed tells that its focus left
    form.parentElement?.classList.remove("is-edited");
    form.remove();
  }
}
