/** The Runs page's memory, and what it shows of it. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { canStop, initialRuns, reduceRuns, stateOf } from "#studio/runs";
import { choicesFor, countOutcomes, describeRun, elapsedMs, shownRows } from "#studio/runs-view";
import { hitBy, totalsOf } from "#studio/watching";

const usage = { inputTokens: 10, outputTokens: 5, costUsd: null, estimated: true };
const run = (id, more = {}) => ({
  id,
  kind: "turn",
  sessionKey: `s-${id}`,
  user: "ann",
  worker: "one:1",
  model: "m",
  status: "running",
  abortReason: null,
  requestedBy: null,
  source: null,
  startedAt: 1000,
  finishedAt: null,
  upstreamClosedMs: null,
  steps: 1,
  usage,
  ...more,
});
const aborted = (id, more = {}) =>
  run(id, { status: "aborted", abortReason: "session_stop", finishedAt: 3000, requestedBy: "op", upstreamClosedMs: 2, ...more });
const group = (user, model, live, waiting = 0, more = {}) => ({
  user, model, live, waiting, inputTokens: 0, outputTokens: 0, costUsd: null, ...more,
});
const list = (executions, ended = [], groups = [], holds = []) => ({
  type: "studio_chat_executions", executions, ended, groups, holds,
});
const after = (...frames) => frames.reduce(reduceRuns, initialRuns());
const ids = (state, nowMs = 10_000) => shownRows(state, nowMs).map(({ id }) => id);

test("a row that has not changed stays the same object, and one that has does not", () => {
  const first = after(list([run("a"), run("b")]));
  const second = reduceRuns(first, list([run("a"), run("b", { steps: 2 })]));
  assert.equal(second.rows[0], first.rows[0]);
  assert.notEqual(second.rows[1], first.rows[1]);
});

test("what ended stays in the list, where it was, with its end", () => {
  const state = after(list([run("b", { startedAt: 2 }), run("a", { startedAt: 1 })]), list([run("a", { startedAt: 1 })], [aborted("b", { startedAt: 2 })]));
  assert.deepEqual(ids(state), ["b", "a"]);
  const { tone, words, notes } = describeRun(state.rows.find(({ id }) => id === "b"), state.stops);
  assert.deepEqual([tone, words], ["stop", "stopped"]);
  assert.deepEqual(notes, ["by op", "provider closed after 2 ms"]);
});

test("each end has words of its own", () => {
  const words = (more) => describeRun(run("a", { finishedAt: 2, ...more }), {}).words;
  const reasons = ["session_stop", "panic_stop", "timeout", "user_interrupt", "disconnect", "shutdown", "worker_lost", "deleted"];
  const all = reasons.map((abortReason) => words({ status: "aborted", abortReason }));
  assert.equal(new Set([...all, words({ status: "completed" }), words({ status: "error" })]).size, reasons.length + 2);
});

test("a stop that was asked is under way at once, and is answered row by row", () => {
  const asked = after(list([run("a"), run("b"), run("c")]), { type: "page_stop_asked", ids: ["a", "b", "c"] });
  assert.deepEqual(asked.rows.map((row) => stateOf(row, asked.stops)), ["stopping", "stopping", "stopping"]);
  const answer = (id, counts) => ({
    type: "studio_chat_stop_session_ok", ok: true, abortedCount: 0, unconfirmedCount: 0, alreadyFinishedCount: 0,
    request: { type: "studio_chat_stop_session", executionId: id }, ...counts,
  });
  const state = [answer("a", { abortedCount: 1 }), answer("b", { unconfirmedCount: 1 }), answer("c", { alreadyFinishedCount: 1 })]
    .reduce(reduceRuns, asked);
  const none = { asked: 0, failed: 0 };
  assert.deepEqual(countOutcomes(state.batch, state.stops), { ...none, confirmed: 1, unconfirmed: 1, finished: 1 });
  assert.match(describeRun(state.rows[1], state.stops).notes.join(), /not confirmed yet/);
});

test("a stop that failed says so at its row, which runs on", () => {
  const state = after(list([run("a")]), { type: "page_stop_asked", ids: ["a"] }, {
    type: "studio_chat_stop_session_ok", ok: false, code: "internal", request: { executionId: "a" },
  });
  assert.equal(stateOf(state.rows[0], state.stops), "running");
  assert.match(describeRun(state.rows[0], state.stops).notes.join(), /could not be recorded/);
});

test("how the last stop went is remembered after its rows are gone", () => {
  const state = after(
    list([run("a")]),
    { type: "page_stop_asked", ids: ["a"] },
    { type: "studio_chat_stop_session_ok", ok: true, abortedCount: 1, unconfirmedCount: 0, request: { executionId: "a" } },
    list([]),
  );
  assert.equal(countOutcomes(state.batch, state.stops).confirmed, 1);
});

test("what was ordered elsewhere is stopping too, and names who ordered it", () => {
  const row = run("a", { requestedBy: "op", source: "command" });
  assert.equal(stateOf(row, {}), "stopping");
  assert.deepEqual(describeRun(row, {}).notes, ["ordered by op"]);
});

test("what has ended is chosen no more", () => {
  const state = after(list([run("a"), run("b")]), { type: "page_select", ids: ["a", "b"], on: true }, list([run("a")], [aborted("b")]));
  assert.deepEqual([...state.selected], ["a"]);
});

test("one's own runs can be stopped; those of others only by who may", () => {
  const may = (row, stopAny) => canStop(row, { options: { permissions: { stopAny } } }, "ann");
  assert.deepEqual([may(run("a"), false), may(run("b", { user: "bob" }), false), may(run("b", { user: "bob" }), true)], [true, false, true]);
  assert.equal(may(aborted("a"), true), false);
  assert.equal(may(run("a", { sessionKey: null }), true), false);
});

test("filters narrow by person, model, worker, state and words, together", () => {
  const rows = [run("a"), run("b", { user: "bob", model: "other" }), aborted("c"), run("d", { worker: "two:2" })];
  const state = after(list(rows.filter(({ status }) => status === "running"), [rows[2]]));
  const shown = (filter) => ids(reduceRuns(state, { type: "page_filter", ...filter })).sort();
  assert.deepEqual(shown({ user: "bob" }), ["b"]);
  assert.deepEqual(shown({ model: "m", worker: "one:1" }), ["a", "c"]);
  assert.deepEqual(shown({ state: "ended" }), ["c"]);
  assert.deepEqual(shown({ text: "ANN two" }), ["d"]);
  assert.deepEqual(shown({}), ["a", "b", "c", "d"]);
});

test("a filter offers what is there, and what was asked for though it is not", () => {
  const state = { ...after(list([run("a", { user: "bob" }), run("b"), run("c", { user: null })])), filters: { user: "eve" } };
  assert.deepEqual(choicesFor("user", state), ["ann", "bob", "eve"]);
});

test("a second click on a column turns its order round; what is not known comes first, or last", () => {
  const priced = (costUsd) => ({ usage: { ...usage, costUsd } });
  const state = after(list([run("a", priced(0.2)), run("b", priced(null)), run("c", priced(0.1))]), { type: "page_sort", by: "cost" });
  assert.deepEqual(ids(state), ["a", "c", "b"]);
  assert.deepEqual(ids(reduceRuns(state, { type: "page_sort", by: "cost" })), ["b", "c", "a"]);
});

test("seconds are counted by the server's clock, and end with the run", () => {
  const state = after({ ...list([run("a", { startedAt: 5000 })]), type: "studio_chat_executions_subscribe_ok", ok: true, timestamp: 9000, heardAt: 1000 });
  assert.equal(state.clockMs, 8000);
  assert.equal(elapsedMs(state.rows[0], 1000 + state.clockMs), 4000);
  assert.equal(elapsedMs(aborted("a"), 99_000), 2000);
});

test("a panic hits what its scope names: the runs, their people, and what waits", () => {
  const live = { groups: [group("ann", "m", 2, 1), group("ann", "other", 1), group("bob", "m", 1, 3), group(null, "m", 1)] };
  assert.deepEqual(hitBy(live), { runs: 5, people: 2, waiting: 4 });
  assert.deepEqual(hitBy(live, { user: "ann" }), { runs: 3, people: 1, waiting: 1 });
  assert.deepEqual(hitBy(live, { model: "m" }), { runs: 4, people: 2, waiting: 4 });
  assert.deepEqual(hitBy(live, { user: "bob", model: "other" }), { runs: 0, people: 0, waiting: 0 });
});

test("a price that is not known is no price of nothing", () => {
  assert.equal(totalsOf({ groups: [group("ann", "m", 1)] }).costUsd, null);
  assert.equal(totalsOf({ groups: [group("ann", "m", 1, 0, { costUsd: 0.5 }), group("bob", "m", 1)] }).costUsd, 0.5);
});

test("every hold is in the list's own words, whomever it affects", () => {
  const hold = { id: "1", reason: "", by: "op", at: 1, scope: { user: "bob" } };
  assert.deepEqual(after(list([], [], [], [hold])).holds, [hold]);
});
