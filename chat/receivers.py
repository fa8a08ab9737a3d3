"""What the kernel's decisions mean for the chat, in the kernel's own transactions: a message's end, a stop's order."""

from typing import Any

from django.db.models.functions import Now
from django.dispatch import receiver

from chat.history import close_parts
from chat.models import ChatMessage, ChatSession, QueuedQuerySet
from chat.partials import Partial
from chat.queue import queued, withdraw_promises
from kernel.control import Target, abort_ordered
from kernel.models import ExecutionRecord, ExecutionStatus, execution_settled
from kernel.orders import waiting_asked

UNFINISHED = "Interrupted before it finished; it may have had effects."


@receiver(execution_settled, sender=ExecutionRecord)
def end_message(record: ExecutionRecord, work: Partial | None, **_: Any) -> None:
    """Settle the message with what its owner had in memory, or, when the owner is lost, with what was kept."""
    row = ChatMessage.objects.streaming().filter(execution=record, role="assistant").first()
    if row is None:  # a title, a drill, or a message of a deleted session
        return
    if work is not None:
        row.parts, row.text = work.parts, work.text
    if record.status != ExecutionStatus.COMPLETED:
        row.parts = close_parts(row.parts, UNFINISHED)
    row.status = record.status
    ChatMessage.objects.streaming().filter(pk=row.pk).update(
        status=row.status, parts=row.parts, text=row.text, finished_at=Now()
    )


@receiver(abort_ordered, sender=Target)
def make_way_for_abort(target: Target, **_: Any) -> None:
    """Lock the session's row, as admission does, so that no turn slips in; nothing is sent by itself after it."""
    if target.session_key is not None:
        ChatSession.objects.select_for_update().filter(key=target.session_key).first()
    withdraw_promises(_queued_in(target))


@receiver(waiting_asked, sender=Target)
def count_queue(target: Target, **_: Any) -> int:
    return _queued_in(target).count()


def _queued_in(target: Target) -> QueuedQuerySet:
    return queued(session_key=target.session_key, user_id=target.user_id, model=target.model or "")
