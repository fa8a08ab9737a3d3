"""The contract's objects (docs/protocol.md) made of the ledger's rows: usage, hold, execution, counts."""

from datetime import datetime
from typing import Any

from kernel.control import Counts
from kernel.models import ExecutionRecord, Hold

Object = dict[str, Any]


def ms(moment: datetime | None) -> int | None:
    """Milliseconds since the epoch."""
    return None if moment is None else round(moment.timestamp() * 1000)


def usage(record: ExecutionRecord) -> Object:
    return {
        "inputTokens": record.input_tokens,
        "outputTokens": record.output_tokens,
        "costUsd": record.cost_usd,
        "estimated": record.estimated,
    }


def hold(row: Hold) -> Object:
    """A hold; needs `row.scope_user` loaded."""
    scope: Object = {}
    if row.scope_user is not None:
        scope["user"] = row.scope_user.get_username()
    if row.scope_model:
        scope["model"] = row.scope_model
    return {"id": str(row.pk), "reason": row.reason, "by": row.by, "at": ms(row.at), "scope": scope}


def execution(record: ExecutionRecord) -> Object:
    """One row of the ledger; needs `record.user` and `record.worker` loaded."""
    return {
        "id": str(record.pk),
        "kind": record.kind,
        "sessionKey": record.session_key or None,
        "user": record.user.get_username() if record.user else None,
        "worker": str(record.worker) if record.worker else None,
        "model": record.model,
        "status": record.status,
        "abortReason": record.abort_reason or None,
        "requestedBy": record.requested_by or None,
        "source": record.source or None,
        "startedAt": ms(record.started_at),
        "finishedAt": ms(record.finished_at),
        "upstreamClosedMs": record.upstream_closed_ms,
        "steps": record.steps,
        "usage": usage(record),
    }


def counts(told: Counts) -> Object:
    """What a stop or a panic did."""
    return {
        "abortedCount": told.aborted,
        "activeCount": told.active,
        "unconfirmedCount": told.unconfirmed,
        "alreadyFinishedCount": told.already_finished,
    }
