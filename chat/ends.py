"""The end of a turn, written and read back. Each function is one piece of database work."""

import logging
import time
import uuid
from dataclasses import dataclass, replace

from django.db import DataError

from chat import objects
from chat.models import ChatMessage, ChatSession, MessageRole
from chat.partials import Partial
from kernel.llm.text import storable
from kernel.models import ExecutionRecord, usage_fields
from kernel.registry import Execution
from kernel.runner import Outcome, Status

logger = logging.getLogger(__name__)

FINISH_REASON_MAX = 64


@dataclass(frozen=True, kw_only=True)
class End:
    """A turn's end as written, read back in the transaction's own words."""

    record: ExecutionRecord
    answer: ChatMessage
    session: ChatSession
    queue_length: int
    first_turn: bool
    question: ChatMessage | None = None  # the person's message, where it is to be told too


def unnumbered(end: End) -> list[objects.Object]:
    """The end as told by a worker that did not run the turn: the settled message, whole, then the result.

    The person's message comes first: its owner may have been lost before it told of it.
    """
    envelope: objects.Object = {
        "sessionKey": end.session.key,
        "executionId": str(end.record.pk),
        "seq": None,
    }
    rows = [row for row in (end.question, end.answer) if row is not None]
    messages = [objects.message(row, end.session.key) for row in rows]
    return [
        *({"type": "studio_chat_message", **envelope, "message": message} for message in messages),
        {"type": "studio_chat_result", **envelope, **objects.result(end.record, end.answer)},
    ]


def write_end(execution: Execution, outcome: Outcome, worker_id: uuid.UUID, kept: Partial) -> End | None:
    now_s = time.monotonic()
    measured = {
        "steps": execution.steps,
        "duration_ms": round((now_s - execution.started_s) * 1000, 3),
        "finish_reason": _finish_reason(outcome),
        **usage_fields([execution.usage, execution.pending]),
    }
    if execution.first_output_s is not None:
        measured["first_output_ms"] = round((execution.first_output_s - execution.started_s) * 1000, 3)
    if outcome.abort is not None:
        measured["settled_ms"] = round((now_s - outcome.abort.decided_s) * 1000, 3)
    try:
        written = ExecutionRecord.objects.settle(execution.id, outcome, worker_id, kept, **measured)
    except (DataError, ValueError):
        # The end must be written, whatever a provider has sent.
        logger.exception("An end was not storable as it was.", extra={"execution_id": execution.id})
        kept = replace(kept, text=storable(kept.text), parts=storable(kept.parts))
        outcome = replace(outcome, error=storable(outcome.error))
        written = ExecutionRecord.objects.settle(execution.id, outcome, worker_id, kept, **measured)
    return read_end(execution.id) if written else None


def _finish_reason(outcome: Outcome) -> str:
    """The provider's, or the code of the limit that was reached."""
    told = outcome.value if outcome.status is Status.COMPLETED else getattr(outcome.value, "finish_reason", "")
    return storable(told)[:FINISH_REASON_MAX]


def read_foreign_end(execution_id: str) -> End | None:
    """The end of a turn that this worker did not run, to be told whole; None if its session is gone."""
    end = read_end(execution_id)
    if end is None:
        return None
    asked = ChatMessage.objects.filter(execution=end.record, role=MessageRole.USER).select_related("execution")
    return replace(end, question=asked.first())


def read_end(execution_id: str) -> End | None:
    """The end as it stands; None if the message is gone with its session."""
    answer = (
        ChatMessage.objects.select_related("execution", "session")
        .filter(execution=uuid.UUID(execution_id), role=MessageRole.ASSISTANT)
        .first()
    )
    if answer is None or answer.execution is None:
        return None
    return End(
        record=answer.execution,
        answer=answer,
        session=answer.session,
        queue_length=answer.session.queue.count(),
        first_turn=not answer.session.messages.filter(pk__lt=answer.pk, role=MessageRole.ASSISTANT).exists(),
    )
