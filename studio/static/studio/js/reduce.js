/**
 * The page's whole memory: `reduce(state, frame)`. Pure; a frame in, the next state out, the old one untouched.
 *
 * Frames come from the server (`studio_chat_*`; a reply carries the `request` that it answers) and from the page itself
 * (`page_*`). An unknown frame changes nothing, so that a newer server does not break an older page.
 */
import {
  applyOlderPage,
  applyRunEvent,
  applySnapshot,
  emptyConversation,
  forgetOlder,
  markStale,
} from "#studio/conversation";
import { initialWatch, WATCHING } from "#studio/watching";
import * as list from "#studio/listing";
import { queueAnswered, queueAsked, rescued, restored, sendAnswered, sendAsked, withQueue } from "#studio/waiting";

export const NEW = "new"; // the name of what was written into a session that has no message yet

/**
 * @param {object} page what the browser knows when the page is loaded
 * @param {string|null} [page.sessionKey] of the session to open
 * @param {Object<string, string>} [page.seen] the mark of each session as it was last seen
 * @param {Object<string, string>} [page.drafts] what was written and not sent, by session
 * @param {string|null} [page.usualModel] the model chosen last, in whichever session
 */
export function initialState({ sessionKey = null, seen = {}, drafts = {}, usualModel = null } = {}) {
  const conversation = { ...emptyConversation(), stale: true, draft: drafts[sessionKey] ?? "" };
  return {
    connection: { status: "connecting", code: null, retryInMs: null },
    options: null,
    ...list.emptyListing,
    seen,
    drafts,
    usualModel,
    chosen: {},
    open: sessionKey,
    conversations: sessionKey ? { [sessionKey]: conversation } : {},
    holds: [],
    closedWarnings: [],
    ...initialWatch(),
    announcement: null,
  };
}

export function reduce(state, frame) {
  const handle = HANDLERS[frame.type];
  return handle ? handle(state, frame) : state;
}

export const openConversation = (state) => state.conversations[state.open] ?? null;
export { isUnread, openSession } from "#studio/listing";

/** What was written and not sent, by session. A session has its name with its first message on the way. */
export function unsentDrafts(state) {
  const written = Object.entries(state.conversations).map(([key, { fresh, outbox, draft }]) => [
    fresh && outbox.length === 0 ? NEW : key,
    draft,
  ]);
  const { [NEW]: _, ...notOpened } = state.drafts;
  return Object.fromEntries(Object.entries({ ...notOpened, ...Object.fromEntries(written) }).filter(([, text]) => text));
}

const HANDLERS = {
  ...WATCHING,
  page_connection: (state, { status, code = null, retryInMs = null }) => reconnected(state, { status, code, retryInMs }),
  page_open: (state, { sessionKey, fresh = false }) => openOne(state, sessionKey, fresh),
  page_subscribing: (state, { sessionKey }) => change(state, sessionKey, () => ({ stale: false, subscribing: true })),
  page_older_asked: (state, { sessionKey }) => change(state, sessionKey, () => ({ loadingOlder: true })),
  page_older_forgotten: (state, { sessionKey }) => change(state, sessionKey, forgetOlder),
  page_draft: (state, { sessionKey, text }) => change(state, sessionKey, () => ({ draft: text })),
  page_choice: chosen,
  page_list_asked: list.listAsked,
  page_list_notice_closed: (state) => ({ ...state, listNotice: null }),
  page_notice_closed: (state, { sessionKey }) => change(state, sessionKey, () => ({ notice: null })),
  page_warning_closed: (state, { warning }) => ({ ...state, closedWarnings: [...state.closedWarnings, warning] }),
  page_restored: restoredOne,
  page_send_asked: (state, request) => change(state, request.sessionKey, (one) => sendAsked(one, request)),
  page_queue_asked: (state, { request }) => change(state, request.sessionKey, (one) => queueAsked(one, request)),
  page_rescued: (state, saved) => change(state, saved.sessionKey, (one) => rescued(one, saved)),
  page_stop_asked: stopAsked,

  studio_chat_options_ok: (state, { ok, models, roles, permissions, limits, features = [] }) =>
    ok ? { ...state, options: { models, roles, permissions, limits, features } } : state,
  studio_chat_sessions_ok: list.listed,
  studio_chat_session_rename_ok: list.sessionChanged,
  studio_chat_session_delete_ok: sessionDeleted,
  studio_chat_subscribe_ok: subscribed,
  studio_chat_send_ok: (state, reply) => change(state, reply.request.sessionKey, (one) => sendAnswered(one, reply)),
  studio_chat_stop_session_ok: stopAnswered,
  studio_chat_release_ok: noteFailure,
  studio_chat_send_now_ok: queueReply,
  studio_chat_queue_edit_ok: queueReply,
  studio_chat_queue_move_ok: queueReply,
  studio_chat_queue_remove_ok: queueReply,
  studio_chat_continue_ok: noteFailure,
  studio_chat_regenerate_ok: noteFailure,
  studio_chat_resend_ok: noteFailure,
  studio_chat_error: noteFailure,

  studio_chat_message: runEvent,
  studio_chat_progress: runEvent,
  studio_chat_delta: runEvent,
  studio_chat_tool: runEvent,
  studio_chat_result: (state, event) => announced(runEvent(state, event), event, state),
  studio_chat_queue: (state, { sessionKey, queue }) => change(state, sessionKey, (one) => withQueue(one, queue)),
  studio_chat_session: (state, { session }) => withSession(state, session),
  studio_chat_hold: held,
};

/** `update` gives the changed fields of a conversation that exists; a stranger's changes nothing. */
function change(state, sessionKey, update) {
  const conversation = state.conversations[sessionKey];
  if (!conversation) return state;
  return replace(state, sessionKey, { ...conversation, ...update(conversation) });
}

const replace = (state, sessionKey, conversation) => ({
  ...state,
  conversations: { ...state.conversations, [sessionKey]: conversation },
});

function runEvent(state, event) {
  const conversation = state.conversations[event.sessionKey];
  return conversation ? replace(state, event.sessionKey, applyRunEvent(conversation, event)) : state;
}

/** Each end is announced once, also when its result is repeated. */
function announced(state, event, before) {
  const ended = (from) => from.conversations[event.sessionKey]?.ended.includes(event.executionId) ?? false;
  if (event.sessionKey !== state.open || ended(before) || !ended(state)) return state;
  const { executionId, status, abortReason = null, timeoutKind = null } = event;
  return { ...state, announcement: { executionId, status, abortReason, timeoutKind } };
}

/** What was heard before a broken connection may be old: the open conversation is read again. */
function reconnected(state, connection) {
  const idle = Object.entries(state.conversations).map(([key, one]) => [key, { ...one, subscribing: false }]);
  const next = { ...state, connection, conversations: Object.fromEntries(idle) };
  return connection.status === "live" && state.open ? change(next, state.open, markStale) : next;
}

function openOne(state, sessionKey, fresh) {
  const draft = state.drafts[sessionKey] ?? "";
  const conversation = state.conversations[sessionKey] ?? { ...emptyConversation(fresh), draft };
  const next = replace(state, sessionKey, markStale(conversation));
  return list.markSeen({ ...next, open: sessionKey, announcement: null, panic: { ...state.panic, reply: null } });
}

/** @param {{sessionKey: string, model?: string, roleId?: string}} choice for the messages to come in this session */
function chosen(state, { sessionKey, type: _, ...choice }) {
  const here = { ...state.chosen[sessionKey], ...choice };
  return { ...state, usualModel: choice.model ?? state.usualModel, chosen: { ...state.chosen, [sessionKey]: here } };
}

/** What an earlier page kept is still on its way, whichever session it belongs to. */
function restoredOne(state, { request }) {
  const { sessionKey } = request;
  const unknown = { ...emptyConversation(), stale: true, draft: state.drafts[sessionKey] ?? "" };
  const conversation = state.conversations[sessionKey] ?? unknown;
  return replace(state, sessionKey, { ...conversation, ...restored(conversation, request) });
}

function queueReply(state, reply) {
  return change(state, reply.request.sessionKey, (one) => queueAnswered(one, reply));
}

function stopAsked(state, { sessionKey }) {
  return change(state, sessionKey, ({ active }) => ({ stopping: stopping(active) }));
}

const stopping = (active, unconfirmed = false) => ({ executionId: active?.executionId ?? null, unconfirmed });

function subscribed(state, { request, ...reply }) {
  const { sessionKey } = request;
  if (!reply.ok && request.before) return change(state, sessionKey, () => ({ loadingOlder: false }));
  if (!reply.ok) return subscribeFailed(state, sessionKey, reply);
  if (request.before) return change(state, sessionKey, (one) => applyOlderPage(one, { ...reply, request }));
  const next = change(state, sessionKey, (conversation) => applySnapshot(conversation, { ...reply, request }));
  return withSession({ ...next, holds: reply.holds }, reply.session);
}

function subscribeFailed(state, sessionKey, { code, error }) {
  const known = code === "not_found" ? list.withoutSession(state, sessionKey) : state;
  return change(known, sessionKey, ({ outbox }) =>
    code === "not_found"
      ? { subscribing: false, stale: false, loaded: true, missing: outbox.length === 0 }
      : { subscribing: false, notice: { code, error, request: "studio_chat_subscribe" } },
  );
}

/**
 * A confirmed stop with nothing live is the truth, even if the result were lost: what differs is read again. A stop that is
 * answered late, as after a gap, says nothing of a run that has begun since.
 */
function stopAnswered(state, { ok, request, ...reply }) {
  return change(state, request.sessionKey, (conversation) => {
    if (!ok) return { stopping: null, notice: { code: reply.code, error: reply.error, request: request.type } };
    if (conversation.active === null) return { stopping: null };
    if ((request.executionId ?? conversation.active.executionId) !== conversation.active.executionId) return {};
    if (reply.unconfirmedCount > 0) return { stopping: stopping(conversation.active, true) };
    return { ...markStale(conversation), stopping: stopping(conversation.active) };
  });
}

function noteFailure(state, { ok, code, error, request }) {
  const sessionKey = request?.sessionKey ?? state.open;
  return ok ? state : change(state, sessionKey, () => ({ notice: { code, error, request: request?.type ?? null } }));
}

/** With the last hold its notices go, wherever they were. */
function held(state, { holds }) {
  const rid = (one) => (holds.length === 0 && one.notice?.code === "held" ? { ...one, notice: null } : one);
  const conversations = Object.entries(state.conversations).map(([key, one]) => [key, rid(one)]);
  return { ...state, holds, conversations: Object.fromEntries(conversations) };
}

function withSession(state, session) {
  const next = list.withSession(state, session);
  if (session.deleted) return emptied(next, session.key);
  return change(next, session.key, () => ({ warnings: session.warnings ?? [] }));
}

function sessionDeleted(state, reply) {
  const next = list.sessionChanged(state, reply);
  return reply.ok ? emptied(next, reply.request.sessionKey) : next;
}

function emptied(state, sessionKey) {
  return change(state, sessionKey, ({ draft }) => ({ ...emptyConversation(), loaded: true, missing: true, draft }));
}
