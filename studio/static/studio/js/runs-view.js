/**
 * Which runs are shown, in which order, and in which words. Pure.
 */
import { duration } from "#studio/format";
import { describeNotice } from "#studio/notice";
import { isLive, stateOf } from "#studio/runs";
import { fill, gettext } from "#studio/text";

/** @returns {object[]} the rows that pass the filters, sorted; equals stand newest first, as the server tells them */
export function shownRows({ rows, filters, sort, stops, clockMs }, nowMs) {
  const passing = (rows ?? []).filter((row) => passes(row, filters, stops));
  const value = SORTS[sort.by];
  const keyed = passing.map((row) => [value(row, { stops, nowMs: nowMs + clockMs }), row]);
  const direction = sort.down ? -1 : 1;
  return keyed.toSorted(([a], [b]) => direction * compare(a, b)).map(([, row]) => row);
}

/** What a filter offers: each value that is there, and the one that is chosen. */
export function choicesFor(field, { rows, filters }) {
  const values = new Set((rows ?? []).map((row) => row[field]).filter(Boolean));
  if (filters[field]) values.add(filters[field]);
  return [...values].sort((a, b) => a.localeCompare(b));
}

export const isFiltered = (filters) => Object.values(filters).some(Boolean);

export function elapsedMs(row, nowMs) {
  return Math.max(0, (row.finishedAt ?? nowMs) - row.startedAt);
}

/** @returns {{tone: string, words: string, notes: string[]}} what a row's state is, and what there is to say of it */
export function describeRun(row, stops) {
  const stop = stops[row.id];
  if (isLive(row)) return { ...LIVE[stateOf(row, stops)](), notes: liveNotes(row, stop) };
  const [tone, words] = (row.status === "aborted" ? ABORTS[row.abortReason] : ENDS[row.status])?.() ?? ["lost", row.status];
  return { tone, words, notes: endNotes(row, stop) };
}

const LIVE = {
  running: () => ({ tone: "running", words: gettext("running") }),
  stopping: () => ({ tone: "stopping", words: gettext("stopping…") }),
};
const ENDS = {
  completed: () => ["done", gettext("completed")],
  error: () => ["error", gettext("failed")],
};
const ABORTS = {
  session_stop: () => ["stop", gettext("stopped")],
  panic_stop: () => ["panic", gettext("stopped by Panic")],
  timeout: () => ["timeout", gettext("timed out")],
  user_interrupt: () => ["done", gettext("interrupted by a new message")],
  disconnect: () => ["lost", gettext("stopped: nobody was watching")],
  shutdown: () => ["lost", gettext("stopped: the server shut down")],
  worker_lost: () => ["error", gettext("its server was lost")],
  deleted: () => ["lost", gettext("stopped: the session was deleted")],
};

function liveNotes(row, stop) {
  const notes = row.requestedBy ? [fill(gettext("ordered by %(name)s"), { name: row.requestedBy })] : [];
  if (stop?.outcome === "unconfirmed") notes.push(gettext("not confirmed yet: its server obeys when it can; you may stop it again"));
  if (stop?.outcome === "failed") notes.push(describeNotice({ ...stop, error: "", request: "studio_chat_stop_session" }).text);
  return notes;
}

function endNotes(row, stop) {
  const notes = [];
  if (stop?.outcome === "finished") notes.push(gettext("had already finished"));
  if (row.requestedBy) notes.push(fill(gettext("by %(name)s"), { name: row.requestedBy }));
  if (row.reason) notes.push(row.reason);
  if (row.error) notes.push(row.error);
  if (row.upstreamClosedMs !== null) {
    notes.push(fill(gettext("provider closed after %(time)s"), { time: duration(row.upstreamClosedMs) }));
  }
  return notes;
}

/** How the last stop went, counted from what was answered. */
export function countOutcomes(batch, stops) {
  const counts = { asked: 0, confirmed: 0, unconfirmed: 0, finished: 0, failed: 0 };
  for (const id of batch) counts[stops[id]?.outcome ?? "asked"] += 1;
  return counts;
}

function passes(row, { text, state, ...exact }, stops) {
  if (Object.entries(exact).some(([field, wanted]) => wanted && row[field] !== wanted)) return false;
  if (state && stateOf(row, stops) !== state) return false;
  const words = [row.user, row.sessionKey, row.model, row.worker, row.kind, row.id].join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => words.includes(word));
}

const STATES = ["stopping", "running", "ended"];
const SORTS = {
  startedAt: (row) => row.startedAt,
  elapsed: (row, { nowMs }) => elapsedMs(row, nowMs),
  state: (row, { stops }) => -STATES.indexOf(stateOf(row, stops)),
  user: (row) => row.user,
  kind: (row) => row.kind,
  model: (row) => row.model,
  worker: (row) => row.worker,
  steps: (row) => row.steps,
  tokens: (row) => row.usage.inputTokens + row.usage.outputTokens,
  cost: (row) => row.usage.costUsd,
};

/** What is not known comes before everything. */
function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return typeof a === "string" ? a.localeCompare(b) : a - b;
}
