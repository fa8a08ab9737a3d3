/** The store: snapshots, events, holes, ends, and what the page asked for. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { fates } from "#studio/conversation";
import { initialState, isUnread, openConversation, reduce, unsentDrafts } from "#studio/reduce";

const KEY = "k1";
const RUN = "run-1";
const SESSION = { key: KEY, title: "T", state: "idle", roleId: null, model: null, queueLength: 0, updatedAt: 1, warnings: [] };

const row = (over = {}) => ({
  id: "a1", sessionKey: KEY, role: "assistant", status: "streaming", text: "", parts: [], abortReason: null, timeoutKind: null,
  error: null, finishReason: null, executionId: RUN, usage: null, stop: null, interruptedPrevious: false, continuesId: null,
  replacesId: null, createdAt: 1, finishedAt: null, ...over,
});
const userRow = (over = {}) => row({ id: "u1", role: "user", status: "completed", text: "hi", ...over });
const event = (type, seq, over = {}) => ({ type: `studio_chat_${type}`, sessionKey: KEY, executionId: RUN, seq, ...over });
const delta = (seq, offset, text, over = {}) =>
  event("delta", seq, { messageId: "a1", part: 0, kind: "text", offset, text, ...over });
const snapshot = (over = {}) => ({
  type: "studio_chat_subscribe_ok", ok: true, request: { type: "studio_chat_subscribe", sessionKey: KEY, limit: 50 },
  session: SESSION, messages: [], queue: [], active: null, holds: [], ...over,
});
const result = (seq, over = {}) =>
  event("result", seq, { ok: true, messageId: "a1", status: "completed", text: "", abortReason: null, ...over });

const play = (frames, state = initialState({ sessionKey: KEY })) => frames.reduce(reduce, state);
const opened = (over) => play([{ type: "page_subscribing", sessionKey: KEY }, snapshot(over)]);
const conversationAfter = (frames, state) => openConversation(play(frames, state));

const RUN_FRAMES = [
  event("message", 1, { message: userRow() }),
  event("message", 2, { message: row() }),
  event("progress", 3, { phase: "streaming", step: 1, maxSteps: 8, elapsedMs: 5, outputTokens: 0 }),
  delta(4, 0, "Hé", { startedAt: 10 }),
  delta(5, 2, "llo 🌲"),
  event("tool", 6, { messageId: "a1", part: 1, callId: "c1", name: "add", state: "running", input: { a: 1 }, startedAt: 20 }),
  event("tool", 7, { messageId: "a1", part: 1, callId: "c1", name: "add", state: "completed", output: "2", durationMs: 5 }),
  delta(8, 0, "done", { part: 2, startedAt: 30 }),
];
const SETTLED = row({ status: "completed", text: "Héllo 🌲done", parts: [{ kind: "text", step: 1, text: "Héllo 🌲done" }] });

test("events applied to the snapshot before a run give the snapshot in the middle of it", () => {
  const parts = [
    { kind: "text", step: 1, text: "Héllo 🌲", startedAt: 10 },
    {
      kind: "tool", step: 1, callId: "c1", name: "add", state: "completed", input: { a: 1 }, output: "2", error: null,
      startedAt: 20, durationMs: 5,
    },
    { kind: "text", step: 1, text: "done", startedAt: 30 },
  ];
  const progress = { phase: "streaming", step: 1, maxSteps: 8, elapsedMs: 5, outputTokens: 0 };
  const fresh = opened({
    messages: [userRow(), row({ parts, text: "Héllo 🌲done" })],
    active: { executionId: RUN, messageId: "a1", seq: 8, progress },
  });
  assert.deepEqual(play(RUN_FRAMES, opened()), fresh);
});

test("an offset counts code points, so a delta after an emoji fits", () => {
  const state = play([...RUN_FRAMES.slice(0, 5), delta(6, 7, "!")], opened());
  assert.equal(openConversation(state).messages[1].text, "Héllo 🌲!");
  assert.equal(openConversation(state).stale, false);
});

test("the part of a delta that is already there is not repeated", () => {
  const { messages } = conversationAfter([...RUN_FRAMES.slice(0, 5), delta(6, 5, " 🌲!")], opened());
  assert.equal(messages[1].text, "Héllo 🌲!");
});

test("an event that the snapshot holds already changes nothing", () => {
  const state = play(RUN_FRAMES, opened());
  assert.equal(openConversation(reduce(state, delta(5, 2, "llo 🌲"))), openConversation(state));
});

test("a hole in the numbers asks for a new snapshot and applies nothing", () => {
  const conversation = conversationAfter([...RUN_FRAMES.slice(0, 4), delta(9, 2, "x")], opened());
  assert.equal(conversation.stale, true);
  assert.equal(conversation.messages[1].text, "Hé");
});

test("a run that is first heard of in its middle asks for a new snapshot", () => {
  assert.equal(conversationAfter([delta(4, 0, "x")], opened()).stale, true);
});

test("a delta that starts behind the known text asks for a new snapshot", () => {
  assert.equal(conversationAfter([...RUN_FRAMES.slice(0, 4), delta(5, 7, "x")], opened()).stale, true);
});

test("the settled message replaces the streamed one and the result ends the run", () => {
  const conversation = conversationAfter([...RUN_FRAMES, event("message", 9, { message: SETTLED }), result(10)], opened());
  assert.deepEqual(conversation.messages, [userRow(), SETTLED]);
  assert.equal(conversation.active, null);
  assert.equal(conversation.stale, false);
});

test("after an end without a number the numbered events of that run are dropped", () => {
  const end = [event("message", null, { message: SETTLED }), result(null)];
  const conversation = conversationAfter([...RUN_FRAMES, ...end, delta(9, 4, "late", { part: 2 })], opened());
  assert.deepEqual(conversation.messages[1], SETTLED);
  assert.equal(conversation.stale, false);
});

test("a snapshot that is older than a known end is read again", () => {
  const state = play([...RUN_FRAMES, event("message", 9, { message: SETTLED }), result(10)], opened());
  const old = snapshot({ messages: [userRow(), row()], active: { executionId: RUN, messageId: "a1", seq: 8, progress: null } });
  const conversation = openConversation(reduce(state, old));
  assert.equal(conversation.active, null);
  assert.equal(conversation.stale, true);
});

test("a result whose settled message was lost asks for a new snapshot", () => {
  assert.equal(conversationAfter([...RUN_FRAMES, result(9)], opened()).stale, true);
});

test("each end is announced once", () => {
  const settled = [...RUN_FRAMES, event("message", 9, { message: SETTLED })];
  const once = play([...settled, result(10, { status: "aborted", abortReason: "panic_stop" })], opened());
  assert.deepEqual(once.announcement, { executionId: RUN, status: "aborted", abortReason: "panic_stop", timeoutKind: null });
  assert.equal(reduce(once, result(10)).announcement, once.announcement);
});

test("a message seen through another process opens the run without numbers", () => {
  const conversation = conversationAfter([event("message", null, { message: row({ text: "so far" }) })], opened());
  assert.equal(conversation.active.executionId, RUN);
  assert.equal(conversation.messages[0].text, "so far");
});

test("a turn that another worker tells of too late stands before the later one, and is not the running one", () => {
  const later = [userRow({ id: "12", executionId: "run-2" }), row({ id: "13", executionId: "run-2" })];
  const running = { executionId: "run-2", messageId: "13", seq: 4, progress: null };
  const late = [userRow({ id: "10" }), row({ id: "9" }), row({ id: "11" })].map((message) => event("message", null, { message }));
  const conversation = conversationAfter(late, opened({ messages: later, active: running }));
  assert.deepEqual(conversation.messages.map(({ id }) => id), ["9", "10", "11", "12", "13"]);
  assert.deepEqual(conversation.active, running);
});

test("a later turn that another worker tells of outlives the end of the one before", () => {
  const began = event("message", null, { executionId: "run-2", message: row({ id: "13", executionId: "run-2" }) });
  const ended = [event("message", null, { message: row({ id: "11", status: "aborted" }) }), result(null, { messageId: "11" })];
  const running = { executionId: RUN, messageId: "11", seq: 4, progress: null };
  const conversation = conversationAfter([began, ...ended], opened({ messages: [row({ id: "11" })], active: running }));
  assert.equal(conversation.active.executionId, "run-2");
});

test("a stop is being stopped from the click until the result", () => {
  const asked = play([...RUN_FRAMES, { type: "page_stop_asked", sessionKey: KEY }], opened());
  assert.deepEqual(openConversation(asked).stopping, { executionId: RUN, unconfirmed: false });
  const ended = play([event("message", 9, { message: SETTLED }), result(10)], asked);
  assert.equal(openConversation(ended).stopping, null);
});

const stopReply = (over) => ({
  type: "studio_chat_stop_session_ok", ok: true, request: { type: "studio_chat_stop_session", sessionKey: KEY },
  abortedCount: 1, activeCount: 0, unconfirmedCount: 0, alreadyFinishedCount: 0, ...over,
});

test("a stop that the owner has not confirmed can be asked again", () => {
  const asked = [...RUN_FRAMES, { type: "page_stop_asked", sessionKey: KEY }];
  const { stopping } = conversationAfter([...asked, stopReply({ abortedCount: 0, unconfirmedCount: 1 })], opened());
  assert.equal(stopping.unconfirmed, true);
});

test("a confirmed stop whose result is still missing is read again", () => {
  assert.equal(conversationAfter([...RUN_FRAMES, stopReply({})], opened()).stale, true);
});

test("a refused stop gives the button back and says why", () => {
  const asked = [...RUN_FRAMES, { type: "page_stop_asked", sessionKey: KEY }];
  const refused = stopReply({ ok: false, code: "internal", error: "database" });
  const { stopping, notice } = conversationAfter([...asked, refused], opened());
  assert.equal(stopping, null);
  assert.equal(notice.code, "internal");
});

test("what was asked of one run does not stick to the next", () => {
  const asked = play([...RUN_FRAMES, { type: "page_stop_asked", sessionKey: KEY }], opened());
  const next = snapshot({ messages: [row({ id: "a2" })], active: { executionId: "run-2", messageId: "a2", seq: 3, progress: null } });
  assert.equal(openConversation(reduce(asked, next)).stopping, null);
});

for (const [name, over] of [["confirmed", {}], ["unconfirmed", { abortedCount: 0, unconfirmedCount: 1 }]]) {
  test(`a late answer, ${name}, to a stop of one run leaves the next one's Stop as it was`, () => {
    const asked = play([...RUN_FRAMES, { type: "page_stop_asked", sessionKey: KEY }], opened());
    const next = snapshot({ messages: [row({ id: "a2" })], active: { executionId: "run-2", messageId: "a2", seq: 3, progress: null } });
    const reply = stopReply({ request: { type: "studio_chat_stop_session", sessionKey: KEY, executionId: RUN }, ...over });
    assert.equal(conversationAfter([next, reply], asked).stopping, null);
  });
}

const SEND = { type: "page_send_asked", sessionKey: KEY, clientMessageId: "m1", text: "typed" };
const sendReply = (over) => ({
  type: "studio_chat_send_ok", ok: true, request: { type: "studio_chat_send", sessionKey: KEY, clientMessageId: "m1", text: "typed" },
  ...over,
});

test("a sent message waits in the outbox until it is answered", () => {
  const sending = play([{ type: "page_draft", sessionKey: KEY, text: "typed" }, SEND], opened());
  assert.deepEqual(openConversation(sending).outbox, [{ clientMessageId: "m1", text: "typed" }]);
  assert.equal(openConversation(sending).draft, "");
  assert.deepEqual(openConversation(reduce(sending, sendReply())).outbox, []);
});

test("a refused message comes back in front of what was typed since", () => {
  const refused = sendReply({ ok: false, code: "held", error: "Held." });
  const { draft, notice, outbox } = conversationAfter([SEND, { type: "page_draft", sessionKey: KEY, text: "more" }, refused], opened());
  assert.equal(draft, "typed\n\nmore");
  assert.deepEqual(notice, { code: "held", error: "Held.", request: "studio_chat_send" });
  assert.deepEqual(outbox, []);
});

test("a message that was sent twice over a broken connection makes the page read again", () => {
  assert.equal(conversationAfter([SEND, sendReply({ resent: true })], opened()).stale, true);
});

test("a session of this page is not asked for before its first message", () => {
  const state = play([{ type: "page_open", sessionKey: "new", fresh: true }, { type: "page_connection", status: "live" }]);
  assert.equal(openConversation(state).stale, false);
  assert.equal(openConversation(state).loaded, true);
});

test("the open conversation is read again after a reconnect", () => {
  const away = { type: "page_connection", status: "reconnecting", code: 1006, retryInMs: 700 };
  assert.equal(conversationAfter([away, { type: "page_connection", status: "live" }], opened()).stale, true);
});

test("an unknown session is missing, not an error", () => {
  const reply = snapshot({ ok: false, code: "not_found", error: "?" });
  const { missing, notice } = conversationAfter([reply]);
  assert.equal(missing, true);
  assert.equal(notice, null);
});

test("an older page goes in front and a later snapshot keeps it there", () => {
  const page = Array.from({ length: 2 }, (_, n) => userRow({ id: `p${n}` }));
  const request = { type: "studio_chat_subscribe", sessionKey: KEY, limit: 2, before: "u1" };
  const latest = snapshot({ messages: [userRow()] });
  const read = play([latest, snapshot({ messages: page, request })]);
  const ids = (state) => openConversation(state).messages.map(({ id }) => id);
  assert.deepEqual(ids(read), ["p0", "p1", "u1"]);
  assert.equal(openConversation(read).hasOlder, true);
  assert.deepEqual(ids(reduce(read, latest)), ["p0", "p1", "u1"]);
});

test("a session that changed elsewhere is unread until it is opened", () => {
  const other = { ...SESSION, key: "k2", updatedAt: 5 };
  const listed = play([{ type: "studio_chat_sessions_ok", ok: true, sessions: [SESSION, other] }]);
  assert.equal(isUnread(listed, other), false);
  const changed = { ...other, updatedAt: 9 };
  const told = reduce(listed, { type: "studio_chat_session", session: changed });
  assert.equal(isUnread(told, changed), true);
  assert.deepEqual(told.sessions.map(({ key }) => key), ["k2", KEY]);
  assert.equal(isUnread(reduce(told, { type: "page_open", sessionKey: "k2" }), changed), false);
});

test("a session left while it runs is unread when its answer ends", () => {
  const running = { ...SESSION, key: "k2", state: "running" };
  const left = play([
    { type: "studio_chat_sessions_ok", ok: true, sessions: [SESSION, running] },
    { type: "page_open", sessionKey: "k2" },
    { type: "page_open", sessionKey: KEY },
  ]);
  const ended = { ...running, state: "idle" };
  assert.equal(isUnread(left, running), false);
  assert.equal(isUnread(reduce(left, { type: "studio_chat_session", session: ended }), ended), true);
});

test("a session deleted elsewhere leaves the list, and the open one says that it is gone", () => {
  const state = play([{ type: "studio_chat_session", session: { key: KEY, deleted: true } }], opened());
  assert.deepEqual(state.sessions, []);
  assert.equal(openConversation(state).missing, true);
});

test("what was written is what a reload must bring back; what is on its way is kept by the connection", () => {
  const state = play([SEND, { type: "page_draft", sessionKey: KEY, text: "more" }], opened());
  assert.deepEqual(unsentDrafts(state), { [KEY]: "more" });
  assert.deepEqual(unsentDrafts(play([sendReply(), { type: "page_draft", sessionKey: KEY, text: "" }], state)), {});
});

test("a draft of an earlier load is there when its session is opened, and kept until then", () => {
  const state = initialState({ drafts: { k9: "half a thought", new: "a start" } });
  assert.deepEqual(unsentDrafts(state), { k9: "half a thought" });
  assert.equal(openConversation(reduce(state, { type: "page_open", sessionKey: "k9" })).draft, "half a thought");
});

test("an answer is replaced by the one that was asked for anew, and continued by the one that goes on", () => {
  const rows = [userRow(), row(), row({ id: "a2", replacesId: "a1" }), row({ id: "a3", continuesId: "a2" })];
  assert.deepEqual([...fates(rows)], [["a1", "replaced"], ["a2", "continued"]]);
});

test("a message that was sent anew replaces the old one with all its answers", () => {
  const rows = [row({ id: "a0" }), userRow(), row(), row({ id: "a2" }), userRow({ id: "u2", replacesId: "u1" }), row({ id: "a3" })];
  assert.deepEqual([...fates(rows).keys()], ["u1", "a1", "a2"]);
});

test("a notice of a hold goes with the last hold, and another one stays", () => {
  const noted = (code) => play([SEND, sendReply({ ok: false, code, error: "" })], opened());
  const after = (code, holds) => openConversation(reduce(noted(code), { type: "studio_chat_hold", holds })).notice;
  assert.equal(after("held", []), null);
  assert.equal(after("held", [{ id: "h1" }]).code, "held");
  assert.equal(after("queue_full", []).code, "queue_full");
});

test("what a panic did is told where it was asked, and not in the next session", () => {
  const told = play([{ type: "page_panic_asked" }, { type: "studio_chat_panic_ok", ok: true, abortedCount: 1 }], opened());
  assert.equal(told.panic.reply.abortedCount, 1);
  assert.deepEqual(reduce(told, { type: "page_open", sessionKey: "k2" }).panic, { asked: false, reply: null });
});

test("a failed command is noted where it was asked", () => {
  const reply = { type: "studio_chat_continue_ok", ok: false, code: "conflict", error: "Busy.", request: { type: "studio_chat_continue", sessionKey: KEY } };
  assert.equal(conversationAfter([reply], opened()).notice.code, "conflict");
});

const older = (over) => ({ ...snapshot(over), request: { type: "studio_chat_subscribe", sessionKey: KEY, limit: 50, before: "u1" } });

test("an announcement tells which clock ran out, as the card does", () => {
  const timeout = { ok: false, status: "aborted", abortReason: "timeout", timeoutKind: "idle" };
  assert.equal(play([...RUN_FRAMES, result(9, timeout)], opened()).announcement.timeoutKind, "idle");
});

test("an older page is asked for once, and may be asked for again when it did not come", () => {
  const asked = reduce(opened({ messages: [userRow()] }), { type: "page_older_asked", sessionKey: KEY });
  assert.equal(openConversation(asked).loadingOlder, true);
  const failed = openConversation(reduce(asked, older({ ok: false, code: "disconnected" })));
  assert.deepEqual([failed.loadingOlder, failed.missing, failed.notice], [false, false, null]);
  const came = openConversation(reduce(asked, older({ messages: [row({ id: "a0" })] })));
  assert.deepEqual([came.loadingOlder, came.messages.map(({ id }) => id)], [false, ["a0", "u1"]]);
});

test("messages far from the end are let go, and can be read again", () => {
  const messages = Array.from({ length: 120 }, (_, index) => userRow({ id: `u${index}` }));
  const kept = conversationAfter([{ type: "page_older_forgotten", sessionKey: KEY }], opened({ messages }));
  assert.deepEqual([kept.messages.length, kept.messages.at(-1).id, kept.hasOlder], [50, "u119", true]);
});

test("a message that could not be sent anew says why", () => {
  const reply = { type: "studio_chat_resend_ok", ok: false, code: "held", error: "", request: { type: "studio_chat_resend", sessionKey: KEY } };
  assert.equal(conversationAfter([reply], opened()).notice.code, "held");
});

test("an unknown frame changes nothing", () => {
  const state = opened();
  assert.equal(reduce(state, { type: "studio_chat_tomorrow" }), state);
});
