"""Reading and changing sessions: subscribe, the queue, the list, rename, delete, options."""

import asyncio
import functools

from chat import news, objects, queue, sessions, stopping, transcript
from chat.admission import CONTEXT_MAX_BYTES, QUEUE_MAX, TEXT_MAX_BYTES, own_session, state_of
from chat.errors import ChatError, Conflict, Forbidden
from chat.live import Live, LiveTurn, session_topic
from chat.models import AgentRole, ChatSession, QueuedMessage
from chat.people import Person
from chat.queue import Changed
from chat.sessions import Snapshot
from kernel import conf, control, lanes
from kernel.abort import AbortReason
from kernel.control import Ordered
from kernel.llm import catalog
from studio import live_list
from studio.commands.permissions import with_permissions
from studio.commands.visit import Fields, Visit, later
from studio.protocol import (
    ExecutionsSubscribe,
    Options,
    QueueEdit,
    QueueHold,
    QueueMove,
    QueueRemove,
    SessionDelete,
    SessionRename,
    Sessions,
    Subscribe,
)

# A snapshot is read again while a turn begins or ends under it; each reading takes a millisecond or two.
SNAPSHOT_TRIES = 20
FEATURES = ["continue", "regenerate", "resend", "send_now"]


async def listing(visit: Visit, command: Sessions) -> None:
    lane = lanes.searches if command.query else lanes.reads
    rows = await lane.run(sessions.listing, visit.person.id, command.query, command.before, command.limit)
    visit.reply(command, {"sessions": rows})


async def subscribe(visit: Visit, command: Subscribe) -> None:
    session = await lanes.reads.run(own_session, command.sessionKey, visit.person.id)

    def read() -> Snapshot:
        return sessions.snapshot(session.key, visit.person.id, command.limit, command.before)

    if command.before is not None:
        snapshot = await lanes.reads.run(read)
        turn = visit.turns.live_in(session.key)
        visit.reply(command, snapshot.fields(turn.snapshot() if turn else None))
        return
    subscription = visit.subscriptions.join(session.key, session_topic(session.pk))
    for _ in range(SNAPSHOT_TRIES):
        snapshot = await lanes.reads.run(read)
        turn = visit.turns.live_in(session.key)
        if _agree(visit, snapshot, turn):
            break
    live = await _elsewhere(visit, snapshot) if turn is None else None
    # Only now, and without an await until it is sent: what the memory holds and the number it is at must agree.
    turn = visit.turns.live_in(session.key) or turn
    fields = snapshot.fields(turn.snapshot() if turn else live)
    visit.reply(command, fields)
    subscription.open(fields["active"])


async def _elsewhere(visit: Visit, snapshot: Snapshot) -> Live | None:
    """The running turn as its owner, another worker, has it; None if there is none or it cannot be asked."""
    row = snapshot.streaming
    if row is None or row.execution is None or not snapshot.running:
        return None
    channel = await lanes.control.run(control.channel_of, str(row.execution_id))
    return await visit.worker.bus.ask(channel, "live_turn", session_key=snapshot.session.key) if channel else None


def _agree(visit: Visit, snapshot: Snapshot, turn: LiveTurn | None) -> bool:
    """Whether the rows and the memory tell of the same turn; if one began or ended meanwhile, they are read again."""
    if turn is not None:
        return any(str(row.pk) == turn.message_id for row in snapshot.messages)
    streaming = snapshot.streaming
    owner = streaming.execution.worker_id if streaming and streaming.execution else None
    return owner != visit.worker.id


async def change_queue(visit: Visit, command: QueueEdit | QueueRemove | QueueMove | QueueHold) -> None:
    changed = await lanes.control.run(_queue_change, command, visit.person.id)
    visit.reply(command, {"sessionKey": command.sessionKey, "queue": objects.queue(changed.queue)})
    # Without an await since it was changed: of two changes the later is told last.
    news.tell_queue(changed.session, changed.queue, running=changed.running)
    await _mind_editing(visit, command, changed.session)


async def _mind_editing(
    visit: Visit, command: QueueEdit | QueueRemove | QueueMove | QueueHold, session: ChatSession
) -> None:
    """An item in the hand of this socket keeps the queue from flowing, until it is let go, or the socket is."""
    item = (command.sessionKey, command.queueId)
    if isinstance(command, QueueMove):  # it stays in the hand
        return
    held = visit.editing.pop(item, None)
    if held is not None:
        held.cancel()
    if isinstance(command, QueueHold) and command.editing:
        later = _let_go_later(visit, command)
        visit.editing[item] = visit.worker.spawn(later, f"editing:{command.queueId}")
    elif held is not None:
        await visit.turns.resume(session)


async def _let_go_later(visit: Visit, command: QueueHold) -> None:
    """Let the item go when its time is over or its socket has gone; a renewed hold has a task of its own."""
    await asyncio.wait({visit.gone}, timeout=QueuedMessage.EDITING.total_seconds())
    visit.editing.pop((command.sessionKey, command.queueId), None)
    try:
        await _let_go(visit, command)
    except ChatError:
        return  # the item has been sent or removed meanwhile


async def _let_go(visit: Visit, command: QueueHold) -> None:
    """Let the item go as its owner would have."""
    let_go = functools.partial(queue.set_editing, command.sessionKey, visit.person.id, command.queueId, editing=False)
    changed = await lanes.control.run(let_go)
    news.tell_queue(changed.session, changed.queue, running=changed.running)
    await visit.turns.resume(changed.session)


def _queue_change(command: QueueEdit | QueueRemove | QueueMove | QueueHold, user_id: int) -> Changed:
    item = (command.sessionKey, user_id, command.queueId)
    match command:
        case QueueEdit():
            return queue.edit(*item, command.text)
        case QueueRemove():
            return queue.remove(*item)
        case QueueMove():
            return queue.move(*item, command.position)
        case QueueHold():
            return queue.set_editing(*item, command.editing)


async def rename(visit: Visit, command: SessionRename) -> None:
    session = await lanes.control.run(sessions.rename, command.sessionKey, visit.person.id, command.title)
    queue_length, running = await lanes.reads.run(state_of, session)
    shown = news.tell_session(session, queue_length, running=running)
    visit.reply(command, {"sessionKey": command.sessionKey, "session": shown})


async def delete(visit: Visit, command: SessionDelete) -> None:
    await lanes.reads.run(own_session, command.sessionKey, visit.person.id)
    ordered = await stopping.order_stop(
        visit.worker, visit.person, command.sessionKey, source="web", reason=AbortReason.DELETED
    )
    later(visit, command, _delete_when_stopped(visit, command, ordered))


async def _delete_when_stopped(visit: Visit, command: SessionDelete, ordered: Ordered) -> None:
    counts = await stopping.confirm(visit.worker, visit.person, ordered)
    if counts.unconfirmed:
        raise Conflict("The session's run was told to stop, but has not ended yet. Delete again in a moment.")
    session = await lanes.control.run(sessions.delete, command.sessionKey, visit.person.id)
    visit.reply(command, {"sessionKey": command.sessionKey})
    news.tell_deleted(session)
    transcript.retire(session.key, session.pk)


async def watch_executions(visit: Visit, command: ExecutionsSubscribe) -> None:
    visit.person = await with_permissions(visit.person)
    if not visit.person.may_panic:
        raise Forbidden("The live list needs the permission kernel.panic. Ask an operator.")
    visit.watch(live_list.TOPIC)
    visit.reply(command, await live_list.live_list.look())


async def options(visit: Visit, command: Options) -> None:
    visit.person = await with_permissions(visit.person)
    visit.reply(command, await lanes.reads.run(_options_fields, visit.person))


def _options_fields(person: Person) -> Fields:
    allowance = conf.allowance()
    return {
        "models": [
            {"id": model.id, "label": model.label, "kind": model.kind, "default": model.default}
            for model in catalog.available_models()
        ],
        "roles": [
            {"id": str(role.pk), "name": role.name, "model": role.model or None}
            for role in AgentRole.objects.order_by("name")
        ],
        "permissions": {"panic": person.may_panic, "stopAny": person.may_stop_any},
        "limits": {
            "textBytes": TEXT_MAX_BYTES,
            "contextBytes": CONTEXT_MAX_BYTES,
            "queueLength": QUEUE_MAX,
            "maxSteps": conf.max_steps(),
            "maxOutputTokens": allowance.output_tokens,
            "maxCostUsd": allowance.cost_usd,
            "maxRepeatedCalls": allowance.repeated_calls,
        },
        "features": FEATURES,
    }
