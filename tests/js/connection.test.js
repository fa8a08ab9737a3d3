/** The connection: replies, breaks, kept requests, the heartbeat. No real socket, no real clock. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { backoffMs, Connection, OPEN_WITHIN_MS, PING_ANSWER_MS, PING_EVERY_MS, WAKE_ANSWER_MS } from "#studio/connection";

class FakeSocket extends EventTarget {
  sent = [];
  closed = false;
  readyState = 1;

  send(text) {
    this.sent.push(JSON.parse(text));
  }

  close() {
    this.closed = true;
  }

  accept() {
    this.dispatchEvent(new Event("open"));
  }

  receive(frame) {
    this.dispatchEvent(Object.assign(new Event("message"), { data: JSON.stringify(frame) }));
  }

  break(code) {
    this.dispatchEvent(Object.assign(new Event("close"), { code }));
  }
}

class FakeClock {
  #timers = new Map();
  #id = 0;

  setTimeout = (run, ms) => this.#timers.set(++this.#id, { run, ms }) && this.#id;
  clearTimeout = (id) => this.#timers.delete(id);

  get waits() {
    return [...this.#timers.values()].map(({ ms }) => ms);
  }

  fire() {
    const [[id, { run }]] = this.#timers;
    this.#timers.delete(id);
    run();
  }
}

let sockets, frames, statuses, loggedOut, kept, clock, connection;
const socket = () => sockets.at(-1);
const types = (one = socket()) => one.sent.map(({ type }) => type);

beforeEach(() => {
  [sockets, frames, statuses, loggedOut, kept, clock] = [[], [], [], 0, null, new FakeClock()];
  let id = 0;
  connection = new Connection({
    open: () => sockets[sockets.push(new FakeSocket()) - 1],
    onFrame: (frame) => frames.push(frame),
    onStatus: (status) => statuses.push(status),
    onLoggedOut: () => (loggedOut += 1),
    onKept: (requests) => (kept = requests),
    newId: () => `r${++id}`,
    clock,
  });
  connection.connect();
});

test("a reply comes with the request that it answers", () => {
  socket().accept();
  connection.request({ type: "studio_chat_options" });
  socket().receive({ type: "studio_chat_options_ok", ok: true, requestId: "r1" });
  assert.deepEqual(frames[0].request, { type: "studio_chat_options", requestId: "r1" });
});

test("a result with the id of its send is an event, not a second reply", () => {
  socket().accept();
  connection.request({ type: "studio_chat_send" });
  socket().receive({ type: "studio_chat_result", requestId: "r1" });
  assert.equal(frames[0].request, undefined);
});

test("an error frame answers its request as a refusal", () => {
  socket().accept();
  connection.request({ type: "studio_chat_send", text: "x" });
  socket().receive({ type: "studio_chat_error", ok: false, code: "too_large", requestId: "r1" });
  assert.equal(frames[0].type, "studio_chat_send_ok");
  assert.equal(frames[0].code, "too_large");
});

test("a request without a connection is answered at once", () => {
  connection.request({ type: "studio_chat_queue_remove" });
  assert.equal(frames[0].code, "disconnected");
});

test("a kept request is sent when the connection is there, after what the page asks first", () => {
  connection.request({ type: "studio_chat_send" }, { keep: true });
  assert.deepEqual(frames, []);
  statuses.push = () => connection.request({ type: "studio_chat_subscribe" });
  socket().accept();
  assert.deepEqual(types(), ["studio_chat_subscribe", "studio_chat_send"]);
});

test("a kept request whose reply was lost is sent again under the same id", () => {
  socket().accept();
  connection.request({ type: "studio_chat_send", clientMessageId: "m1" }, { keep: true });
  const [first] = socket().sent;
  socket().break(1006);
  clock.fire();
  socket().accept();
  assert.deepEqual(socket().sent, [first]);
  socket().receive({ type: "studio_chat_send_ok", ok: true, requestId: first.requestId });
  assert.equal(frames[0].resent, true);
});

test("an answered request is not sent again", () => {
  socket().accept();
  connection.request({ type: "studio_chat_send" }, { keep: true });
  socket().receive({ type: "studio_chat_send_ok", ok: true, requestId: "r1" });
  socket().break(1006);
  clock.fire();
  socket().accept();
  assert.deepEqual(types(), []);
});

test("other requests fail when the connection breaks", () => {
  socket().accept();
  connection.request({ type: "studio_chat_queue_remove" });
  socket().break(1006);
  assert.equal(frames[0].code, "disconnected");
});

for (const code of [1001, 1005, 1006, 1011, 1012, 1013, 4408]) {
  test(`a close with ${code} is followed by a new connection`, () => {
    socket().break(code);
    assert.equal(statuses.at(-1).status, "reconnecting");
    clock.fire();
    assert.equal(sockets.length, 2);
  });
}

for (const code of [1000, 1009, 4403, 4429]) {
  test(`a close with ${code} stays closed`, () => {
    socket().accept();
    socket().break(code);
    assert.deepEqual(statuses.at(-1), { status: "closed", code });
    assert.deepEqual(clock.waits, []);
  });
}

test("a close with 4401 leads to the login", () => {
  socket().break(4401);
  assert.equal(loggedOut, 1);
});

test("an answered ping is followed by the next one", () => {
  socket().accept();
  clock.fire();
  assert.deepEqual(types(), ["studio_chat_ping"]);
  assert.deepEqual(clock.waits, [PING_ANSWER_MS]);
  socket().receive({ type: "studio_chat_ping_ok", ok: true, requestId: "r1" });
  assert.deepEqual(clock.waits, [PING_EVERY_MS]);
});

test("an unanswered ping closes the socket and connects again", () => {
  socket().accept();
  clock.fire();
  clock.fire();
  assert.equal(sockets[0].closed, true);
  assert.equal(statuses.at(-1).code, 4408);
  clock.fire();
  sockets[0].receive({ type: "studio_chat_queue" });
  sockets[0].break(1006);
  assert.equal(sockets.length, 2);
  assert.deepEqual(frames, []);
});

test("the wait has full jitter between half a second and eight", () => {
  assert.equal(backoffMs(0, () => 0), 500);
  assert.equal(backoffMs(0, () => 1), 1000);
  assert.equal(backoffMs(2, () => 1), 4000);
  assert.equal(backoffMs(30, () => 1), 8000);
  assert.equal(backoffMs(30, () => 0.5), 4250);
});

test("what is kept is told until it is answered, and the next page sends it under the same id", () => {
  connection.request({ type: "studio_chat_options" });
  connection.request({ type: "studio_chat_send", requestId: "own" }, { keep: true });
  assert.deepEqual(kept, [{ type: "studio_chat_send", requestId: "own" }]);
  const [later, before] = [kept, connection];
  before.restore(later); // as a page does that begins with what another left
  socket().accept();
  assert.deepEqual(socket().sent, later);
  socket().receive({ type: "studio_chat_send_ok", ok: true, requestId: "own" });
  assert.equal(frames.at(-1).resent, true);
  assert.deepEqual(kept, []);
});

test("a socket that does not open in time is given up", () => {
  assert.deepEqual(clock.waits, [OPEN_WITHIN_MS]);
  clock.fire();
  assert.equal(sockets[0].closed, true);
  assert.equal(statuses.at(-1).status, "reconnecting");
});

test("a page that wakes asks at once whether its socket lives, and does not wait long for the answer", () => {
  socket().accept();
  connection.wake();
  assert.deepEqual(types(), ["studio_chat_ping"]);
  assert.deepEqual(clock.waits, [WAKE_ANSWER_MS]);
  clock.fire();
  assert.equal(statuses.at(-1).code, 4408);
});

test("a page that wakes between two attempts connects at once, and says so", () => {
  socket().break(1006);
  connection.wake();
  assert.equal(sockets.length, 2);
  assert.deepEqual(statuses.at(-1), { status: "reconnecting" });
  connection.wake();
  assert.equal(sockets.length, 2);
});

test("nothing is sent into a socket that is closing, and a kept request goes out on the next one", () => {
  socket().accept();
  socket().readyState = 2;
  connection.request({ type: "studio_chat_send" }, { keep: true });
  assert.deepEqual(types(), []);
  socket().break(1006);
  clock.fire();
  socket().accept();
  assert.deepEqual(types(), ["studio_chat_send"]);
});
