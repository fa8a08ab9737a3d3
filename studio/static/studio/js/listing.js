/**
 * The session list: pages of it, a search in it, and what is unread. Pure; each function gives the next state.
 *
 * Promise: what is loaded is in order and without gaps down to `listing.cursor`; a session that came to be known otherwise
 * (it is open, or it has just changed) is shown too, and moves no cursor.
 */

export const LIST_SIZE = 50; // sessions of one page

export const emptyListing = {
  sessions: null,
  listing: { cursor: null, done: false, loading: false },
  search: null, // {query, sessions, done, loading}
  listNotice: null,
};

export const openSession = (state) => state.sessions?.find(({ key }) => key === state.open) ?? null;
export const isUnread = (state, session) =>
  session.key !== state.open && session.key in state.seen && state.seen[session.key] !== mark(session);

/** A page was asked for; with a `query` that differs, a new search begins; an empty one ends it. */
export function listAsked(state, { query = null }) {
  if (query === null) return { ...state, listing: { ...state.listing, loading: true } };
  if (query === "") return { ...state, search: null };
  const again = { query, sessions: state.search?.sessions ?? null, done: false };
  const search = state.search?.query === query ? state.search : again;
  return { ...state, search: { ...search, loading: true } };
}

/** A page has come. A page after a session that is gone begins anew. */
export function listed(state, { ok, sessions, code, request }) {
  const { query = null, before = null, limit = LIST_SIZE } = request ?? {};
  if (query !== null) return state.search?.query === query ? searched(state, { ok, sessions, before, limit }) : state;
  if (!ok) return { ...state, listing: failed(state.listing, code) };
  const listing = { cursor: sessions.at(-1)?.key ?? state.listing.cursor, done: sessions.length < limit, loading: false };
  const known = (state.sessions ?? []).filter(({ key }) => before !== null || key === state.open);
  return markSeen({ ...withMarks(state, sessions), sessions: latestFirst(merged(known, sessions)), listing });
}

/** @param {object} session as an event or a reply tells it; `deleted` ones go */
export function withSession(state, session) {
  if (session.deleted) return withoutSession(state, session.key);
  const search = state.search?.sessions && {
    ...state.search,
    sessions: state.search.sessions.map((one) => (one.key === session.key ? { ...one, ...session } : one)),
  };
  const sessions = latestFirst(merged(state.sessions ?? [], [session]));
  return markSeen({ ...withMarks(state, [session]), sessions, search: search ?? state.search });
}

export function withoutSession(state, sessionKey) {
  const others = (sessions) => sessions?.filter(({ key }) => key !== sessionKey) ?? null;
  const search = state.search && { ...state.search, sessions: others(state.search.sessions) };
  return { ...state, sessions: others(state.sessions), search };
}

/** A rename or a deletion was answered; what could not be done is said where it was asked. */
export function sessionChanged(state, { ok, code, error, request, session }) {
  const gone = code === "not_found" && request.type === "studio_chat_session_delete";
  if (!ok && !gone) return { ...state, listNotice: { code, error, request: request.type, sessionKey: request.sessionKey } };
  const next = { ...state, listNotice: null };
  return withSession(next, session ?? { key: request.sessionKey, deleted: true });
}

/** What is open is seen. */
export function markSeen(state) {
  const session = openSession(state);
  return session ? { ...state, seen: { ...state.seen, [session.key]: mark(session) } } : state;
}

function searched(state, { ok, sessions, before, limit }) {
  if (!ok) return { ...state, search: { ...state.search, done: true, loading: false } };
  const found = before === null ? sessions : merged(state.search.sessions ?? [], sessions);
  const search = { ...state.search, sessions: found, done: sessions.length < limit, loading: false };
  return { ...withMarks(state, sessions), search };
}

/** Without a connection nothing more is asked for; with the next one the list is read anew. */
const failed = ({ cursor }, code) =>
  code === "not_found" ? emptyListing.listing : { cursor, done: true, loading: false };

/** What is met for the first time counts as seen, as it is then. */
function withMarks(state, sessions) {
  const unknown = sessions.filter(({ key }) => !(key in state.seen)).map((session) => [session.key, mark(session)]);
  return unknown.length === 0 ? state : { ...state, seen: { ...state.seen, ...Object.fromEntries(unknown) } };
}

function merged(known, news) {
  const keys = new Set(news.map(({ key }) => key));
  return [...known.filter(({ key }) => !keys.has(key)), ...news];
}

/** Changes with each message, and once more when the answer ends. */
const mark = ({ updatedAt, state }) => `${updatedAt}-${state}`;

const latestFirst = (sessions) => sessions.toSorted((a, b) => new Date(b.updatedAt) - new Date(a.updatedAt));
