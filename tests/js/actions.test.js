/** What a person's actions send, and what they do before the server has answered. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Actions } from "#studio/actions";
import { initialState, openConversation, reduce } from "#studio/reduce";
import { createStore } from "#studio/store";

const KEY = "k1";
let store, asked, actions;

beforeEach(() => {
  asked = [];
  store = createStore(reduce, initialState({ sessionKey: KEY }));
  actions = new Actions(store, { request: (frame, options) => asked.push({ ...frame, ...options }) });
});

const begin = () =>
  store.dispatch({
    type: "studio_chat_message", sessionKey: KEY, executionId: "run-1", seq: 1,
    message: { id: "a1", role: "assistant", status: "streaming", text: "", parts: [] },
  });

test("a message is kept until it is answered, under an id of its own", () => {
  actions.send(KEY, "hello", { model: "m" });
  const [{ type, text, model, keep, clientMessageId }] = asked;
  assert.deepEqual({ type, text, model, keep }, { type: "studio_chat_send", text: "hello", model: "m", keep: true });
  assert.equal(openConversation(store.state).outbox[0].clientMessageId, clientMessageId);
});

test("a message that is too long is given back at once, and not sent", () => {
  const text = "ж".repeat(33_000);
  actions.send(KEY, text, {});
  assert.deepEqual(asked, []);
  const { draft, notice, outbox } = openConversation(store.state);
  assert.deepEqual({ draft, code: notice.code, outbox }, { draft: text, code: "too_large", outbox: [] });
});

for (const status of ["live", "reconnecting"]) {
  test(`a stop while ${status} names the run, so that a resend after a gap cannot hit a later one`, () => {
    begin();
    store.dispatch({ type: "page_connection", status });
    actions.stop(KEY);
    const stop = { type: "studio_chat_stop_session", sessionKey: KEY, executionId: "run-1", keep: true };
    assert.deepEqual(asked, [stop]);
  });
}

test("a stop before the run is known means the whole session", () => {
  actions.stop(KEY);
  assert.deepEqual(asked, [{ type: "studio_chat_stop_session", sessionKey: KEY, keep: true }]);
});

test("leaving a session unsubscribes from it, unless the server never heard of it", () => {
  const fresh = actions.openNew();
  assert.deepEqual(asked, [{ type: "studio_chat_unsubscribe", sessionKey: KEY }]);
  assert.match(fresh, /^[A-Za-z0-9_-]{1,64}$/);
  actions.open(KEY);
  assert.equal(asked.length, 1);
});
