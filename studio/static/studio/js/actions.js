/**
 * What a person can do, as frames. Each action first tells the store what was asked, so that the page answers at once, and
 * then the server.
 */
import { PAGE_SIZE } from "#studio/conversation";
import { newId } from "#studio/ids";

const TEXT_BYTES = 64 * 1024; // the contract's limit, until the server has told its own

export class Actions {
  #store;
  #connection;

  constructor(store, connection) {
    this.#store = store;
    this.#connection = connection;
  }

  /** After each connect: what may be chosen, and which sessions there are. */
  refresh() {
    this.#connection.request({ type: "studio_chat_options" });
    this.#connection.request({ type: "studio_chat_sessions" });
  }

  open(sessionKey) {
    this.#leave(sessionKey);
    this.#store.dispatch({ type: "page_open", sessionKey });
  }

  /** @returns {string} the key of a session that the server will know with its first message */
  openNew() {
    const sessionKey = newId();
    this.#leave(sessionKey);
    this.#store.dispatch({ type: "page_open", sessionKey, fresh: true });
    return sessionKey;
  }

  subscribe(sessionKey) {
    this.#store.dispatch({ type: "page_subscribing", sessionKey });
    this.#connection.request({ type: "studio_chat_subscribe", sessionKey, limit: PAGE_SIZE });
  }

  loadOlder(sessionKey, before) {
    this.#connection.request({ type: "studio_chat_subscribe", sessionKey, limit: PAGE_SIZE, before });
  }

  /** @param {{model?: string, roleId?: string}} choice */
  send(sessionKey, text, choice) {
    const frame = { type: "studio_chat_send", sessionKey, text, clientMessageId: newId(), ...choice };
    this.#store.dispatch({ ...frame, type: "page_send_asked" });
    if (this.#isTooLong(text)) this.#store.dispatch(refused(frame, "too_large"));
    else this.#connection.request(frame, { keep: true });
  }

  /** A stop names its execution: when it is sent again after a gap, it cannot hit a later one. */
  stop(sessionKey) {
    const { active } = this.#store.state.conversations[sessionKey];
    const only = active === null ? {} : { executionId: active.executionId };
    this.#store.dispatch({ type: "page_stop_asked", sessionKey });
    this.#connection.request({ type: "studio_chat_stop_session", sessionKey, ...only }, { keep: true });
  }

  /** @param {{reason?: string, hold?: boolean}} how */
  panic(how) {
    this.#store.dispatch({ type: "page_panic_asked" });
    this.#connection.request({ type: "studio_chat_panic", ...how });
  }

  release(holdId) {
    this.#connection.request({ type: "studio_chat_release", holdId });
  }

  sendNow(sessionKey, queueId) {
    this.#connection.request({ type: "studio_chat_send_now", sessionKey, queueId, clientMessageId: newId() });
  }

  removeQueued(sessionKey, queueId) {
    this.#connection.request({ type: "studio_chat_queue_remove", sessionKey, queueId });
  }

  /** @param {"continue"|"regenerate"} how */
  again(how, sessionKey, messageId) {
    this.closeNotice(sessionKey);
    this.#connection.request({ type: `studio_chat_${how}`, sessionKey, messageId });
  }

  draft(sessionKey, text) {
    this.#store.dispatch({ type: "page_draft", sessionKey, text });
  }

  /** @param {{model?: string, roleId?: string}} choice for the messages to come */
  choose(sessionKey, choice) {
    this.#store.dispatch({ type: "page_choice", sessionKey, ...choice });
  }

  closeNotice(sessionKey) {
    this.#store.dispatch({ type: "page_notice_closed", sessionKey });
  }

  closeWarning(warning) {
    this.#store.dispatch({ type: "page_warning_closed", warning });
  }

  closePanic() {
    this.#store.dispatch({ type: "page_panic_closed" });
  }

  reconnect() {
    this.#connection.connect();
  }

  /** A frame far above the limit is refused by the server unread, without an answer that names it. */
  #isTooLong(text) {
    const limit = this.#store.state.options?.limits.textBytes ?? TEXT_BYTES;
    return new TextEncoder().encode(text).length > limit;
  }

  #leave(next) {
    const { open, conversations } = this.#store.state;
    if (open === null || open === next || conversations[open]?.fresh) return;
    this.#connection.request({ type: "studio_chat_unsubscribe", sessionKey: open });
  }
}

const refused = (request, code) => ({ type: `${request.type}_ok`, ok: false, code, error: "", request });
