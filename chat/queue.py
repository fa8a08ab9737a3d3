"""The queue of a session: edited by its owner, taken once. Each change is one transaction that locks the session."""

from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from chat.admission import (
    Outgoing,
    Owner,
    Started,
    check_holds,
    check_limits,
    live_turn,
    model_of,
    order_interrupt,
    own_session,
    queue_of,
    start_turn,
)
from chat.errors import ChatError, NotFound, Stale
from chat.models import ChatMessage, ChatSession, QueuedMessage, QueuedQuerySet
from kernel.models import ExecutionRecord


@dataclass(frozen=True, kw_only=True)
class SentNow:
    """What Send now did.

    `started` while idle; while busy the `item` that waits and the execution that it `interrupts`; `sent` if it was sent
    before.
    """

    session: ChatSession
    queue: list[QueuedMessage]
    started: Started | None = None
    item: QueuedMessage | None = None
    interrupts: str | None = None
    sent: ChatMessage | None = None


def send_now(session_key: str, user_id: int, user_name: str, queue_id: str, owner: Owner) -> SentNow:
    """Send this item next: at once if idle, else by interrupting the running turn. Repeats answer as the first did."""
    with transaction.atomic():
        session = own_session(session_key, user_id, lock=True)
        item = session.queue.filter(pk=_pk(queue_id)).first()
        if item is None:
            sent = session.messages.filter(queued_as=_pk(queue_id)).first()
            if sent is None:
                raise NotFound("The queued message is gone.")
            return SentNow(session=session, queue=queue_of(session), sent=sent)
        busy = live_turn(session)
        if busy is None:
            started = _take(session, item, owner)
            return SentNow(session=session, queue=queue_of(session), started=started)
        check_holds(session.user_id, model_of(session, item.model, item.agent_role, owner))
        first = session.queue.in_order().first()
        if first is not None and first.pk != item.pk:
            item.position = first.position - 1
        item.promoted = item.interrupted = True
        item.editing_until = None
        item.save()
        interrupts = order_interrupt(busy, user_name)
        return SentNow(session=session, queue=queue_of(session), item=item, interrupts=interrupts)


def take_next(session_id: int, owner: Owner, *, promoted_only: bool) -> Started | None:
    """Send the head of the queue if the session is idle and nothing holds it; `promoted_only`: if Send now said so."""
    with transaction.atomic():
        session = ChatSession.objects.select_for_update().filter(pk=session_id).first()
        head = session.queue.in_order().first() if session else None
        if session is None or head is None or live_turn(session) is not None:
            return None
        if (promoted_only and not head.promoted) or _is_edited(head):
            return None
        try:
            return _take(session, head, owner)
        except ChatError:  # a hold: the queue stays as it is
            return None


def sent_as(queue_id: int) -> dict[str, str] | None:
    """The `messageId` and `executionId` that this item became, if it was sent."""
    row = ChatMessage.objects.filter(queued_as=queue_id).values_list("pk", "execution_id").first()
    return {"messageId": str(row[0]), "executionId": str(row[1])} if row else None


def promised() -> list[ChatSession]:
    """The idle sessions whose head Send now has promised to send."""
    live = ExecutionRecord.objects.live().turns().filter(session_key=OuterRef("key"))
    waiting = QueuedMessage.objects.filter(session=OuterRef("pk"), promoted=True)
    return list(ChatSession.objects.filter(Exists(waiting), ~Exists(live)))


def queued(*, session_key: str | None = None, user_id: int | None = None, model: str = "") -> QueuedQuerySet:
    """The queued messages of a session, of a person, or for a model; all of them where nothing is named."""
    rows = QueuedMessage.objects.all()
    if session_key is not None:
        rows = rows.filter(session__key=session_key)
    if user_id is not None:
        rows = rows.filter(session__user_id=user_id)
    if model:
        rows = rows.filter(Q(model=model) | Q(model="", session__model=model))
    return rows


def withdraw_promises(rows: QueuedQuerySet) -> None:
    """A stop or a panic came after a Send now: nothing of these is sent by itself any more."""
    promised = rows.filter(promoted=True).values("pk")
    QueuedMessage.objects.filter(pk__in=promised).update(promoted=False)


def edit(session_key: str, user_id: int, queue_id: str, text: str) -> tuple[ChatSession, list[QueuedMessage]]:
    with transaction.atomic():
        session, item = _item(session_key, user_id, queue_id)
        check_limits(text)
        item.text, item.editing_until = text, None
        item.save(update_fields=["text", "editing_until"])
        return session, queue_of(session)


def remove(session_key: str, user_id: int, queue_id: str) -> tuple[ChatSession, list[QueuedMessage]]:
    with transaction.atomic():
        session, item = _item(session_key, user_id, queue_id)
        item.delete()
        return session, queue_of(session)


def move(session_key: str, user_id: int, queue_id: str, position: int) -> tuple[ChatSession, list[QueuedMessage]]:
    """Move the item to `position`, counted from 0; past the end means last."""
    with transaction.atomic():
        session, item = _item(session_key, user_id, queue_id)
        rows = [row for row in queue_of(session) if row.pk != item.pk]
        rows.insert(max(0, position), item)
        for number, row in enumerate(rows):
            if row.position != number:
                row.position = number
                row.save(update_fields=["position"])
        return session, queue_of(session)


def set_editing(
    session_key: str, user_id: int, queue_id: str, editing: bool
) -> tuple[ChatSession, list[QueuedMessage]]:
    """Keep the item from being sent while a person edits it; ends by itself after `QueuedMessage.EDITING`."""
    with transaction.atomic():
        session, item = _item(session_key, user_id, queue_id)
        item.editing_until = timezone.now() + QueuedMessage.EDITING if editing else None
        item.save(update_fields=["editing_until"])
        return session, queue_of(session)


def _item(session_key: str, user_id: int, queue_id: str) -> tuple[ChatSession, QueuedMessage]:
    session = own_session(session_key, user_id, lock=True)
    item = session.queue.filter(pk=_pk(queue_id)).first()
    if item is None:
        if session.messages.filter(queued_as=_pk(queue_id)).exists():
            raise Stale
        raise NotFound("The queued message is gone.")
    return session, item


def _pk(queue_id: str) -> int:
    return int(queue_id) if queue_id.isascii() and queue_id.isdigit() and len(queue_id) < 19 else 0


def _is_edited(item: QueuedMessage) -> bool:
    return item.editing_until is not None and item.editing_until > timezone.now()


def _take(session: ChatSession, item: QueuedMessage, owner: Owner) -> Started:
    """The item leaves the queue and becomes a turn, in one transaction: it is never in both, and never in none."""
    outgoing = Outgoing(
        session_key=session.key,
        user_id=session.user_id,
        user_name="",
        text=item.text,
        client_message_id=item.client_message_id,
        request_id=item.request_id,
        model=item.model,
        context=item.context,
        interrupted=item.interrupted,
    )
    started = start_turn(session, outgoing, owner, item.agent_role)
    queue_id = item.pk
    item.delete()
    assert started.user_message is not None  # start_turn inserts it
    started.user_message.queued_as = queue_id
    started.user_message.save(update_fields=["queued_as"])
    return replace(started, queue=queue_of(session))
