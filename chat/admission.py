"""Letting a message in: one transaction that starts a turn, queues the message, or refuses it, and nothing in between.

Permission comes before every other judgement. The session's row is locked first, as stop and Send now lock it, and the
gate is passed before the execution is inserted, so that no turn slips past a panic.
"""

import contextlib
import uuid
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.db.models import Exists, QuerySet
from django.utils import timezone

from chat.errors import Conflict, Held, Invalid, NotFound, QueueFull
from chat.models import AgentRole, ChatMessage, ChatSession, MessageRole, MessageStatus, QueuedMessage
from kernel import gate
from kernel.abort import AbortReason
from kernel.models import ExecutionKind, ExecutionRecord, Hold, Intent

TEXT_MAX_BYTES = 64 * 1024
CONTEXT_MAX_BYTES = 128 * 1024
QUEUE_MAX = 50
TITLE_MAX_CHARS = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Outgoing:
    """A message as a person sends it. `user_name` is for the record of what it may interrupt."""

    session_key: str
    user_id: int
    user_name: str
    text: str
    client_message_id: str = ""
    request_id: str = ""
    role_id: str | None = None
    model: str = ""
    context: dict[str, str] | None = None
    interrupted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Who will run it: the execution's id to be, its worker, and the model where nobody chose one."""

    execution_id: str
    worker_id: uuid.UUID
    default_model: str


@dataclass(frozen=True, kw_only=True)
class Started:
    """A turn that is in the ledger and must now be run. `user_message` is None where the answer alone is new."""

    session: ChatSession
    record: ExecutionRecord
    answer: ChatMessage
    user_message: ChatMessage | None
    queue: list[QueuedMessage]
    created_session: bool = False


@dataclass(frozen=True, kw_only=True)
class Queued:
    """A message that waits. `interrupts` is the execution that must end for it."""

    session: ChatSession
    item: QueuedMessage
    queue: list[QueuedMessage]
    interrupts: str | None = None


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """The same message again: what became of it the first time."""

    session: ChatSession
    message: ChatMessage | None = None
    item: QueuedMessage | None = None


def admit(outgoing: Outgoing, owner: Owner, when_busy: str) -> Started | Queued | Repeated:
    """Start, queue or refuse `outgoing`. `when_busy` is `queue`, `interrupt` or `reject`. Raises `ChatError`.

    A session whose next message is promised is busy: nothing slips in between an interrupted turn and what it was
    interrupted for.
    """
    with transaction.atomic():
        session, created = _session_for(outgoing)
        check_limits(outgoing.text, outgoing.context)
        queue = queue_of(session)
        if repeated := _repeated(session, queue, outgoing.client_message_id):
            return repeated
        role = _role(outgoing.role_id)
        busy = live_turn(session)
        if busy is None and not is_promised(queue):
            return replace(start_turn(session, outgoing, owner, role, queue), created_session=created)
        if when_busy == "reject":
            raise Conflict
        if when_busy == "interrupt":  # a hold would keep what the answer was interrupted for
            check_holds(session.user_id, model_of(session, outgoing.model, role, owner))
        item = _enqueue(session, queue, outgoing, role, first=when_busy == "interrupt")
        interrupts = None
        if when_busy == "interrupt" and busy is not None:
            interrupts = order_interrupt(busy, outgoing.user_name)
        return Queued(session=session, item=item, queue=queue_of(session), interrupts=interrupts)


def own_session(session_key: str, user_id: int, *, lock: bool = False) -> ChatSession:
    """The person's session by its key. Raises `NotFound`, for other people's sessions alike."""
    sessions = ChatSession.objects.select_for_update() if lock else ChatSession.objects
    session = sessions.filter(Exists(_active(user_id)), key=session_key, user_id=user_id).first()
    if session is None:
        raise NotFound
    return session


def live_turn(session: ChatSession) -> ExecutionRecord | None:
    return ExecutionRecord.objects.live().turns().of_session(session.key).first()


def is_promised(queue: list[QueuedMessage]) -> bool:
    """Whether Send now has settled what is sent next in the session."""
    return any(item.promoted for item in queue)


def queue_of(session: ChatSession) -> list[QueuedMessage]:
    return list(session.queue.in_order())


def state_of(session: ChatSession) -> tuple[int, bool]:
    """How many messages wait in the session, and whether a turn runs in it."""
    return session.queue.count(), live_turn(session) is not None


def ended_cleanly(session: ChatSession) -> bool:
    """Whether the last answer is complete: only then does the queue flow by itself."""
    return _last_status(session) == MessageStatus.COMPLETED


def order_interrupt(turn: ExecutionRecord, user_name: str) -> str:
    """Write the intent to end `turn` for a new message; return its execution's id."""
    intent = Intent(reason=AbortReason.USER_INTERRUPT, by=user_name, source="web")
    ExecutionRecord.objects.filter(pk=turn.pk).order(intent)
    return str(turn.pk)


def check_limits(text: str, context: dict[str, str] | None = None) -> None:
    """Raises `Invalid` for what is well-formed but refused by a rule."""
    if not text.strip():
        raise Invalid("The message is empty. Write something, then send.")
    if len(text.encode()) > TEXT_MAX_BYTES:
        raise Invalid(f"The message is too long: {TEXT_MAX_BYTES // 1024} KiB at most. Shorten it or send it in parts.")
    if context and len(context.get("text", "").encode()) > CONTEXT_MAX_BYTES:
        raise Invalid(f"The context is too long: {CONTEXT_MAX_BYTES // 1024} KiB of text at most.")


def check_holds(user_id: int | None, model: str) -> None:
    """Raises `Held` if a hold covers a run of this person with this model."""
    hold = Hold.objects.over(user_id=user_id, model=model).first()
    if hold is not None:
        because = f" ({hold.reason})" if hold.reason else ""
        raise Held(f"New runs are on hold by {hold.by or 'an operator'}{because}. Nothing was sent; send again later.")


def start_turn(
    session: ChatSession,
    outgoing: Outgoing,
    owner: Owner,
    role: AgentRole | None,
    queue: list[QueuedMessage],
    **of_message: Any,
) -> Started:
    """Insert the user's message, the answer to be, and its execution. Raises `Held`.

    `queue` is what waits behind it; `of_message` are more fields of the user's message.
    """
    role = role or session.agent_role
    model = model_of(session, outgoing.model, role, owner)
    record = admit_execution(session, owner, model, outgoing.request_id)
    user_message = ChatMessage.objects.create(
        session=session,
        role=MessageRole.USER,
        status=MessageStatus.COMPLETED,
        text=outgoing.text,
        parts=[{"kind": "text", "step": 1, "text": outgoing.text}],
        client_message_id=outgoing.client_message_id,
        context=outgoing.context,
        interrupted_previous=outgoing.interrupted and _was_cut_off(session),
        execution=record,
        finished_at=timezone.now(),
        **of_message,
    )
    answer = insert_answer(session, record)
    session.title = session.title or title_of(outgoing.text)
    session.model, session.agent_role = model, role
    touch(session)
    return Started(session=session, record=record, answer=answer, user_message=user_message, queue=queue)


def model_of(session: ChatSession, wanted: str, role: AgentRole | None, owner: Owner) -> str:
    """Which model answers: the message's, the role's, the session's, or the default."""
    role = role or session.agent_role
    return wanted or (role.model if role else "") or session.model or owner.default_model


def admit_execution(
    session: ChatSession, owner: Owner, model: str, request_id: str = "", kind: str = ExecutionKind.TURN
) -> ExecutionRecord:
    """Pass the gate and insert the execution; the one place where anything is let in. Raises `Held`."""
    gate.pass_shared()
    check_holds(session.user_id, model)
    return ExecutionRecord.objects.create(
        id=owner.execution_id,
        kind=kind,
        session_key=session.key,
        user_id=session.user_id,
        worker_id=owner.worker_id,
        model=model,
        request_id=request_id,
    )


def insert_answer(session: ChatSession, record: ExecutionRecord, **more: Any) -> ChatMessage:
    return ChatMessage.objects.create(
        session=session, role=MessageRole.ASSISTANT, status=MessageStatus.STREAMING, execution=record, **more
    )


def touch(session: ChatSession) -> None:
    session.updated_at = timezone.now()
    session.save(update_fields=["title", "model", "agent_role", "updated_at"])


def title_of(text: str) -> str:
    """The first line of the message, shortened."""
    line = text.strip().splitlines()[0].strip()
    return line if len(line) <= TITLE_MAX_CHARS else line[: TITLE_MAX_CHARS - 1].rstrip() + "…"


def _session_for(outgoing: Outgoing) -> tuple[ChatSession, bool]:
    """The session, locked, made for its first message. Raises `NotFound` if it is somebody else's."""
    key, user_id, created = outgoing.session_key, outgoing.user_id, False
    with contextlib.suppress(NotFound):
        return own_session(key, user_id, lock=True), created
    if not ChatSession.objects.filter(key=key).exists() and _active(user_id).exists():
        check_limits(outgoing.text, outgoing.context)
        with contextlib.suppress(IntegrityError), transaction.atomic():  # the other one of two first messages made it
            ChatSession.objects.create(key=key, user_id=user_id)
            created = True
    return own_session(key, user_id, lock=True), created


def _active(user_id: int) -> QuerySet[Any]:
    """The account, unless it was closed: its open sockets can do nothing more."""
    return get_user_model().objects.filter(pk=user_id, is_active=True)


def _repeated(session: ChatSession, queue: list[QueuedMessage], client_message_id: str) -> Repeated | None:
    if not client_message_id:
        return None
    item = next((item for item in queue if item.client_message_id == client_message_id), None)
    message = None if item else session.messages.filter(client_message_id=client_message_id).first()
    return Repeated(session=session, message=message, item=item) if message or item else None


def _role(role_id: str | None) -> AgentRole | None:
    if role_id is None:
        return None
    role = AgentRole.objects.filter(pk=role_id).first() if role_id.isascii() and role_id.isdigit() else None
    if role is None:
        raise Invalid("There is no such role. Choose another one.")
    return role


def _was_cut_off(session: ChatSession) -> bool:
    """Whether the last answer was aborted, or is still being so: what a claim to have interrupted it must find."""
    return _last_status(session) in (MessageStatus.ABORTED, MessageStatus.STREAMING)


def _last_status(session: ChatSession) -> str | None:
    answers = session.messages.filter(role=MessageRole.ASSISTANT).order_by("-id")
    return answers.values_list("status", flat=True).first()


def _enqueue(
    session: ChatSession, queue: list[QueuedMessage], outgoing: Outgoing, role: AgentRole | None, *, first: bool
) -> QueuedMessage:
    if len(queue) >= QUEUE_MAX:
        raise QueueFull
    ends = (queue[0].position - 1, queue[-1].position + 1) if queue else (0, 0)
    position = ends[0] if first else ends[1]
    return QueuedMessage.objects.create(
        session=session,
        position=position,
        text=outgoing.text,
        client_message_id=outgoing.client_message_id,
        request_id=outgoing.request_id,
        agent_role=role,
        model=outgoing.model,
        context=outgoing.context,
        interrupted=outgoing.interrupted,
        promoted=first,
        promoted_by=outgoing.client_message_id if first else "",
        interrupting=first,
    )
