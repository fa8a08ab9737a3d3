/** Where the time of an answer went. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { timeline, writtenMs } from "#studio/timeline";

const text = (step, startedAt) => ({ kind: "text", step, text: "x", startedAt });
const call = (step, startedAt, durationMs, over = {}) => ({
  kind: "tool", step, name: "add", state: "completed", startedAt, durationMs, ...over,
});
const answer = (parts, over = {}) => ({ parts, createdAt: 1000, finishedAt: 9000, ...over });
const told = (message) => timeline(message).map(({ kind, step, ms }) => [kind, step, ms]);

test("a plain answer has no timeline", () => {
  assert.deepEqual(timeline(answer([text(1, 1500)])), []);
  assert.deepEqual(timeline(answer([])), []);
});

test("model and tools follow one another, and their times add up", () => {
  const parts = [text(1, 1100), call(1, 2200, 400), text(2, 3000), call(2, 4000, 1000), text(3, 6000)];
  assert.deepEqual(told(answer(parts)), [
    ["model", 1, 1200], ["tool", 1, 400], ["model", 2, 1400], ["tool", 2, 1000], ["model", 3, 4000],
  ]);
});

test("tools of one step run together, and the next step begins after the slowest", () => {
  const parts = [call(1, 2000, 500), call(1, 2000, 3000, { name: "slow" }), text(2, 5500)];
  assert.deepEqual(told(answer(parts)), [["model", 1, 1000], ["tool", 1, 500], ["tool", 1, 3000], ["model", 2, 4000]]);
  assert.deepEqual(timeline(answer(parts))[2], { kind: "tool", step: 1, name: "slow", state: "completed", ms: 3000 });
});

test("what still runs, or was lost, has no time yet", () => {
  const running = answer([call(1, 2000, null, { state: "running" })], { finishedAt: null });
  assert.deepEqual(told(running), [["model", 1, 1000], ["tool", 1, null]]);
  assert.deepEqual(told(answer([call(1, 2000, null), text(2, 3000)])), [["model", 1, 1000], ["tool", 1, null], ["model", 2, null]]);
});

test("an answer kept without times has no timeline", () => {
  assert.deepEqual(timeline(answer([{ kind: "tool", step: 1, name: "add", state: "completed" }])), []);
});

test("clocks that differ give no negative time", () => {
  assert.deepEqual(told(answer([call(1, 500, 10)])), [["model", 1, 0], ["tool", 1, 10]]);
});

test("reasoning took until the next part began, or the answer ended", () => {
  const parts = [{ ...text(1, 1000), kind: "reasoning" }, text(1, 4000)];
  assert.equal(writtenMs(answer(parts), 0), 3000);
  assert.equal(writtenMs(answer(parts), 1), 5000);
  assert.equal(writtenMs(answer(parts.slice(0, 1), { finishedAt: null }), 0), null);
  assert.equal(writtenMs(answer([{ kind: "reasoning", step: 1, text: "old" }]), 0), null);
});
