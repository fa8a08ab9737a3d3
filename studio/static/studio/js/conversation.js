/**
 * One conversation: a snapshot, and the events that come after it. Pure.
 *
 * Promise: the events applied to an earlier snapshot give what a fresh snapshot would say. Where that cannot be kept (an
 * event is missing) the conversation is marked `stale`, and whoever owns the connection subscribes again.
 */
import { codePointLength, dropCodePoints } from "#studio/codepoints";
import { withQueue } from "#studio/waiting";

export const PAGE_SIZE = 50; // messages of one subscribe, and of one older page
export const KEPT_MESSAGES = 2 * PAGE_SIZE; // with more of them, those that are far from the end are let go
const PROGRESS_FIELDS = ["phase", "step", "maxSteps", "tool", "attempt", "retryInMs", "elapsedMs", "outputTokens"];
const NOT_TOLD = { input: null, output: null, error: null, startedAt: null, durationMs: null }; // of a call, at first
const ENDED_KEPT = 20; // enough for every late event of the last few executions

/** @param {boolean} fresh made by this page, and still unknown to the server */
export function emptyConversation(fresh = false) {
  return {
    fresh,
    loaded: fresh,
    missing: false,
    stale: false,
    subscribing: false,
    hasOlder: false,
    loadingOlder: false,
    warnings: [],
    messages: [],
    queue: [],
    active: null,
    ended: [],
    stopping: null,
    outbox: [],
    asked: [],
    draft: "",
    notice: null,
  };
}

/** The reply of a subscribe replaces everything that the server knows; older pages already read stay in front. */
export function applySnapshot(conversation, reply) {
  const { active } = reply;
  const late = active !== null && conversation.ended.includes(active.executionId);
  return {
    ...conversation,
    fresh: false,
    loaded: true,
    missing: false,
    subscribing: false,
    stale: late,
    hasOlder: keptBefore(conversation, reply.messages).length > 0 ? conversation.hasOlder : isFullPage(reply),
    warnings: reply.session.warnings ?? [],
    messages: [...keptBefore(conversation, reply.messages), ...reply.messages],
    ...withQueue(conversation, reply.queue),
    active: late ? null : active,
    stopping: active === null || late ? null : stoppingOf(conversation, active),
  };
}

/** An older page goes in front. */
export function applyOlderPage(conversation, reply) {
  const known = new Set(conversation.messages.map((message) => message.id));
  const older = reply.messages.filter((message) => !known.has(message.id));
  const messages = [...older, ...conversation.messages];
  return { ...conversation, hasOlder: isFullPage(reply), loadingOlder: false, messages };
}

/** The last page stays; what is before it can be read again. */
export function forgetOlder(conversation) {
  return { ...conversation, hasOlder: true, messages: conversation.messages.slice(-PAGE_SIZE) };
}

/** One event of a run: dropped when known, applied when next, and a reason to subscribe again when there is a hole. */
export function applyRunEvent(conversation, event) {
  if (conversation.ended.includes(event.executionId)) return conversation;
  const active = follow(conversation.active, event);
  if (active === "known") return conversation;
  if (active === "hole") return markStale(conversation);
  return APPLY[event.type]({ ...conversation, active }, event);
}

export function markStale(conversation) {
  return conversation.subscribing || conversation.fresh ? conversation : { ...conversation, stale: true };
}

/**
 * What became of settled rows: `replaced` by a later one (by an answer: that answer; by a message: it and all its answers)
 * or `continued` in the next.
 * @returns {Map<string, "replaced"|"continued">} by id
 */
export function fates(messages) {
  const found = new Map();
  messages.forEach(({ role, replacesId, continuesId }, index) => {
    if (continuesId) found.set(continuesId, "continued");
    if (!replacesId) return;
    const from = messages.findIndex(({ id }) => id === replacesId);
    const until = role === "user" ? index : from + 1;
    messages.slice(Math.max(0, from), until).forEach(({ id }) => found.set(id, "replaced"));
  });
  return found;
}

export const isRunning = (conversation) => conversation.active !== null || conversation.outbox.length > 0;

const APPLY = {
  studio_chat_message: applyMessage,
  studio_chat_progress: applyProgress,
  studio_chat_delta: applyDelta,
  studio_chat_tool: applyTool,
  studio_chat_result: applyResult,
};

/** @returns the next `active`, or "known" for an event already in the state, or "hole" where one before it is missing */
function follow(active, event) {
  if (event.seq === null || event.seq === undefined) return active;
  if (active === null) return event.seq === 1 ? begin(event) : "hole";
  if (active.executionId !== event.executionId) return "hole"; // the end of the other one was lost
  if (active.seq === null || event.seq > active.seq + 1) return "hole";
  return event.seq <= active.seq ? "known" : { ...active, seq: event.seq };
}

function begin({ executionId, seq }) {
  return { executionId, messageId: null, seq, progress: null };
}

function applyMessage(conversation, { message, executionId, seq }) {
  const messages = withMessage(conversation.messages, message);
  const { active } = conversation;
  const streams = message.role === "assistant" && message.status === "streaming";
  if (!streams || isAfter(active?.messageId, message.id)) return { ...conversation, messages };
  const own = active?.executionId === executionId ? active : begin({ executionId, seq: seq ?? null });
  return { ...conversation, messages, active: { ...own, messageId: message.id } };
}

/** Two turns of different workers may be told out of order: a new message stands where its id says. */
function withMessage(messages, message) {
  if (messages.some(({ id }) => id === message.id)) {
    return messages.map((other) => (other.id === message.id ? message : other));
  }
  const place = messages.findLastIndex(({ id }) => !isAfter(id, message.id)) + 1;
  return [...messages.slice(0, place), message, ...messages.slice(place)];
}

const isAfter = (id, other) => Number(id) > Number(other);

function applyProgress(conversation, event) {
  if (conversation.active === null) return conversation;
  const progress = Object.fromEntries(PROGRESS_FIELDS.filter((field) => field in event).map((f) => [f, event[f]]));
  return { ...conversation, active: { ...conversation.active, progress } };
}

function applyDelta(conversation, event) {
  const message = conversation.messages.find(({ id }) => id === event.messageId);
  const parts = message && withDelta(message.parts, event, stepOf(conversation));
  return parts ? replaceParts(conversation, message, parts) : markStale(conversation);
}

/** @returns the parts with the delta in its place, or null when something before it is missing */
function withDelta(parts, { part: index, kind, offset, text, startedAt = null }, step) {
  if (index > parts.length) return null;
  const part = parts[index] ?? { kind, step, text: "", startedAt };
  const length = codePointLength(part.text);
  if (offset > length) return null;
  const grown = { ...part, text: part.text + dropCodePoints(text, length - offset) };
  return [...parts.slice(0, index), grown, ...parts.slice(index + 1)];
}

function applyTool(conversation, event) {
  const message = conversation.messages.find(({ id }) => id === event.messageId);
  if (!message || event.part > message.parts.length) return markStale(conversation);
  const { callId, name, state } = event;
  const before = message.parts[event.part] ?? { step: stepOf(conversation), ...NOT_TOLD };
  const told = Object.fromEntries(Object.keys(NOT_TOLD).filter((f) => f in event).map((f) => [f, event[f]]));
  const part = { ...before, kind: "tool", step: event.step ?? before.step, callId, name, state, ...told };
  const parts = [...message.parts.slice(0, event.part), part, ...message.parts.slice(event.part + 1)];
  return replaceParts(conversation, message, parts);
}

/** The text of a message is its text parts, joined: the same rule as the server's. */
function replaceParts(conversation, message, parts) {
  const text = parts.filter(({ kind }) => kind === "text").map((part) => part.text).join("");
  const grown = { ...message, parts, text };
  return { ...conversation, messages: conversation.messages.map((other) => (other === message ? grown : other)) };
}

function applyResult(conversation, event) {
  const message = conversation.messages.find(({ id }) => id === event.messageId);
  const own = conversation.active?.executionId === event.executionId || conversation.active === null;
  const ended = [...conversation.ended, event.executionId].slice(-ENDED_KEPT);
  const over = own ? { active: null, stopping: null } : {};
  const settled = { ...conversation, ...over, ended };
  return message && message.status !== "streaming" ? settled : markStale(settled);
}

/** What was asked of one execution says nothing about the next; `null` is a stop asked before the execution was known. */
function stoppingOf({ stopping }, { executionId }) {
  return stopping && [null, executionId].includes(stopping.executionId) ? stopping : null;
}

const stepOf = ({ active }) => active?.progress?.step ?? 1;

function keptBefore(conversation, messages) {
  const first = conversation.messages.findIndex(({ id }) => id === messages[0]?.id);
  return first > 0 ? conversation.messages.slice(0, first) : [];
}

const isFullPage = (reply) => reply.messages.length >= (reply.request?.limit ?? PAGE_SIZE);
