/** What the queue says: how many wait, and what will become of them. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { queueTitle, stateOf } from "#studio/queue-words";

const answer = (status, abortReason = null) => ({ active: null, messages: [{ role: "assistant", status, abortReason }, { role: "user" }] });

for (const [name, conversation, holds, words] of [
  ["while an answer runs", { ...answer("streaming"), active: {} }, [], "sent in turn when the answer is complete"],
  ["after a stop", answer("aborted", "session_stop"), [], "kept: nothing will be sent until you say so"],
  ["after an error", answer("error"), [], "kept: nothing will be sent until you say so"],
  ["after an answer that made way for a message", answer("aborted", "user_interrupt"), [], "sent in turn"],
  ["after a clean end", answer("completed"), [], "sent in turn"],
  ["under a hold", answer("completed"), [{}], "kept: nothing is sent while new runs are on hold"],
]) {
  test(`${name}: ${words}`, () => assert.equal(queueTitle(conversation, 2, holds), `2 messages wait · ${words}`));
}

test("one message waits", () => assert.match(queueTitle(answer("completed"), 1, []), /^1 message waits · /));

test("an item says what goes on with it", () => {
  const state = (asked, connection = "live", editing = false) => stateOf({ asked, editing }, connection);
  assert.equal(state(null), "");
  assert.equal(state(null, "live", true), "Edited elsewhere; not sent meanwhile");
  assert.equal(state("studio_chat_send_now"), "Sent next");
  assert.equal(state("studio_chat_send"), "Sending…");
  assert.equal(state("studio_chat_queue_edit"), "Saving…");
  assert.equal(state("studio_chat_queue_edit", "offline"), "Waits for the connection");
});
