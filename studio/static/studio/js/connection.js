/**
 * The socket, kept alive. Promise: every request is answered once, by the server or by this module with `ok: false`, code
 * `disconnected`; a *kept* request waits for the next connection instead, and is sent again, under the same ids, until it
 * is answered. So a kept request must be one that the server takes only once. What is kept is told to `onKept`, and may be
 * given back to `restore` by the next page.
 */

const RECONNECT = new Set([1001, 1005, 1006, 1011, 1012, 1013, 4408]);
const NOT_LOGGED_IN = 4401;
const HEARTBEAT_LOST = 4408;
const NO_ANSWER = 1006;
const OPEN = 1; // the `readyState` of a socket
const BACKOFF_MIN_MS = 500;
const BACKOFF_MAX_MS = 8000;
export const PING_EVERY_MS = 25_000;
export const PING_ANSWER_MS = 10_000;
export const WAKE_ANSWER_MS = 5000; // after a sleep or a change of network the socket is probably dead
export const OPEN_WITHIN_MS = 10_000;

/** Full jitter: anything from the least wait to a ceiling that doubles with each attempt. */
export function backoffMs(attempt, random = Math.random) {
  const ceiling = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** (attempt + 1));
  return BACKOFF_MIN_MS + random() * (ceiling - BACKOFF_MIN_MS);
}

export class Connection {
  #open;
  #clock;
  #newId;
  #onFrame;
  #onStatus;
  #onLoggedOut;
  #onKept;
  #socket = null;
  #live = false;
  #attempt = 0;
  #timers = {};
  #pending = new Map();

  /**
   * @param {object} given
   * @param {() => WebSocket} given.open makes one socket
   * @param {(frame: object) => void} given.onFrame each event, and each reply with its `request` (`resent` after a break)
   * @param {(status: {status: string, code?: number, retryInMs?: number}) => void} given.onStatus
   * @param {() => void} given.onLoggedOut
   * @param {(frames: object[]) => void} [given.onKept] what is still to be answered, after each change, oldest first
   * @param {() => string} given.newId
   * @param {{setTimeout: Function, clearTimeout: Function}} [given.clock]
   */
  constructor({ open, onFrame, onStatus, onLoggedOut, onKept = () => {}, newId, clock = globalThis }) {
    this.#open = open;
    this.#onFrame = onFrame;
    this.#onStatus = onStatus;
    this.#onLoggedOut = onLoggedOut;
    this.#onKept = onKept;
    this.#newId = newId;
    this.#clock = clock;
  }

  /** Connect now; also cuts a wait short. */
  connect() {
    if (this.#socket) return;
    this.#cancel("retry");
    if (this.#attempt > 0) this.#onStatus({ status: "reconnecting" });
    const socket = this.#open();
    this.#socket = socket;
    this.#timers.open = this.#clock.setTimeout(() => this.#giveUp(socket, NO_ANSWER), OPEN_WITHIN_MS);
    socket.addEventListener("open", () => this.#opened(socket));
    socket.addEventListener("message", ({ data }) => this.#received(socket, JSON.parse(data)));
    socket.addEventListener("close", ({ code }) => this.#closed(socket, code));
  }

  /** The network came back, the lid was opened, the tab is looked at again: do not wait for the next beat. */
  wake() {
    if (this.#live) this.#ping(WAKE_ANSWER_MS);
    else this.connect();
  }

  /** @param {object} frame gets a `requestId` unless it has one @param {{keep?: boolean}} [options] */
  request(frame, { keep = false } = {}) {
    const requestId = frame.requestId ?? this.#newId();
    const entry = { frame: { ...frame, requestId }, keep, sent: 0 };
    this.#pending.set(requestId, entry);
    if (keep) this.#tellKept();
    if (this.#live) this.#transmit(entry);
    else if (!keep) this.#fail(entry);
  }

  /** What an earlier page kept; it may have been sent already. Before the first `connect`. */
  restore(frames) {
    for (const frame of frames) this.#pending.set(frame.requestId, { frame, keep: true, sent: 1 });
  }

  #opened(socket) {
    if (socket !== this.#socket) return;
    this.#cancel("open");
    this.#live = true;
    const kept = [...this.#pending.values()];
    this.#onStatus({ status: "live" }); // what the page asks for first goes out before what was kept
    kept.forEach((entry) => this.#transmit(entry));
    this.#schedulePing();
  }

  /** A socket that is closing takes nothing more; its close tells what becomes of the request. */
  #transmit(entry) {
    if (this.#socket.readyState !== OPEN) return;
    entry.sent += 1;
    this.#socket.send(JSON.stringify(entry.frame));
  }

  #received(socket, frame) {
    if (socket !== this.#socket) return;
    this.#attempt = 0;
    const entry = this.#pending.get(frame.requestId);
    const answers = entry && (frame.type === `${entry.frame.type}_ok` || frame.type === "studio_chat_error");
    if (answers) this.#answer(entry, frame);
    else this.#onFrame(frame);
  }

  #answer(entry, reply) {
    this.#pending.delete(entry.frame.requestId);
    if (entry.keep) this.#tellKept();
    if (entry.frame.type === "studio_chat_ping") return this.#schedulePing();
    this.#onFrame({ ...reply, type: `${entry.frame.type}_ok`, request: entry.frame, resent: entry.sent > 1 });
  }

  #fail(entry) {
    const { requestId } = entry.frame;
    this.#answer(entry, { ok: false, code: "disconnected", error: "", requestId });
  }

  #closed(socket, code) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    this.#live = false;
    this.#cancel("open");
    this.#cancel("ping");
    if (code === NOT_LOGGED_IN) return this.#onLoggedOut();
    this.#tellClosed(code);
    for (const entry of [...this.#pending.values()]) if (!entry.keep) this.#fail(entry);
  }

  #tellClosed(code) {
    if (!RECONNECT.has(code)) return this.#onStatus({ status: "closed", code });
    const retryInMs = backoffMs(this.#attempt);
    this.#attempt += 1;
    this.#onStatus({ status: "reconnecting", code, retryInMs });
    this.#timers.retry = this.#clock.setTimeout(() => this.connect(), retryInMs);
  }

  #schedulePing() {
    this.#cancel("ping");
    if (this.#live) this.#timers.ping = this.#clock.setTimeout(() => this.#ping(), PING_EVERY_MS);
  }

  /** A socket can be dead without a close; an unanswered ping tells. */
  #ping(answerWithinMs = PING_ANSWER_MS) {
    const socket = this.#socket;
    this.#cancel("ping");
    this.request({ type: "studio_chat_ping" });
    this.#timers.ping = this.#clock.setTimeout(() => this.#giveUp(socket, HEARTBEAT_LOST), answerWithinMs);
  }

  /** The late events of a socket given up are ignored by identity. */
  #giveUp(socket, code) {
    socket.close();
    this.#closed(socket, code);
  }

  #tellKept() {
    this.#onKept([...this.#pending.values()].filter(({ keep }) => keep).map(({ frame }) => frame));
  }

  #cancel(name) {
    this.#clock.clearTimeout(this.#timers[name]);
    delete this.#timers[name];
  }
}
