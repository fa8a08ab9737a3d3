"""The verbs behind stop and panic: order, confirm, release. Intent first, then the owner's end, then honest counts.

What this process owns is aborted at once, before anything is awaited: a stop works with the database down. Counts are
read from the ledger afterwards, never assumed.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DatabaseError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.dispatch import Signal

from kernel import gate, lanes
from kernel.audit import AuditEntry, Verb
from kernel.models import ExecutionQuerySet, ExecutionRecord, ExecutionStatus, Hold, Intent, uuid_of
from kernel.registry import Execution
from kernel.worker import ThisWorker

logger = logging.getLogger(__name__)

# An order that is not in the ledger by then has failed for its asker; what is ours was struck before.
ORDER_S = 5.0
# How long an answer waits for the owners, and how often it looks into the ledger for those of other processes.
CONFIRM_S = 1.0
LOOK_S = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Which executions: of one session, one execution, one user, one model, or (nothing named) all.

    `execution_id` narrows a session to one. Drills are never meant.
    """

    session_key: str | None = None
    execution_id: str | None = None
    user_id: int | None = None
    model: str | None = None

    def rows(self) -> ExecutionQuerySet:
        rows = ExecutionRecord.objects.stoppable()
        wanted = {
            "session_key": self.session_key,
            "pk": None if self.execution_id is None else uuid_of(self.execution_id),
            "user_id": self.user_id,
            "model": self.model,
        }
        return rows.filter(**{name: value for name, value in wanted.items() if value is not None})

    def matches(self, execution: Execution) -> bool:
        return execution.kind != "drill" and all(
            wanted is None or wanted == actual
            for wanted, actual in (
                (self.session_key, execution.session_key),
                (self.execution_id, execution.id),
                (self.user_id, execution.user_id),
                (self.model, execution.model),
            )
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What a stop did. `failed`: the database could not be asked; what was ordered is then counted as unconfirmed."""

    aborted: int = 0
    unconfirmed: int = 0
    already_finished: int = 0
    active: int = 0
    failed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldOrder:
    """A hold to be stored with a panic."""

    reason: str = ""
    by: str = ""
    user_id: int | None = None
    model: str = ""


@dataclass(kw_only=True)
class Ordered:
    """An order that was given.

    `struck` is what it aborted here; `ids` what was live in the ledger, with their owners' `channels`; `finished` what
    it named that had ended before.
    """

    struck: list[Execution]
    ids: list[str] = field(default_factory=list)
    channels: dict[str, str] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    hold: Hold | None = None
    audited: bool = False
    failed: bool = False


# Sent in the transaction that orders an abort, before the intents are written, with the `target`. Whoever lets
# executions in locks here what admission locks, and takes back what was promised to run next.
abort_ordered = Signal()


async def order(
    worker: ThisWorker,
    target: Target,
    intent: Intent,
    *,
    struck: Sequence[Execution] = (),
    hold: HoldOrder | None = None,
    alone: bool = False,
) -> Ordered:
    """Abort at once what this process owns of `target`, and write the intent for the rest; waits for nobody.

    `alone` is panic's: it takes the gate, so that no admission under way slips past it. `hold` refuses new runs of its
    scope until it is released. `struck` is what was aborted for this order before.
    """
    struck = _merge(struck, strike(worker, target, intent))
    if not alone:  # a panic has struck all that it can here; what runs elsewhere waits for its order alone
        await worker.registry.calm()
    try:
        async with asyncio.timeout(ORDER_S):
            ordered = await lanes.control.run(_write_order, target, intent, hold, alone, {e.id for e in struck})
            struck = _merge(struck, strike(worker, target, intent))  # what was being let in meanwhile
            if struck and not ordered.audited:
                await lanes.control.run(_audit, target, intent, hold, alone, len(struck))
    except (*lanes.FAILURES, TimeoutError):
        logger.exception("An order to stop could not be written.", extra={"action": "stop"})
        return Ordered(struck=struck, failed=True)
    ordered.struck = struck
    return ordered


async def confirm(worker: ThisWorker, ordered: Ordered, *, active: Q, wait_s: float = CONFIRM_S) -> Counts:
    """Wait for the owners, `wait_s` at most, and count. `active` says whose live executions are counted after it."""
    try:
        if ordered.failed:
            raise DatabaseError("the order was not written")
        await _confirmed(worker, ordered, wait_s)
        return await lanes.control.run(_count, ordered, active)
    except lanes.FAILURES:
        logger.exception("A stop could not be confirmed from the ledger.", extra={"action": "stop"})
        live = [execution for execution in ordered.struck if not execution.ended.is_set()]
        return Counts(unconfirmed=len(ordered.struck), active=len(live), failed=True)


async def hint(worker: ThisWorker, execution_id: str) -> None:
    """Tell the owner of one execution that there is an order for it; without a broker its poll finds out."""
    channel = await lanes.control.run(channel_of, execution_id)
    if channel:
        await worker.bus.obey(channel, [execution_id])


def channel_of(execution_id: str) -> str:
    """The channel of the execution's owner; empty if it has none, or the execution is not live."""
    channels = ExecutionRecord.objects.live().filter(pk=execution_id).values_list("worker__channel", flat=True)
    return channels.first() or ""


def release(hold_id: str | None, by: str, source: str = "web") -> int:
    """Release one hold, or all active ones; return how many. Nothing is sent by it."""
    with transaction.atomic():
        holds = Hold.objects.active().select_for_update()
        if hold_id is not None:
            holds = holds.filter(pk=uuid_of(hold_id))
        released = list(holds)
        for hold in released:
            AuditEntry.objects.write(Verb.RELEASE, by=by, source=source, target=f"hold {hold.pk}", reason=hold.reason)
        return Hold.objects.filter(pk__in=[hold.pk for hold in released]).update(released_at=Now(), released_by=by)


def strike(worker: ThisWorker, target: Target, intent: Intent) -> list[Execution]:
    """Abort at once what this process owns of `target`; return it, with what was being aborted already."""
    struck = [execution for execution in worker.registry if target.matches(execution)]
    for execution in struck:
        execution.controller.abort(intent.reason, by=intent.by, source=intent.source, why=intent.why)
    return struck


def _merge(first: Sequence[Execution], second: Sequence[Execution]) -> list[Execution]:
    return list({execution.id: execution for execution in (*first, *second)}.values())


def _write_order(target: Target, intent: Intent, hold: HoldOrder | None, alone: bool, struck: set[str]) -> Ordered:
    with transaction.atomic():
        if alone:
            gate.pass_alone()
        ordered = Ordered(struck=[])
        if hold is not None:
            ordered.hold = Hold.objects.create(
                reason=hold.reason, by=hold.by, scope_user_id=hold.user_id, scope_model=hold.model
            )
            ordered.hold.refresh_from_db()
        abort_ordered.send(sender=Target, target=target)
        rows = target.rows()
        ordered.channels = {str(pk): channel or "" for pk, channel in rows.values_list("pk", "worker__channel")}
        ordered.ids = list(ordered.channels)
        rows.order(intent)
        named = struck.union(ordered.ids)
        if named or alone:  # a stop that finds nothing is no news
            _audit(target, intent, hold, alone, len(named))
            ordered.audited = True
        return ordered


def _audit(target: Target, intent: Intent, hold: HoldOrder | None, alone: bool, executions: int) -> None:
    AuditEntry.objects.write(
        Verb.PANIC if alone else Verb.STOP,
        by=intent.by,
        source=intent.source,
        target=_words(target),
        reason=intent.why or (hold.reason if hold else ""),
        abort_reason=intent.reason,
        executions=executions,
    )


def _words(target: Target) -> str:
    """The target as an audit entry tells it."""
    parts = []
    if target.execution_id is not None:
        parts.append(f"execution {target.execution_id}")
    if target.session_key is not None:
        parts.append(f"session {target.session_key}")
    if target.user_id is not None:
        user = get_user_model().objects.filter(pk=target.user_id).first()
        parts.append(f"user {user.get_username() if user else target.user_id}")
    if target.model is not None:
        parts.append(f"model {target.model}")
    return ", ".join(parts) or "everything"


async def _confirmed(worker: ThisWorker, ordered: Ordered, wait_s: float) -> None:
    """Wait until what was ordered has ended: by its event here, by its row elsewhere."""
    ours = {execution.id for execution in ordered.struck}
    waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(e.ended.wait()) for e in ordered.struck]
    elsewhere = {pk: channel for pk, channel in ordered.channels.items() if pk not in ours}
    if elsewhere:
        waits.append(asyncio.ensure_future(_ended_elsewhere(worker, elsewhere)))
    if not waits:
        return
    done, late = await asyncio.wait(waits, timeout=wait_s)
    for wait in late:
        wait.cancel()
    for wait in done:
        wait.result()


async def _ended_elsewhere(worker: ThisWorker, channels: dict[str, str]) -> None:
    """Hint to the owners, and look into the ledger until these have ended; a hint's answer makes it look at once."""
    by_channel: dict[str, list[str]] = {}
    for pk, channel in channels.items():
        by_channel.setdefault(channel, []).append(pk)
    hints = {asyncio.ensure_future(worker.bus.obey(channel, ids)) for channel, ids in by_channel.items()}
    try:
        await worker.recover()  # an orphan has no owner to wait for
        live = ExecutionRecord.objects.live().filter(pk__in=list(channels))
        while await lanes.control.run(live.exists):
            if hints:
                _, hints = await asyncio.wait(hints, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(LOOK_S)
    finally:
        for hint in hints:
            hint.cancel()


def _count(ordered: Ordered, active: Q) -> Counts:
    ids = {*ordered.ids, *(execution.id for execution in ordered.struck)}
    ends = ExecutionRecord.objects.filter(pk__in=ids).values_list("pk", "status")
    counts = Counts(
        already_finished=len(ordered.finished - ids), active=ExecutionRecord.objects.stoppable().filter(active).count()
    )
    # Its end is written, but its connection would not close: not confirmed until it has.
    open_still = {execution.id for execution in ordered.struck if execution.book.open}
    for pk, status in ends:
        match ExecutionStatus.RUNNING if str(pk) in open_still else status:
            case ExecutionStatus.ABORTED:
                counts = replace(counts, aborted=counts.aborted + 1)
            case ExecutionStatus.RUNNING:
                counts = replace(counts, unconfirmed=counts.unconfirmed + 1)
            case _:
                counts = replace(counts, already_finished=counts.already_finished + 1)
    return counts
