"""The ledger: what runs, who owns it, who ordered it to stop, and how it ended.

The database decides; every message between processes only hints. Each change of state is a conditional UPDATE whose row
count says who won, and times that processes compare (heartbeat, lease) are written and compared in the database's
clock.
"""

import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from django.conf import settings
from django.db import DatabaseError, models, transaction
from django.db.models.functions import Coalesce, Now
from django.dispatch import Signal

from kernel.abort import Abort, AbortReason, TimeoutKind
from kernel.audit import AuditEntry as AuditEntry  # tables of the ledger with modules of their own
from kernel.events import Usage
from kernel.holds import Hold as Hold
from kernel.mcp.models import McpServer as McpServer
from kernel.runner import Outcome, Status

logger = logging.getLogger(__name__)

# Sent inside the transaction that ends an execution, with `record` (as written) and `work` (what its owner kept in
# memory, or None when somebody else ends it). Whoever gives the execution its meaning ends that in the same
# transaction.
execution_settled = Signal()

TOKENS_MAX = 2**31 - 1  # of PostgreSQL's integer


class ExecutionKind(models.TextChoices):
    TURN = "turn"
    TITLE = "title"
    DRILL = "drill"


class ExecutionStatus(models.TextChoices):
    RUNNING = "running"
    COMPLETED = Status.COMPLETED.value
    ERROR = Status.ERROR.value
    ABORTED = Status.ABORTED.value


def uuid_of(text: str) -> uuid.UUID:
    """The id that `text` writes; the nil id, which no row has, if it is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)


def choices(enum: type) -> list[tuple[str, str]]:
    return [(member.value, member.value) for member in enum]  # type: ignore[attr-defined]


class WorkerQuerySet(models.QuerySet["Worker"]):
    def renew(self, pk: uuid.UUID, lease_s: float, channel: str = "") -> bool:
        """Extend the lease from the database's now. False: the row is gone or the lease had run out."""
        lease = Now() + timedelta(seconds=lease_s)
        mine = self.filter(pk=pk, lease_until__gte=Now())
        return bool(mine.update(heartbeat_at=Now(), lease_until=lease, channel=channel))


class Worker(models.Model):
    """One process that owns executions, for as long as its lease is renewed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    channel = models.CharField(max_length=255, blank=True)
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField(db_index=True)
    draining = models.BooleanField(default=False)

    objects = WorkerQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """An order to abort: why, by whom (a user name, or empty), from which door, and what the person said to it."""

    reason: AbortReason
    by: str = ""
    source: str = ""
    why: str = ""


class ExecutionQuerySet(models.QuerySet["ExecutionRecord"]):
    def live(self) -> Self:
        return self.filter(status=ExecutionStatus.RUNNING)

    def turns(self) -> Self:
        return self.filter(kind=ExecutionKind.TURN)

    def stoppable(self) -> Self:
        """Everything that stop and panic act on and count."""
        return self.live().exclude(kind=ExecutionKind.DRILL)

    def of_session(self, session_key: str) -> Self:
        return self.filter(session_key=session_key)

    def orphaned(self) -> Self:
        """Running, but their worker's lease has run out (in the database's clock) or its row is gone.

        Without a join: PostgreSQL evaluates the conditions of an UPDATE anew after it waited for a row, but not those
        that a join has moved into a subquery.
        """
        alive = Worker.objects.filter(pk=models.OuterRef("worker_id"), lease_until__gte=Now())
        return self.live().filter(~models.Exists(alive))

    def order(self, intent: Intent) -> int:
        """Write the intent on those that carry none yet: the first reason and author stay."""
        return (
            self.live()
            .filter(intent="")
            .update(
                intent=intent.reason,
                requested_by=intent.by,
                source=intent.source,
                why=intent.why,
                requested_at=Now(),
            )
        )

    def settle(self, pk: str, outcome: Outcome, worker_id: uuid.UUID | None, work: Any = None, **measured: Any) -> bool:
        """Write the end, once, and in the same transaction that of what the execution means.

        `worker_id` is the owner that must still own it; None takes an orphan. `measured` are further fields. Returns
        False if it had ended, or belongs to another worker.
        """
        with transaction.atomic():
            mine = self.filter(pk=pk, status=ExecutionStatus.RUNNING)
            mine = mine.filter(worker_id=worker_id) if worker_id else mine.orphaned()
            if not mine.update(status=outcome.status, finished_at=Now(), **_end_fields(outcome), **measured):
                return False
            execution_settled.send(sender=ExecutionRecord, record=self.get(pk=pk), work=work)
            return True

    def settle_orphans(self) -> list[str]:
        """End every orphan: by the stop that was ordered for it, else as lost. Return the ids that this call ended."""
        ended = []
        for pk in list(self.orphaned().values_list("pk", flat=True)):
            try:
                if self.settle_lost(pk, None):
                    ended.append(str(pk))
            except (DatabaseError, ValueError):
                logger.exception("An orphan could not be ended; the others are.", extra={"execution_id": str(pk)})
        return ended

    def settle_lost(self, pk: uuid.UUID, worker_id: uuid.UUID | None) -> bool:
        """End an execution that nobody runs. What was ordered is read in the transaction that ends it."""
        with transaction.atomic():
            record = self.live().select_for_update().filter(pk=pk).first()
            if record is None:
                return False
            abort = Abort(
                reason=AbortReason(record.intent or AbortReason.WORKER_LOST),
                by=record.requested_by,
                source=record.source or "recovery",
                why=record.why,
            )
            return self.settle(str(pk), Outcome(status=Status.ABORTED, abort=abort), worker_id)


def _end_fields(outcome: Outcome) -> dict[str, Any]:
    fields: dict[str, Any] = {"error": outcome.error}
    if outcome.upstream_closed_ms is not None:
        fields["upstream_closed_ms"] = round(outcome.upstream_closed_ms, 3)
    if outcome.abort is not None:
        abort = outcome.abort
        fields |= {
            "abort_reason": abort.reason,
            "timeout_kind": abort.timeout_kind or "",
            "intent": abort.reason,
            "requested_by": abort.by,
            "source": abort.source,
            "why": abort.why,
            # The order's own time where it was written; else the moment of the decision.
            "requested_at": Coalesce("requested_at", datetime.fromtimestamp(abort.at, UTC)),
        }
    return fields


class ExecutionRecord(models.Model):
    """One execution in the ledger. `intent` is what was ordered, `abort_reason` what it ended of."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=16, choices=ExecutionKind.choices, default=ExecutionKind.TURN)
    session_key = models.CharField(max_length=64, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="executions"
    )
    worker = models.ForeignKey(Worker, null=True, blank=True, on_delete=models.SET_NULL, related_name="executions")
    model = models.CharField(max_length=255, blank=True)
    request_id = models.CharField(max_length=128, blank=True)
    status = models.CharField(max_length=16, choices=ExecutionStatus.choices, default=ExecutionStatus.RUNNING)

    intent = models.CharField(max_length=32, choices=choices(AbortReason), blank=True)
    requested_by = models.CharField(max_length=150, blank=True)
    source = models.CharField(max_length=32, blank=True)
    why = models.TextField(blank=True)
    requested_at = models.DateTimeField(null=True, blank=True)

    abort_reason = models.CharField(max_length=32, choices=choices(AbortReason), blank=True)
    timeout_kind = models.CharField(max_length=16, choices=choices(TimeoutKind), blank=True)
    error = models.TextField(blank=True)
    finish_reason = models.CharField(max_length=64, blank=True)

    started_at = models.DateTimeField(db_default=Now(), db_index=True)
    first_output_ms = models.FloatField(null=True, blank=True)
    upstream_closed_ms = models.FloatField(null=True, blank=True)
    settled_ms = models.FloatField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    duration_ms = models.FloatField(null=True, blank=True)

    steps = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cost_usd = models.FloatField(null=True, blank=True)
    estimated = models.BooleanField(default=False)

    objects = ExecutionQuerySet.as_manager()

    class Meta:
        permissions = [
            ("stop_any_execution", "Can stop another person's execution"),
            ("panic", "Can stop everything, hold and release"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["session_key"],
                condition=models.Q(status="running", kind="turn"),
                name="one_running_turn_per_session",
            ),
            models.CheckConstraint(
                condition=models.Q(status="aborted") ^ models.Q(abort_reason=""), name="abort_reason_iff_aborted"
            ),
            models.CheckConstraint(
                condition=models.Q(status="running", finished_at=None)
                | (~models.Q(status="running") & models.Q(finished_at__isnull=False)),
                name="finished_at_iff_terminal",
            ),
        ]
        indexes = [
            models.Index(fields=["session_key", "status"], name="execution_of_session"),
            models.Index(fields=["session_key", "finished_at"], name="ends_of_session"),
            models.Index(fields=["worker"], condition=models.Q(status="running"), name="running_of_worker"),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def usage(self) -> Usage:
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=self.cost_usd,
            estimated=self.estimated,
        )


class AbortedRun(ExecutionRecord):
    """An execution in the view of those that were aborted; the view filters."""

    class Meta:
        proxy = True


def usage_fields(usages: Iterable[Usage]) -> dict[str, Any]:
    """The ledger's fields for the sum of `usages`. What providers count may be anything; an end must be storable."""
    total = sum(usages, Usage())
    return {
        "input_tokens": min(max(total.input_tokens, 0), TOKENS_MAX),
        "output_tokens": min(max(total.output_tokens, 0), TOKENS_MAX),
        "cost_usd": total.cost_usd,
        "estimated": total.estimated,
    }
