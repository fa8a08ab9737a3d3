"""The contract's objects (docs/protocol.md) made of rows: message, session, queue, hold."""

from collections.abc import Iterable

from django.utils import timezone

from chat.models import ChatMessage, ChatSession, MessageStatus, QueuedMessage
from kernel.abort import AbortReason
from kernel.models import ExecutionRecord
from kernel.objects import Object, ms, usage
from kernel.objects import hold as hold

# Fixed strings of the contract, never translated; pages show their own text by `abortReason`.
ABORT_ERRORS = {
    AbortReason.SESSION_STOP: "Execução interrompida por Parar Sessão.",
    AbortReason.PANIC_STOP: "Execução interrompida por Pânico.",
    AbortReason.TIMEOUT: "Timeout da execução atingido.",
    AbortReason.USER_INTERRUPT: "Execução interrompida por nova mensagem.",
    AbortReason.DISCONNECT: "Execução interrompida por desconexão.",
    AbortReason.SHUTDOWN: "Execução interrompida por desligamento do servidor.",
    AbortReason.WORKER_LOST: "Execução perdida: o processo responsável parou.",
    AbortReason.DELETED: "Execução interrompida: sessão excluída.",
}


def message(row: ChatMessage, session_key: str) -> Object:
    """A message with the end that its execution has; needs `row.execution` loaded."""
    record = row.execution if row.role == "assistant" else None
    ended = record is not None and row.status != MessageStatus.STREAMING
    return {
        "id": str(row.pk),
        "sessionKey": session_key,
        "role": row.role,
        "status": row.status,
        "text": row.text,
        "parts": row.parts,
        "abortReason": record.abort_reason or None if record and ended else None,
        "timeoutKind": record.timeout_kind or None if record and ended else None,
        "error": error(record) if record and ended else None,
        "finishReason": record.finish_reason or None if record and ended else None,
        "executionId": str(row.execution_id) if row.execution_id else None,
        "model": record.model or None if record else None,
        "usage": usage(record) if record and ended else None,
        "stop": stop(record) if record and ended else None,
        "interruptedPrevious": row.interrupted_previous,
        "continuesId": str(row.continues_id) if row.continues_id else None,
        "replacesId": str(row.replaces_id) if row.replaces_id else None,
        "createdAt": ms(row.created_at),
        "finishedAt": ms(row.finished_at),
    }


def error(record: ExecutionRecord) -> str | None:
    if record.abort_reason:
        return ABORT_ERRORS[AbortReason(record.abort_reason)]
    return record.error or None


def stop(record: ExecutionRecord) -> Object | None:
    """Who ended it, from where, and how long it took; None unless it was aborted."""
    if not record.abort_reason:
        return None
    return {
        "by": record.requested_by or None,
        "source": record.source,
        "reason": record.why or None,
        "requestedAt": ms(record.requested_at),
        "upstreamClosedMs": record.upstream_closed_ms,
        "settledMs": record.settled_ms,
    }


def result(record: ExecutionRecord, row: ChatMessage) -> Object:
    """The fields of `studio_chat_result`, without the envelope."""
    told: Object = {
        "ok": record.status == "completed",
        "requestId": record.request_id or None,
        "messageId": str(row.pk),
        "status": record.status,
        "text": row.text,
        "finishReason": record.finish_reason or None,
        "usage": usage(record),
        "steps": record.steps,
        "durationMs": record.duration_ms,
    }
    if reason := error(record):
        told["error"] = reason
    if record.abort_reason:
        told |= {"abortReason": record.abort_reason, "stop": stop(record)}
    if record.timeout_kind:
        told["timeoutKind"] = record.timeout_kind
    return told


def session(row: ChatSession, *, running: bool, queue_length: int, warnings: Iterable[str] = ()) -> Object:
    return {
        "key": row.key,
        "title": row.title,
        "state": "running" if running else "idle",
        "roleId": str(row.agent_role_id) if row.agent_role_id else None,
        "model": row.model,
        "queueLength": queue_length,
        "updatedAt": ms(row.updated_at),
        "warnings": list(warnings),
    }


def queue(rows: Iterable[QueuedMessage]) -> list[Object]:
    """The queue in its order; positions count from 0."""
    now = timezone.now()
    return [
        {
            "id": str(row.pk),
            "position": position,
            "text": row.text,
            "clientMessageId": row.client_message_id or None,
            "createdAt": ms(row.created_at),
            "editing": bool(row.editing_until and row.editing_until > now),
        }
        for position, row in enumerate(rows)
    ]
