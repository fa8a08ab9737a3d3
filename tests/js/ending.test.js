/** The cards: one for each way to end, from the stored message alone. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { announceEnding, canContinue, describeEnding, endingNote, tookWords, usageWords } from "#studio/ending";
import { describeNotice } from "#studio/notice";

const READER = { userName: "ann" };
const FIXED = "Execução interrompida por Parar Sessão.";
const message = (over = {}) => ({
  status: "aborted", abortReason: "session_stop", timeoutKind: null, error: FIXED, text: "Hé 🌲", parts: [], finishedAt: 1,
  usage: { inputTokens: 1200, outputTokens: 3, costUsd: null, estimated: true },
  stop: { by: "ann", source: "web", requestedAt: 1, upstreamClosedMs: 2.4, settledMs: 1500 }, ...over,
});
const fact = (ending, label) => ending.facts.find((one) => one.label === label)?.value;

const TONES = {
  session_stop: "stop", panic_stop: "panic", timeout: "timeout", worker_lost: "lost", shutdown: "lost", disconnect: "lost",
  deleted: "lost", user_interrupt: "quiet",
};
for (const [abortReason, tone] of Object.entries(TONES)) {
  test(`an end by ${abortReason} has its own words and never the contract's`, () => {
    const ending = describeEnding(message({ abortReason }), READER);
    assert.equal(ending.tone, tone);
    assert.equal(ending.subtle, abortReason === "user_interrupt");
    assert.doesNotMatch(JSON.stringify(ending), /Execução|Timeout da/);
  });
}

test("each clock that can run out is told apart", () => {
  const titles = ["total", "first_token", "idle"].map(
    (timeoutKind) => describeEnding(message({ abortReason: "timeout", timeoutKind }), READER).title,
  );
  assert.equal(new Set(titles).size, 3);
});

test("a clean end and a running answer have no card", () => {
  for (const status of ["completed", "streaming"]) assert.equal(describeEnding(message({ status }), READER), null);
});

test("an error shows what the server said", () => {
  const ending = describeEnding(message({ status: "error", abortReason: null, stop: null, error: "The key is wrong." }), READER);
  assert.equal(ending.detail, "The key is wrong.");
  assert.equal(ending.tone, "error");
});

test("a card says what was kept, by whom it was stopped and how long it took", () => {
  const ending = describeEnding(message(), READER);
  assert.equal(ending.kept, "2 words · 4 characters");
  assert.equal(fact(ending, "By"), "you (ann)");
  assert.equal(fact(ending, "Connection to the model closed after"), "2 ms");
  assert.equal(fact(ending, "Saved after"), "1.5 sec");
  assert.equal(fact(ending, "Tokens"), "about 1,200 in, 3 out");
});

test("a card tells the reason that the operator wrote, and nothing where none was written", () => {
  const stop = (reason) => ({ by: "op", source: "web", requestedAt: 1, upstreamClosedMs: 1, settledMs: 1, reason });
  const told = (reason) => describeEnding(message({ abortReason: "panic_stop", stop: stop(reason) }), READER).reason;
  assert.equal(told("<b>Maintenance</b>"), "Reason: <b>Maintenance</b>");
  assert.deepEqual([null, undefined, ""].map(told), ["", "", ""]);
});

test("only what has a beginning can be continued", () => {
  const tool = (state) => [{ kind: "tool", state }];
  assert.equal(canContinue(message({ text: "half" })), true);
  assert.equal(canContinue(message({ text: "", parts: tool("completed") })), true);
  assert.equal(canContinue(message({ text: "", parts: tool("aborted") })), false);
  assert.equal(canContinue(message({ text: " \n" })), false);
  assert.equal(canContinue(message({ status: "error", text: "" })), false);
});

test("the time that an answer took is told when both its ends are known", () => {
  assert.equal(tookWords({ createdAt: 1000, finishedAt: 3500 }), "2.5 sec");
  assert.equal(tookWords({ createdAt: 1000, finishedAt: null }), "");
});

test("a stop before any output says so", () => {
  assert.equal(describeEnding(message({ text: "" }), READER).kept, "Nothing had arrived yet");
});

test("what is not known is not shown", () => {
  const ending = describeEnding(message({ stop: null, usage: null }), READER);
  assert.deepEqual(ending.facts.map(({ label }) => label), ["At"]);
});

test("a limit of the server has a card of its own for each, and says what the server said", () => {
  const titles = ["max_output_tokens", "max_cost", "repeated_call"].map((finishReason) => {
    const ending = describeEnding(message({ status: "error", abortReason: null, stop: null, error: "100 tokens.", finishReason }), READER);
    assert.deepEqual([ending.tone, ending.detail], ["limit", "100 tokens."]);
    return ending.title;
  });
  assert.equal(new Set(titles).size, 3);
});

test("an answer that the model or its provider cut says so, and a whole one does not", () => {
  const note = (finishReason) => endingNote({ status: "completed", finishReason });
  assert.match(note("length").title, /no longer/);
  assert.match(note("content_filter").title, /filter/);
  assert.deepEqual([note("stop"), note(null), endingNote({ status: "streaming", finishReason: null })], [null, null, null]);
});

test("a card says from where it was stopped, if not from here", () => {
  const from = (source) => fact(describeEnding(message({ stop: { ...message().stop, source } }), READER), "From");
  assert.deepEqual(["admin", "command", "web", "clock"].map(from), ["the administration", "the command line", undefined, undefined]);
});

test("a reason of a newer server still has a card", () => {
  assert.equal(describeEnding(message({ abortReason: "tomorrow" }), READER).title, "Stopped");
});

test("the cost is shown where it is known", () => {
  assert.deepEqual(usageWords({ inputTokens: 1, outputTokens: 2, costUsd: 0.0021, estimated: false }), ["1 in, 2 out", "$0.0021"]);
});

test("each end can be said in one sentence", () => {
  assert.equal(announceEnding({ status: "completed" }), "The answer is complete.");
  assert.equal(announceEnding({ status: "aborted", abortReason: "panic_stop" }), "Stopped by Panic");
});

test("under a hold one sentence says it, and speaks of a kept text only where one was sent", () => {
  const said = (request) => describeNotice({ code: "held", error: "New runs are on hold by op.", request });
  assert.deepEqual(["studio_chat_send", "studio_chat_regenerate"].map((one) => said(one).detail), ["", ""]);
  assert.match(said("studio_chat_send").text, /your text is kept/);
  assert.doesNotMatch(said("studio_chat_regenerate").text, /kept/);
});

test("every code of the contract has words, and an unknown one too", () => {
  const codes = ["not_found", "forbidden", "held", "queue_full", "invalid", "stale", "conflict", "internal", "too_large"];
  for (const code of [...codes, "tomorrow"]) assert.ok(describeNotice({ code, error: "", request: null }).text, code);
});
