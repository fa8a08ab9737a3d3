/**
 * What a person can do, as frames. Each action first tells the store what was asked, so that the page answers at once, and
 * then the server.
 */
import { PAGE_SIZE } from "#studio/conversation";
import { newId } from "#studio/ids";
import { Orders } from "#studio/orders";
import { LIST_SIZE } from "#studio/listing";
import { stillMeant } from "#studio/waiting";

const TEXT_BYTES = 64 * 1024; // the contract's limit, until the server has told its own
const MOST_BYTES = 3; // of UTF-8 for each of JavaScript's characters

export class Actions extends Orders {
  #store;
  #connection;

  constructor(store, connection) {
    super(store, connection);
    this.#store = store;
    this.#connection = connection;
  }

  /** After each connect: what may be chosen, and which sessions there are. */
  refresh() {
    this.#connection.request({ type: "studio_chat_options" });
    this.#list({});
  }

  /** The next page of the list, or of what the search found. */
  listMore() {
    const { listing, search } = this.#store.state;
    if (search) this.#list({ query: search.query, before: search.sessions.at(-1).key });
    else this.#list(listing.cursor === null ? {} : { before: listing.cursor });
  }

  /** @param {string} query empty: show the whole list again */
  search(query) {
    if (query === "") this.#store.dispatch({ type: "page_list_asked", query });
    else this.#list({ query });
  }

  rename(sessionKey, title) {
    this.#connection.request({ type: "studio_chat_session_rename", sessionKey, title });
  }

  /** Stops what runs in it first. */
  remove(sessionKey) {
    this.#connection.request({ type: "studio_chat_session_delete", sessionKey });
  }

  closeListNotice() {
    this.#store.dispatch({ type: "page_list_notice_closed" });
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
    this.#store.dispatch({ type: "page_older_asked", sessionKey });
    this.#connection.request({ type: "studio_chat_subscribe", sessionKey, limit: PAGE_SIZE, before });
  }

  forgetOlder(sessionKey) {
    this.#store.dispatch({ type: "page_older_forgotten", sessionKey });
  }

  /** After a load: what an earlier page asked is still on its way. @param {object[]} kept */
  restore(kept) {
    const requests = stillMeant(kept);
    requests.forEach((request) => this.#store.dispatch({ type: "page_restored", request }));
    this.#connection.restore(requests);
  }

  /** @param {{model?: string, roleId?: string, whenBusy?: "queue"|"interrupt"}} how */
  send(sessionKey, text, how) {
    const frame = { type: "studio_chat_send", sessionKey, text, clientMessageId: newId(), ...how };
    this.#store.dispatch({ ...frame, type: "page_send_asked" });
    if (excessBytes(text, this.#store.state.options) > 0) this.#store.dispatch(refused(frame, "too_large"));
    else this.#connection.request(frame, { keep: true });
  }

  /** A stop names its execution: when it is sent again after a gap, it cannot hit a later one. */
  stop(sessionKey) {
    const { active } = this.#store.state.conversations[sessionKey];
    const only = active === null ? {} : { executionId: active.executionId };
    this.#store.dispatch({ type: "page_stop_asked", sessionKey });
    this.#connection.request({ type: "studio_chat_stop_session", sessionKey, ...only }, { keep: true });
  }

  sendNow(sessionKey, queueId) {
    this.#askQueue({ type: "studio_chat_send_now", sessionKey, queueId, clientMessageId: newId() });
  }

  removeQueued(sessionKey, queueId) {
    this.#askQueue({ type: "studio_chat_queue_remove", sessionKey, queueId });
  }

  editQueued(sessionKey, queueId, text) {
    this.#askQueue({ type: "studio_chat_queue_edit", sessionKey, queueId, text });
  }

  /** @param {number} position counted from 0 */
  moveQueued(sessionKey, queueId, position) {
    this.#askQueue({ type: "studio_chat_queue_move", sessionKey, queueId, position });
  }

  /** While it is edited it is not sent. The server lets go by itself after a minute, and with the socket. */
  holdQueued(sessionKey, queueId, editing) {
    this.#connection.request({ type: "studio_chat_queue_hold", sessionKey, queueId, editing });
  }

  /** What was edited is gone from the queue: its new text goes to the composer. */
  rescue(sessionKey, text) {
    this.#store.dispatch({ type: "page_rescued", sessionKey, text, code: "stale" });
  }

  /** @param {"continue"|"regenerate"} how */
  again(how, sessionKey, messageId) {
    this.closeNotice(sessionKey);
    this.#connection.request({ type: `studio_chat_${how}`, sessionKey, messageId });
  }

  /** The reader's last message, with another text. */
  resend(sessionKey, messageId, text) {
    this.closeNotice(sessionKey);
    this.#connection.request({ type: "studio_chat_resend", sessionKey, messageId, text });
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

  /** All of them say what the queue shall be, not how it changes: asked twice, it is the same. */
  #askQueue(frame) {
    const request = { ...frame, requestId: newId() };
    this.#store.dispatch({ type: "page_queue_asked", request });
    this.#connection.request(request, { keep: true });
  }

  #list(which) {
    this.#store.dispatch({ type: "page_list_asked", ...which });
    this.#connection.request({ type: "studio_chat_sessions", limit: LIST_SIZE, ...which });
  }

  #leave(next) {
    const { open, conversations } = this.#store.state;
    if (open === null || open === next || conversations[open]?.fresh) return;
    this.#connection.request({ type: "studio_chat_unsubscribe", sessionKey: open });
  }
}

/**
 * How far a message is above the limit. The server refuses a frame far above it unread, without an answer that names it.
 * @returns {number} bytes of UTF-8 too many; 0 or less fits
 */
export function excessBytes(text, options) {
  const limit = options?.limits.textBytes ?? TEXT_BYTES;
  return text.length * MOST_BYTES <= limit ? 0 : new TextEncoder().encode(text).length - limit;
}

const refused = (request, code) => ({ type: `${request.type}_ok`, ok: false, code, error: "", request });
