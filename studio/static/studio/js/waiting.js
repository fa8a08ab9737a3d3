/**
 * What this page asked and the server has not answered yet: messages on their way, and changes of the queue. Pure.
 *
 * Promise: what a person wrote is always somewhere. A message refused, and an edit that came too late, are given back to
 * the composer; a message is shown in the outbox or in the queue, never in both.
 */

const SEND = "studio_chat_send";
const STOP = "studio_chat_stop_session";
const EDIT = "studio_chat_queue_edit";
const MOVE = "studio_chat_queue_move";
const REMOVE = "studio_chat_queue_remove";

/** @returns the changed fields of a conversation that a message was written in */
export function sendAsked({ outbox }, { clientMessageId, text }) {
  return { outbox: [...outbox, { clientMessageId, text }], draft: "", notice: null };
}

/** @returns the changed fields once a send is answered */
export function sendAnswered(conversation, { ok, request, resent = false, ...reply }) {
  const onItsWay = ({ clientMessageId }) => clientMessageId === request.clientMessageId;
  const outbox = conversation.outbox.filter((one) => !onItsWay(one));
  if (ok) return { outbox, fresh: false, missing: false, loaded: true, stale: conversation.stale || resent };
  const notice = noticeOf(reply, request);
  if (!conversation.outbox.some(onItsWay)) return { notice }; // it has been seen in the queue: nothing to give back
  return { outbox, notice, draft: joined(request.text, conversation.draft) };
}

export const queueAsked = ({ asked }, request) => ({ asked: [...asked, request], notice: null });

/** @returns the changed fields once a change of the queue is answered; its reply tells the whole queue */
export function queueAnswered(conversation, { ok, request, queue = conversation.queue, ...reply }) {
  const asked = conversation.asked.filter(({ requestId }) => requestId !== request.requestId);
  if (ok) return { ...withQueue(conversation, queue), asked };
  if (request.type === REMOVE && reply.code === "not_found") return { asked }; // as it was wished
  const given = request.type === EDIT ? { draft: joined(request.text, conversation.draft) } : {};
  return { asked, notice: noticeOf(reply, request), ...given };
}

/** What an earlier page asked; the draft has been kept apart. */
export function restored(conversation, request) {
  if (request.type === SEND) return { ...sendAsked(conversation, request), draft: conversation.draft };
  if (request.type === STOP) return { stopping: { executionId: request.executionId ?? null, unconfirmed: false } };
  return queueAsked(conversation, request);
}

/** A stop that names no execution meant the message before it; alone, after a long time, it would hit a later run. */
export function stillMeant(requests) {
  const follows = (stop, index) =>
    requests.slice(0, index).some(({ type, sessionKey }) => type === SEND && sessionKey === stop.sessionKey);
  return requests.filter((one, index) => one.type !== STOP || one.executionId || follows(one, index));
}

/** The server's queue. What is found in it has arrived. */
export function withQueue({ outbox }, queue) {
  const arrived = new Set(queue.map(({ clientMessageId }) => clientMessageId));
  const left = outbox.filter(({ clientMessageId }) => !arrived.has(clientMessageId));
  return { queue, outbox: left.length === outbox.length ? outbox : left };
}

/** An edit whose item is gone: the text goes where it can be sent as a message of its own. */
export function rescued({ draft }, { text, code }) {
  return { draft: joined(text, draft), notice: { code, error: "", request: EDIT } };
}

/**
 * The queue as it will be once everything that was asked of it is done, then what is on its way into it.
 * @returns {{id: string|null, text: string, clientMessageId: string, createdAt?: number, editing: boolean, asked: string|null}[]}
 *   `asked` is the request under way
 */
export function shownQueue({ queue, asked, active, outbox }) {
  const shown = asked.reduce(foreseen, queue.map((item) => ({ ...item, asked: null })));
  const coming = active ? outbox.map((one) => ({ ...one, id: null, editing: false, asked: SEND })) : [];
  return [...shown, ...coming];
}

function foreseen(queue, { type, queueId, text, position }) {
  const index = queue.findIndex(({ id }) => id === queueId);
  if (index < 0) return queue;
  const item = { ...queue[index], asked: type };
  const others = queue.toSpliced(index, 1);
  if (type === REMOVE) return others;
  if (type === MOVE) return others.toSpliced(position, 0, item);
  return queue.with(index, type === EDIT ? { ...item, text } : item);
}

const noticeOf = ({ code, error }, { type }) => ({ code, error, request: type });

const joined = (text, draft) => (draft ? `${text}\n\n${draft}` : text);
