"""What an execution's end means for its message: settled in the transaction that ends the execution, by whomever."""

from typing import Any

from django.db.models.functions import Now
from django.dispatch import receiver

from chat.history import close_parts
from chat.models import ChatMessage
from chat.partials import Partial
from kernel.models import ExecutionRecord, ExecutionStatus, execution_settled

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
