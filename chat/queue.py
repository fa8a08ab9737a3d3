"""The queue of a session: edited by its owner, taken once. Each change is one transaction that locks the session."""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Exists, OuterRef, Value
from django.db.models.functions import Coalesce, NullIf
from django.utils import timezone

from chat.admission import (
    Outgoing,
    Owner,
    Started,
    check_holds,
    check_limits,
    ended_cleanly,
    is_promised,
    live_turn,
    model_of,
    order_interrupt,
    own_session,
    queue_of,
    start_turn,
)
from chat.errors import Held, NotFound, Stale
from chat.models import ChatMessage, ChatSession, QueuedMessage, QueuedQuerySet
from kernel.models import ExecutionRecord


@dataclass(frozen=True, kw_only=True)
class SentNow:
    """What Send now did: it `started` a turn; or the `item` waits, if a turn `interrupts` must end for it; or it was
    `sent` before. `interrupted` is its answer, the same at each repetition.
    """

    session: ChatSession
    interrupted: bool
    queue: list[QueuedMessage]
    started: Started | None = None
    item: QueuedMessage | None = None
    interrupts: str | None = None
    sent: ChatMessage | None = None


def send_now(
    session_key: str, user_id: int, user_name: str, queue_id: str, owner: Owner, client_message_id: str = ""
) -> SentNow:
    """Send this item next: at once if idle, else by interrupting the running turn. Raises `NotFound`, `Held`.

    A repetition answers as the first did and does nothing more: of an item that was sent, that is promised, or whose
    promise to this very command (`client_message_id`) a stop has taken back since.
    """
    with transaction.atomic():
        session = own_session(session_key, user_id, lock=True)
        item = session.queue.filter(pk=_pk(queue_id)).first()
        if item is None:
            sent = _sent(session, queue_id)
            return SentNow(session=session, interrupted=sent.interrupting, queue=queue_of(session), sent=sent)
        busy = live_turn(session)
        if not item.promoted and client_message_id and client_message_id == item.promoted_by:
            return SentNow(session=session, interrupted=True, queue=queue_of(session), item=item)
        if busy is None:
            item.interrupting = item.promoted
            started = _take(session, item, owner)
            return SentNow(session=session, interrupted=item.promoted, queue=started.queue, started=started)
        if not item.promoted:
            check_holds(session.user_id, model_of(session, item.model, item.agent_role, owner))
            _promise(session, item, client_message_id)
        interrupts = order_interrupt(busy, user_name)
        return SentNow(session=session, interrupted=True, queue=queue_of(session), item=item, interrupts=interrupts)


def take_next(session_id: int, owner: Owner, *, promoted_only: bool = False) -> Started | None:
    """Send what is next in the queue if the session is idle: what Send now has promised, whatever the last end was;
    anything else (unless `promoted_only`) after a clean one.

    It is judged here, under the lock, by how things stand: whoever asks may have been overtaken by a stop. What meets a
    hold stays, and nothing is promised any more: the release of a hold sends nothing by itself.
    """
    with transaction.atomic():
        session = ChatSession.objects.select_for_update().filter(pk=session_id).first()
        item = session.queue.next_up() if session else None
        if session is None or item is None or live_turn(session) is not None:
            return None
        if _is_edited(item) or not (item.promoted or (ended_cleanly(session) and not promoted_only)):
            return None
        try:
            return _take(session, item, owner)
        except Held:
            withdraw_promises(session.queue.all())
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
        rows = rows.alias(by=_answering_model()).filter(by=model)
    return rows


def withdraw_promises(rows: QueuedQuerySet) -> None:
    """A stop or a panic came after a Send now: nothing of these is sent by itself any more."""
    promised = rows.filter(promoted=True).values("pk")
    QueuedMessage.objects.filter(pk__in=promised).update(promoted=False)


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A queue after its owner has changed it, and whether a turn runs beside it: one moment's picture."""

    session: ChatSession
    queue: list[QueuedMessage]
    running: bool


def edit(session_key: str, user_id: int, queue_id: str, text: str) -> Changed:
    with transaction.atomic():
        session, item = _item(session_key, user_id, queue_id)
        check_limits(text)
        item.text, item.editing_until = text, None
        item.save(update_fields=["text", "editing_until"])
        return _changed(session)


def remove(session_key: str, user_id: int, queue_id: str) -> Changed:
    with transaction.atomic():
        session, item = _item(session_key, user_id, queue_id)
        item.delete()
        return _changed(session)


def move(session_key: str, user_id: int, queue_id: str, position: int) -> Changed:
    """Move the item to `position`, counted from 0; past the end means last."""
    with transaction.atomic():
        session, item = _item(session_key, user_id, queue_id)
        rows = [row for row in queue_of(session) if row.pk != item.pk]
        rows.insert(max(0, position), item)
        for number, row in enumerate(rows):
            if row.position != number:
                row.position = number
                row.save(update_fields=["position"])
        return _changed(session)


def set_editing(session_key: str, user_id: int, queue_id: str, editing: bool) -> Changed:
    """Keep the item from being sent while a person edits it; ends by itself after `QueuedMessage.EDITING`."""
    with transaction.atomic():
        session, item = _item(session_key, user_id, queue_id)
        item.editing_until = timezone.now() + QueuedMessage.EDITING if editing else None
        item.save(update_fields=["editing_until"])
        return _changed(session)


def _changed(session: ChatSession) -> Changed:
    return Changed(session=session, queue=queue_of(session), running=live_turn(session) is not None)


def _item(session_key: str, user_id: int, queue_id: str) -> tuple[ChatSession, QueuedMessage]:
    session = own_session(session_key, user_id, lock=True)
    item = session.queue.filter(pk=_pk(queue_id)).first()
    if item is None:
        _sent(session, queue_id)
        raise Stale
    return session, item


def _sent(session: ChatSession, queue_id: str) -> ChatMessage:
    """The message that the item became. Raises `NotFound` if it never was, or was removed."""
    sent = session.messages.filter(queued_as=_pk(queue_id)).first()
    if sent is None:
        raise NotFound("The queued message is gone.")
    return sent


def _pk(queue_id: str) -> int:
    return int(queue_id) if queue_id.isascii() and queue_id.isdigit() and len(queue_id) < 19 else 0


def _is_edited(item: QueuedMessage) -> bool:
    return item.editing_until is not None and item.editing_until > timezone.now()


def _promise(session: ChatSession, item: QueuedMessage, client_message_id: str) -> None:
    """The item becomes the head, to be sent when the running turn has ended."""
    first = session.queue.in_order().first()
    if first is not None and first.pk != item.pk:
        item.position = first.position - 1
    item.promoted = item.interrupting = True
    item.promoted_by, item.editing_until = client_message_id, None
    item.save(update_fields=["position", "promoted", "interrupting", "promoted_by", "editing_until"])


def _answering_model() -> Coalesce:
    """Which model will answer a queued message, as `model_of` has it; the session of one has a model."""
    return Coalesce(
        NullIf("model", Value("")),
        NullIf(Coalesce("agent_role__model", "session__agent_role__model"), Value("")),
        "session__model",
    )


def _take(session: ChatSession, item: QueuedMessage, owner: Owner) -> Started:
    """The item leaves the queue and becomes a turn, in one transaction: it is never in both, and never in none.

    What else was promised has been overtaken: it waits like any other.
    """
    outgoing = Outgoing(
        session_key=session.key,
        user_id=session.user_id,
        user_name="",
        text=item.text,
        client_message_id=item.client_message_id,
        request_id=item.request_id,
        model=item.model,
        context=item.context,
        interrupted=item.interrupted or item.promoted,
    )
    behind = [row for row in queue_of(session) if row.pk != item.pk]
    became = {"queued_as": item.pk, "interrupting": item.interrupting}
    started = start_turn(session, outgoing, owner, item.agent_role, behind, **became)
    item.delete()
    if is_promised(behind):
        withdraw_promises(session.queue.all())
    return started
