/** The session list: its pages, its search, its changes, and what is unread. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { isUnread, LIST_SIZE } from "#studio/listing";
import { initialState, reduce } from "#studio/reduce";

const session = (key, updatedAt = 1, over = {}) => ({ key, title: key, state: "idle", queueLength: 0, updatedAt, ...over });
const page = (from, count) => Array.from({ length: count }, (_, index) => session(`k${from + index}`, 1000 - from - index));
const reply = (sessions, request = {}, over = {}) => ({
  type: "studio_chat_sessions_ok", ok: true, sessions, request: { limit: LIST_SIZE, ...request }, ...over,
});
const play = (frames, state = initialState({ sessionKey: "k0" })) => frames.reduce(reduce, state);
const keys = (sessions) => sessions.map(({ key }) => key);
const FIRST = page(0, LIST_SIZE);

test("pages follow one another, and a short one is the last", () => {
  const one = play([{ type: "page_list_asked" }, reply(FIRST)]);
  assert.deepEqual(one.listing, { cursor: "k49", done: false, loading: false });
  const two = play([{ type: "page_list_asked", before: "k49" }, reply(page(50, 3), { before: "k49" })], one);
  assert.deepEqual(two.listing, { cursor: "k52", done: true, loading: false });
  assert.deepEqual(keys(two.sessions), keys(page(0, 53)));
});

test("an old session that is told of meanwhile is shown and makes no gap in the pages", () => {
  const old = { type: "studio_chat_session", session: session("old", 5) };
  const state = play([reply(FIRST), old]);
  assert.equal(state.sessions.at(-1).key, "old");
  assert.equal(state.listing.cursor, "k49");
});

test("a list that is read anew forgets what is gone, but not the session that is open", () => {
  const open = play([reply([session("k0"), session("gone", 2)])]);
  assert.deepEqual(keys(play([reply([session("k9", 9)])], open).sessions), ["k9", "k0"]);
});

test("when the last one known has been deleted, the list begins anew", () => {
  const state = play([reply(FIRST), reply(undefined, { before: "k49" }, { ok: false, code: "not_found" })]);
  assert.deepEqual(state.listing, { cursor: null, done: false, loading: false });
});

test("what cannot be read is not asked for again and again", () => {
  const state = play([reply(FIRST), reply(undefined, { before: "k49" }, { ok: false, code: "disconnected" })]);
  assert.equal(state.listing.done, true);
  assert.equal(play([reply(FIRST)], state).listing.done, false);
});

test("a search keeps to the query that was asked last", () => {
  const asked = play([reply(FIRST), { type: "page_list_asked", query: "a" }, { type: "page_list_asked", query: "ab" }]);
  assert.equal(asked.search.loading, true);
  const late = reduce(asked, reply([session("late")], { query: "a" }));
  assert.equal(late.search.sessions, null);
  const found = reduce(late, reply([session("hit", 1, { excerpt: "…ab…" })], { query: "ab" }));
  assert.deepEqual(keys(found.search.sessions), ["hit"]);
  assert.equal(found.search.done, true);
  assert.equal(found.sessions.length, LIST_SIZE);
  assert.equal(reduce(found, { type: "page_list_asked", query: "" }).search, null);
});

test("what was found shows what changes and keeps its excerpt", () => {
  const found = play([{ type: "page_list_asked", query: "a" }, reply([session("hit", 1, { excerpt: "…a…" })], { query: "a" })]);
  const changed = reduce(found, { type: "studio_chat_session", session: session("hit", 2, { title: "new", state: "running" }) });
  assert.deepEqual(changed.search.sessions, [session("hit", 2, { title: "new", state: "running", excerpt: "…a…" })]);
  const gone = reduce(changed, { type: "studio_chat_session", session: { key: "hit", deleted: true } });
  assert.deepEqual(gone.search.sessions, []);
});

const answer = (what, over = {}) => ({
  type: `studio_chat_session_${what}_ok`, ok: true, request: { type: `studio_chat_session_${what}`, sessionKey: "k1" }, ...over,
});

test("a new title is shown when the server has taken it, and a refusal is said", () => {
  const state = play([reply(FIRST)]);
  const renamed = reduce(state, answer("rename", { session: { ...FIRST[1], title: "new" } }));
  assert.equal(renamed.sessions.find(({ key }) => key === "k1").title, "new");
  const refused = reduce(state, answer("rename", { ok: false, code: "invalid", error: "Too long." }));
  assert.equal(refused.listNotice.code, "invalid");
  assert.equal(reduce(refused, { type: "page_list_notice_closed" }).listNotice, null);
});

test("a deleted session is gone, also when somebody else was quicker; one that could not be stopped stays", () => {
  const state = play([reply(FIRST)]);
  const has = (next) => keys(next.sessions).includes("k1");
  assert.equal(has(reduce(state, answer("delete"))), false);
  assert.equal(has(reduce(state, answer("delete", { ok: false, code: "not_found" }))), false);
  const conflict = reduce(state, answer("delete", { ok: false, code: "conflict", error: "" }));
  assert.equal(has(conflict), true);
  assert.equal(conflict.listNotice.sessionKey, "k1");
});

test("a session begun elsewhere is unread when its answer ends", () => {
  const begun = { type: "studio_chat_session", session: session("new", 5, { state: "running" }) };
  const ended = session("new", 6);
  const state = play([reply(FIRST), begun, { ...begun, session: ended }]);
  assert.equal(isUnread(state, ended), true);
});
