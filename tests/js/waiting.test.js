/** What is on its way: shown once, foreseen in the queue, given back when it is refused or comes too late. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Actions } from "#studio/actions";
import { initialState, openConversation, reduce } from "#studio/reduce";
import { createStore } from "#studio/store";
import { shownQueue, stillMeant } from "#studio/waiting";

const KEY = "k1";
const item = (id, over = {}) => ({ id, text: `text ${id}`, clientMessageId: `m${id}`, createdAt: 1, editing: false, ...over });
let store, asked, restored, actions;

beforeEach(() => {
  [asked, restored] = [[], []];
  store = createStore(reduce, initialState({ sessionKey: KEY, drafts: { [KEY]: "a draft", k2: "another" } }));
  const request = (frame, options) => asked.push({ frame, ...options });
  actions = new Actions(store, { request, restore: (frames) => restored.push(...frames) });
  tellQueue(item("1"), item("2"), item("3"));
});

const tellQueue = (...queue) => store.dispatch({ type: "studio_chat_queue", sessionKey: KEY, queue });
const shown = () => shownQueue(openConversation(store.state));
const ids = () => shown().map(({ id }) => id);
const last = () => asked.at(-1).frame;
const answer = (reply) => store.dispatch({ type: `${last().type}_ok`, request: last(), ...reply });

for (const [what, ask] of [
  ["an edit", () => actions.editQueued(KEY, "1", "new")],
  ["a move", () => actions.moveQueued(KEY, "1", 2)],
  ["a removal", () => actions.removeQueued(KEY, "1")],
  ["Send now", () => actions.sendNow(KEY, "1")],
]) {
  test(`${what} is kept until it is answered, under an id that stays`, () => {
    ask();
    assert.equal(asked[0].keep, true);
    assert.deepEqual(openConversation(store.state).asked, [asked[0].frame]);
    assert.match(asked[0].frame.requestId, /^[0-9a-f]{32}$/);
    answer({ ok: true });
    assert.deepEqual(openConversation(store.state).asked, []);
  });
}

test("a move is shown at once, and the server's order once it is told", () => {
  actions.moveQueued(KEY, "1", 2);
  assert.deepEqual(ids(), ["2", "3", "1"]);
  answer({ ok: true, queue: [item("2"), item("1"), item("3")] });
  assert.deepEqual(ids(), ["2", "1", "3"]);
});

test("an edit is shown at once, and again after a snapshot that does not hold it yet", () => {
  actions.editQueued(KEY, "2", "better");
  tellQueue(item("1"), item("2"), item("3"));
  const { text, asked: under } = shown()[1];
  assert.deepEqual([text, under], ["better", "studio_chat_queue_edit"]);
});

test("a removed item is gone at once, and one that was gone already is no fault", () => {
  actions.removeQueued(KEY, "2");
  assert.deepEqual(ids(), ["1", "3"]);
  answer({ ok: false, code: "not_found" });
  assert.equal(openConversation(store.state).notice, null);
});

test("an edit that came too late is given back to the composer, before what is written there", () => {
  actions.editQueued(KEY, "2", "better");
  tellQueue(item("1"), item("3"));
  answer({ ok: false, code: "stale", error: "Taken." });
  const { draft, notice } = openConversation(store.state);
  assert.equal(draft, "better\n\na draft");
  assert.deepEqual(notice, { code: "stale", error: "Taken.", request: "studio_chat_queue_edit" });
});

test("what is edited while its item goes is given to the composer", () => {
  actions.rescue(KEY, "half typed");
  assert.equal(openConversation(store.state).draft, "half typed\n\na draft");
});

test("a message on its way is shown once: in the outbox, then in the queue", () => {
  store.dispatch({
    type: "studio_chat_message", sessionKey: KEY, executionId: "r", seq: 1,
    message: { id: "a1", role: "assistant", status: "streaming", text: "", parts: [] },
  });
  actions.send(KEY, "next", { whenBusy: "interrupt" });
  assert.deepEqual(shown().map(({ id, asked: under }) => [id, under]).at(-1), [null, "studio_chat_send"]);
  const { clientMessageId } = last();
  tellQueue(item("1"), item("2"), item("3"), item("4", { clientMessageId, text: "next" }));
  assert.deepEqual(ids(), ["1", "2", "3", "4"]);
  answer({ ok: false, code: "internal" });
  assert.equal(openConversation(store.state).draft, "");
});

test("what an earlier page kept is on its way again, with the drafts left alone, in whichever session", () => {
  const send = { type: "studio_chat_send", requestId: "r1", sessionKey: "k2", text: "sent in the gap", clientMessageId: "m9" };
  const stop = { type: "studio_chat_stop_session", requestId: "r2", sessionKey: KEY, executionId: "run" };
  const edit = { type: "studio_chat_queue_edit", requestId: "r3", sessionKey: KEY, queueId: "3", text: "kept" };
  actions.restore([send, stop, edit]);
  const { [KEY]: here, k2: there } = store.state.conversations;
  assert.deepEqual([here.draft, there.draft], ["a draft", "another"]);
  assert.deepEqual(there.outbox, [{ clientMessageId: "m9", text: "sent in the gap" }]);
  assert.deepEqual(here.stopping, { executionId: "run", unconfirmed: false });
  assert.equal(shown()[2].text, "kept");
  assert.deepEqual(restored, [send, stop, edit]);
});

test("a session that only a message on its way knows of is not missing", () => {
  actions.restore([{ type: "studio_chat_send", requestId: "r1", sessionKey: KEY, text: "first", clientMessageId: "m9" }]);
  store.dispatch({ type: "studio_chat_subscribe_ok", ok: false, code: "not_found", request: { sessionKey: KEY } });
  assert.equal(openConversation(store.state).missing, false);
});

test("a kept stop that names no run is sent again only after the message that it meant", () => {
  const send = { type: "studio_chat_send", requestId: "r1", sessionKey: KEY, text: "first", clientMessageId: "m9" };
  const stop = { type: "studio_chat_stop_session", requestId: "r2", sessionKey: KEY };
  assert.deepEqual(stillMeant([send, stop]), [send, stop]);
  assert.deepEqual(stillMeant([stop, { ...send, sessionKey: "k2" }, stop]), [{ ...send, sessionKey: "k2" }]);
  assert.deepEqual(stillMeant([{ ...stop, executionId: "run" }]), [{ ...stop, executionId: "run" }]);
});
