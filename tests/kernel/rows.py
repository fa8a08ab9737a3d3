"""Rows of the ledger for tests, and their times written by hand: nothing here waits for a clock."""

import uuid
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from kernel.abort import Abort, AbortReason
from kernel.models import ExecutionRecord, Worker
from kernel.runner import Outcome, Status

COMPLETED = Outcome(status=Status.COMPLETED, value="stop")


def aborted(reason: str = "session_stop", **more: Any) -> Outcome:
    return Outcome(status=Status.ABORTED, abort=Abort(reason=AbortReason(reason), **more))


def make_worker(*, lease_s: float = 60.0, **fields: Any) -> Worker:
    """A worker of another process; a negative lease has run out."""
    return Worker.objects.create(host="elsewhere", pid=1, lease_until=Now() + timedelta(seconds=lease_s), **fields)


def make_execution(worker: Worker | uuid.UUID | None = None, **fields: Any) -> ExecutionRecord:
    """A running execution, of a worker with a valid lease unless one is given."""
    worker_id = worker if isinstance(worker, uuid.UUID) else (worker or make_worker()).pk
    fields.setdefault("session_key", uuid.uuid4().hex)
    record = ExecutionRecord.objects.create(worker_id=worker_id, **fields)
    record.refresh_from_db()
    return record


def expire(worker: Worker | uuid.UUID) -> None:
    """Let the lease run out."""
    pk = worker if isinstance(worker, uuid.UUID) else worker.pk
    Worker.objects.filter(pk=pk).update(lease_until=Now() - timedelta(seconds=1))
