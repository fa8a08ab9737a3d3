/**
 * The Runs page's memory: `reduceRuns(state, frame)`. Pure.
 *
 * A row is an execution as the server tells it, live or ended lately; one that has not changed stays the same object. What
 * was asked of a row and how that was answered stands beside it, by its id.
 */
import { initialWatch, WATCHING } from "#studio/watching";

export const ALL = { text: "", user: "", model: "", worker: "", state: "" };

/** @param {{filters?: object}} page what the address asks for */
export function initialRuns({ filters = {} } = {}) {
  return {
    ...initialWatch(),
    connection: { status: "connecting", code: null, retryInMs: null },
    options: null,
    holds: [],
    rows: null,
    clockMs: 0, // the server's clock less this browser's
    selected: new Set(),
    stops: {},
    batch: [],
    filters: { ...ALL, ...filters },
    sort: { by: "startedAt", down: true },
    notice: null,
  };
}

export function reduceRuns(state, frame) {
  const handle = HANDLERS[frame.type];
  return handle ? handle(state, frame) : state;
}

export const isLive = (row) => row.status === "running";

const ON_ITS_WAY = new Set(["asked", "confirmed", "unconfirmed"]);

/** @returns {"running"|"stopping"|"ended"} */
export function stateOf(row, stops) {
  if (!isLive(row)) return "ended";
  return row.requestedBy || row.source || ON_ITS_WAY.has(stops[row.id]?.outcome) ? "stopping" : "running";
}

/** A stop goes by session and execution, and one of somebody else's needs its own permission. */
export function canStop(row, { options }, userName) {
  const allowed = row.user === userName || (options?.permissions.stopAny ?? false);
  return isLive(row) && row.sessionKey !== null && allowed;
}

const HANDLERS = {
  ...WATCHING,
  page_connection: (state, { status, code = null, retryInMs = null }) => ({
    ...state,
    connection: { status, code, retryInMs },
  }),
  page_filter: (state, { type: _, ...filter }) => ({ ...state, filters: { ...state.filters, ...filter } }),
  page_sort: (state, { by, down }) => ({ ...state, sort: { by, down: down ?? (state.sort.by !== by || !state.sort.down) } }),
  page_select: select,
  page_stop_asked: stopAsked,
  page_batch_closed: (state) => ({ ...state, batch: [] }),
  page_notice_closed: (state) => ({ ...state, notice: null }),

  studio_chat_options_ok: (state, { ok, models, permissions }) =>
    ok ? { ...state, options: { models, permissions } } : state,
  studio_chat_executions_subscribe_ok: (state, reply) => (reply.ok ? listed(state, reply) : noteFailure(state, reply)),
  studio_chat_executions: listed,
  studio_chat_stop_session_ok: stopAnswered,
  studio_chat_release_ok: noteFailure,
  studio_chat_error: noteFailure,
};

function listed(state, frame) {
  const next = WATCHING.studio_chat_executions(state, frame);
  const before = new Map((state.rows ?? []).map((row) => [row.id, row]));
  const rows = [...next.live.executions, ...next.live.ended].map((row) => unchanged(before.get(row.id), row));
  const live = new Set(rows.filter(isLive).map(({ id }) => id));
  const known = new Set([...rows.map(({ id }) => id), ...state.batch]);
  return {
    ...next,
    rows,
    holds: next.live.holds,
    clockMs: "timestamp" in frame ? frame.timestamp - frame.heardAt : state.clockMs,
    selected: new Set([...state.selected].filter((id) => live.has(id))),
    stops: Object.fromEntries(Object.entries(state.stops).filter(([id]) => known.has(id))),
  };
}

function unchanged(before, row) {
  return before && JSON.stringify(before) === JSON.stringify(row) ? before : row;
}

/** @param {{ids: string[], on: boolean}} how */
function select(state, { ids, on }) {
  const selected = new Set(state.selected);
  ids.forEach((id) => (on ? selected.add(id) : selected.delete(id)));
  return { ...state, selected };
}

function stopAsked(state, { ids }) {
  const asked = Object.fromEntries(ids.map((id) => [id, { outcome: "asked", code: null }]));
  return { ...state, stops: { ...state.stops, ...asked }, batch: ids, selected: new Set() };
}

function stopAnswered(state, { ok, code, request, ...counts }) {
  const outcome = ok ? outcomeOf(counts) : "failed";
  return { ...state, stops: { ...state.stops, [request.executionId]: { outcome, code: ok ? null : code } } };
}

/** A stop of one execution counts it once. */
function outcomeOf({ abortedCount, unconfirmedCount }) {
  if (abortedCount > 0) return "confirmed";
  return unconfirmedCount > 0 ? "unconfirmed" : "finished";
}

function noteFailure(state, { ok, code, error, request }) {
  return ok ? state : { ...state, notice: { code, error, request: request?.type ?? null } };
}
