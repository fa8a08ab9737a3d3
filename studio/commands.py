"""What each client frame does: call the use case, reply. No command waits for a run, a confirmation or a broker here.

A command that must wait for an end takes effect in the order sent, and replies from a task of its own.
"""

import asyncio
import functools
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DatabaseError

from chat import objects, queue, sessions, stopping
from chat.admission import (
    CONTEXT_MAX_BYTES,
    QUEUE_MAX,
    TEXT_MAX_BYTES,
    Outgoing,
    Queued,
    Repeated,
    Started,
    own_session,
)
from chat.errors import ChatError, Conflict, Forbidden
from chat.live import LiveTurn, session_topic
from chat.models import AgentRole, ChatSession, QueuedMessage
from chat.queue import SentNow
from chat.sessions import Snapshot
from chat.stopping import Person
from chat.turns import Turns
from kernel import conf, control, lanes
from kernel.abort import AbortReason
from kernel.control import CONFIRM_S, Counts, Ordered
from kernel.hub import hub
from kernel.llm import catalog
from kernel.models import Hold
from kernel.registry import Execution
from kernel.worker import ThisWorker
from studio import protocol
from studio.outbox import Outbox
from studio.protocol import (
    AnyCommand,
    Options,
    Panic,
    Ping,
    QueueEdit,
    QueueHold,
    QueueMove,
    QueueRemove,
    Release,
    Send,
    SendNow,
    SessionDelete,
    SessionRename,
    Sessions,
    StopSession,
    Subscribe,
    Unsubscribe,
)
from studio.subscriptions import Subscriptions

logger = logging.getLogger(__name__)

Fields = dict[str, Any]
# A stop's permission is asked of the database for this long at most; then what was known when the socket opened counts.
PERMISSION_S = 0.5
# A snapshot is read again while a turn begins or ends under it; each reading takes a millisecond or two.
SNAPSHOT_TRIES = 20
FEATURES: list[str] = []


@dataclass(kw_only=True)
class Visit:
    """One open socket and who sits at it."""

    person: Person
    worker: ThisWorker
    turns: Turns
    outbox: Outbox
    subscriptions: Subscriptions

    def reply(self, command: AnyCommand, fields: Fields) -> None:
        self.outbox.put_data(protocol.reply(command.type, command.requestId, fields))

    def refuse(self, command: AnyCommand, code: str, error: str, fields: Fields | None = None) -> None:
        self.outbox.put_data(
            protocol.refusal(command.type, command.requestId, code, error, {**_zero(command), **(fields or {})})
        )


async def perform(visit: Visit, command: AnyCommand, struck: Sequence[Execution] = ()) -> None:
    """Perform one command; whatever happens, it is answered. `struck` is what a stop aborted while it was read."""
    with _Answered(visit, command):
        match command:
            case Ping():
                visit.reply(command, {})
            case Send():
                await _send(visit, command)
            case SendNow():
                await _send_now(visit, command)
            case StopSession():
                await _stop(visit, command, struck)
            case Panic():
                await _panic(visit, command)
            case Release():
                await _release(visit, command)
            case Subscribe():
                await _subscribe(visit, command)
            case Unsubscribe():
                visit.subscriptions.leave(command.sessionKey)
                visit.reply(command, {"sessionKey": command.sessionKey})
            case QueueEdit() | QueueRemove() | QueueMove() | QueueHold():
                await _change_queue(visit, command)
            case Sessions():
                rows = await lanes.control.run(
                    sessions.listing, visit.person.id, command.query, command.before, command.limit
                )
                visit.reply(command, {"sessions": rows})
            case SessionRename():
                await _rename(visit, command)
            case SessionDelete():
                await _delete(visit, command)
            case Options():
                await _options(visit, command)


class _Answered:
    """Turns a failure of a command into its reply."""

    def __init__(self, visit: Visit, command: AnyCommand):
        self._visit = visit
        self._command = command

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        if isinstance(error, ChatError):
            self._visit.refuse(self._command, error.code, str(error))
            return True
        if isinstance(error, Exception):
            logger.error("The command %s failed.", self._command.type, exc_info=error)
            text = "Something failed on our side; nothing was lost. Try again; the server's log has the details."
            self._visit.refuse(self._command, "internal", text)
            return True
        return False


def _later(visit: Visit, command: AnyCommand, coroutine: Coroutine[Any, Any, None]) -> None:
    """Answer from a task of its own."""

    async def answered() -> None:
        with _Answered(visit, command):
            await coroutine

    visit.worker.spawn(answered(), f"{command.type}:{id(command):x}")


def _zero(command: AnyCommand) -> Fields:
    """The counts that the reply of a refused stop or panic still has."""
    match command:
        case StopSession():
            return {"sessionKey": command.sessionKey, **_counted(Counts())}
        case Panic():
            return {**_counted(Counts()), "heldCount": 0}
        case _:
            return {"sessionKey": command.sessionKey} if hasattr(command, "sessionKey") else {}


def _counted(counts: Counts) -> Fields:
    return {
        "abortedCount": counts.aborted,
        "activeCount": counts.active,
        "unconfirmedCount": counts.unconfirmed,
        "alreadyFinishedCount": counts.already_finished,
    }


# Stop and panic


async def _stop(visit: Visit, command: StopSession, struck: Sequence[Execution]) -> None:
    visit.person = await _with_permissions(visit)
    ordered = await stopping.order_stop(
        visit.worker, visit.person, command.sessionKey, command.executionId, source="web", struck=struck
    )
    _later(visit, command, _confirm(visit, command, ordered, {"sessionKey": command.sessionKey}))


async def _panic(visit: Visit, command: Panic) -> None:
    visit.person = await _with_permissions(visit)
    if not visit.person.may_panic:
        raise Forbidden("Panic needs the permission kernel.panic. Ask an operator.")
    scope = command.scope.model_dump(exclude_none=True) if command.scope else {}
    ordered = await stopping.order_panic(
        visit.worker, visit.person, hold=command.hold, reason=command.reason, scope=scope, source="web"
    )
    fields: Fields = {"heldCount": 0}
    if ordered.hold is not None:
        fields = await lanes.control.run(_hold_fields, ordered.hold)
        await _publish_holds()
    _later(visit, command, _confirm(visit, command, ordered, fields))


async def _confirm(visit: Visit, command: AnyCommand, ordered: Ordered, fields: Fields) -> None:
    counts = await stopping.confirm(visit.worker, visit.person, ordered)
    fields = {**fields, **_counted(counts)}
    if counts.failed:
        error = (
            "The database cannot be reached. What runs on this server was stopped at once; the end of the rest could "
            "not be confirmed. Stop again when the database is back."
        )
        visit.refuse(command, "internal", error, fields)
    else:
        visit.reply(command, fields)


async def _release(visit: Visit, command: Release) -> None:
    visit.person = await _with_permissions(visit)
    if not visit.person.may_panic:
        raise Forbidden("Releasing a hold needs the permission kernel.panic. Ask an operator.")
    released = await lanes.control.run(control.release, command.holdId, visit.person.name)
    visit.reply(command, {"released": bool(released)})
    await _publish_holds()


async def _publish_holds() -> None:
    """Tell everyone who is connected here which holds affect them."""
    for topic in hub.topics("user:"):
        user_id = int(topic.removeprefix("user:"))
        holds = await lanes.control.run(sessions.holds_over, user_id)
        hub.publish(topic, {"type": "studio_chat_hold", "holds": holds})


async def _with_permissions(visit: Visit) -> Person:
    """The person with the permissions of now; if the database does not answer, with those that were last known."""
    try:
        async with asyncio.timeout(PERMISSION_S):
            return await lanes.control.run(_permissions, visit.person)
    except (DatabaseError, TimeoutError):
        logger.warning("A person's permissions could not be read; the last known ones count.", exc_info=True)
        return visit.person


def _permissions(person: Person) -> Person:
    user = get_user_model().objects.filter(pk=person.id, is_active=True).first()
    return replace(
        person,
        may_panic=bool(user and user.has_perm("kernel.panic")),
        may_stop_any=bool(user and user.has_perm("kernel.stop_any_execution")),
    )


def _hold_fields(hold: Hold) -> Fields:
    return {"heldCount": stopping.held_count(hold), "hold": objects.hold(hold)}


# Sending


async def _send(visit: Visit, command: Send) -> None:
    outgoing = Outgoing(
        session_key=command.sessionKey,
        user_id=visit.person.id,
        user_name=visit.person.name,
        text=command.text,
        client_message_id=command.clientMessageId or "",
        request_id=command.requestId or "",
        role_id=command.roleId,
        model=command.model or "",
        context=command.context.fields() if command.context else None,
        interrupted=command.interrupted,
    )
    await visit.turns.send(outgoing, command.whenBusy, functools.partial(_on_sent, visit, command))


def _on_sent(visit: Visit, command: Send, admitted: Started | Queued | Repeated) -> None:
    """Reply, and follow the session, before its first event."""
    topic = session_topic(admitted.session.pk)
    if not visit.subscriptions.follows(command.sessionKey, topic):
        visit.subscriptions.join(command.sessionKey, topic).open(None)
    key: Fields = {"sessionKey": command.sessionKey}
    match admitted:
        case Started():
            assert admitted.user_message is not None  # a send always has one
            ids = {"messageId": str(admitted.user_message.pk), "executionId": str(admitted.record.pk)}
            visit.reply(command, {**key, "queued": False, **ids})
        case Queued(interrupts=None):
            visit.reply(command, {**key, "queued": True, "queueId": str(admitted.item.pk)})
        case Queued():
            _later(visit, command, _interrupted(visit, command, admitted.item, key))
        case Repeated(message=None):
            assert admitted.item is not None  # one of the two was found
            visit.reply(command, {**key, "queued": True, "queueId": str(admitted.item.pk)})
        case Repeated():
            assert admitted.message is not None  # the case above
            ids = {"messageId": str(admitted.message.pk), "executionId": str(admitted.message.execution_id)}
            visit.reply(command, {**key, "queued": False, **ids})


async def _interrupted(visit: Visit, command: Send | SendNow, item: QueuedMessage, fields: Fields) -> None:
    """Reply to a send that interrupts: with the new turn if it starts in time, else that it will."""
    started = await visit.turns.started_from(item.pk, CONFIRM_S)
    fields = {**fields, "interrupted": True}
    if isinstance(command, Send):
        fields["queued"] = False
    if started is not None and started.user_message is not None:
        fields |= {"messageId": str(started.user_message.pk), "executionId": str(started.record.pk)}
    visit.reply(command, fields)


async def _send_now(visit: Visit, command: SendNow) -> None:
    person = visit.person
    await visit.turns.send_now(
        command.sessionKey, person.id, person.name, command.queueId, functools.partial(_on_sent_now, visit, command)
    )


def _on_sent_now(visit: Visit, command: SendNow, sent: SentNow) -> None:
    key: Fields = {"sessionKey": command.sessionKey}
    if sent.started is not None:
        visit.reply(command, {**key, "interrupted": False, "executionId": str(sent.started.record.pk)})
    elif sent.sent is not None:
        message = sent.sent
        told = {"interrupted": message.interrupted_previous, "executionId": str(message.execution_id)}
        visit.reply(command, {**key, **told})
    else:
        assert sent.item is not None  # busy: the item waits for the end that it caused
        _later(visit, command, _interrupted(visit, command, sent.item, key))


# Sessions


async def _subscribe(visit: Visit, command: Subscribe) -> None:
    session = await lanes.control.run(own_session, command.sessionKey, visit.person.id)

    def read() -> Snapshot:
        return sessions.snapshot(session.key, visit.person.id, command.limit, command.before)

    if command.before is not None:
        snapshot = await lanes.control.run(read)
        visit.reply(command, snapshot.fields(visit.turns.live_in(session.key)))
        return
    subscription = visit.subscriptions.join(session.key, session_topic(session.pk))
    for _ in range(SNAPSHOT_TRIES):
        snapshot = await lanes.control.run(read)
        turn = visit.turns.live_in(session.key)
        if _agree(visit, snapshot, turn):
            break
    fields = snapshot.fields(turn)
    visit.reply(command, fields)
    subscription.open(fields["active"])


def _agree(visit: Visit, snapshot: Snapshot, turn: LiveTurn | None) -> bool:
    """Whether the rows and the memory tell of the same turn; if one began or ended meanwhile, they are read again."""
    if turn is not None:
        return any(str(row.pk) == turn.message_id for row in snapshot.messages)
    streaming = snapshot.streaming
    owner = streaming.execution.worker_id if streaming and streaming.execution else None
    return owner != visit.worker.id


async def _change_queue(visit: Visit, command: QueueEdit | QueueRemove | QueueMove | QueueHold) -> None:
    change = functools.partial(_queue_change, command, visit.person.id)
    session, rows = await lanes.control.run(change)
    visit.reply(command, {"sessionKey": command.sessionKey, "queue": objects.queue(rows)})
    visit.turns.publish_queue(session, rows)


def _queue_change(
    command: QueueEdit | QueueRemove | QueueMove | QueueHold, user_id: int
) -> tuple[ChatSession, list[QueuedMessage]]:
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


async def _rename(visit: Visit, command: SessionRename) -> None:
    session, waiting = await lanes.control.run(sessions.rename, command.sessionKey, visit.person.id, command.title)
    visit.reply(command, {"sessionKey": command.sessionKey, "session": visit.turns.session_object(session, waiting)})
    visit.turns.publish_session(session, waiting)


async def _delete(visit: Visit, command: SessionDelete) -> None:
    await lanes.control.run(own_session, command.sessionKey, visit.person.id)
    ordered = await stopping.order_stop(
        visit.worker, visit.person, command.sessionKey, source="web", reason=AbortReason.DELETED
    )
    _later(visit, command, _delete_when_stopped(visit, command, ordered))


async def _delete_when_stopped(visit: Visit, command: SessionDelete, ordered: Ordered) -> None:
    counts = await stopping.confirm(visit.worker, visit.person, ordered)
    if counts.unconfirmed:
        raise Conflict("The session's run was told to stop, but has not ended yet. Delete again in a moment.")
    session = await lanes.control.run(sessions.delete, command.sessionKey, visit.person.id)
    visit.reply(command, {"sessionKey": command.sessionKey})
    visit.turns.publish_deleted(session)


async def _options(visit: Visit, command: Options) -> None:
    visit.person = await _with_permissions(visit)
    visit.reply(command, await lanes.control.run(_options_fields, visit.person))


def _options_fields(person: Person) -> Fields:
    return {
        "models": [
            {"id": model.id, "label": model.label, "kind": model.kind, "default": model.default}
            for model in catalog.available_models()
        ],
        "roles": [{"id": str(role.pk), "name": role.name} for role in AgentRole.objects.order_by("name")],
        "permissions": {"panic": person.may_panic, "stopAny": person.may_stop_any},
        "limits": {
            "textBytes": TEXT_MAX_BYTES,
            "contextBytes": CONTEXT_MAX_BYTES,
            "queueLength": QUEUE_MAX,
            "maxSteps": conf.max_steps(),
        },
        "features": FEATURES,
    }
