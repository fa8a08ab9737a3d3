"""Stop and panic: what is ours is struck at once, the rest is ordered, and the counts are what really happened."""

import asyncio
import functools
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, OperationalError
from django.db.models import Q

from kernel import control, lanes
from kernel.abort import AbortReason
from kernel.audit import AuditEntry
from kernel.control import Counts, HoldOrder, Target, abort_ordered
from kernel.models import ExecutionRecord, Hold, Intent
from kernel.worker import ThisWorker
from tests.fakes import Gate
from tests.kernel.live import db, row, run_live, silence
from tests.kernel.rows import COMPLETED, aborted, expire, make_execution
from tests.waiting import READY_TIMEOUT_S

STOP = Intent(reason=AbortReason.SESSION_STOP, by="ann", source="web")
PANIC = Intent(reason=AbortReason.PANIC_STOP, by="bob", source="panic")
EVERYTHING = Target()
SHORT_S = 0.02


async def stop(worker: ThisWorker, target: Target, intent: Intent = STOP, **more: Any) -> Counts:
    """Order and confirm, with all the time that the test has."""
    ordered = await control.order(worker, target, intent, **more)
    return await control.confirm(worker, ordered, active=Q(), wait_s=READY_TIMEOUT_S)


# What is ours


async def test_a_run_of_this_process_is_struck_before_anything_is_awaited(worker: ThisWorker) -> None:
    execution = await run_live(worker, session_key="s")
    ordering = asyncio.create_task(control.order(worker, Target(session_key="s"), STOP))
    await asyncio.sleep(0)  # its first turn, up to its first await
    assert execution.signal.aborted
    await ordering
    await execution.ended.wait()


async def test_a_stop_is_confirmed_when_its_end_is_written(worker: ThisWorker) -> None:
    execution = await run_live(worker, session_key="s")
    counts = await stop(worker, Target(session_key="s"))
    assert counts == Counts(aborted=1)
    end = await row(execution)
    assert (end.status, end.abort_reason, end.requested_by, end.source) == ("aborted", "session_stop", "ann", "web")
    assert end.upstream_closed_ms is not None


async def test_an_end_that_is_not_written_yet_is_not_confirmed(
    worker: ThisWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    settle = ExecutionRecord.objects.settle
    execution = await run_live(worker, session_key="s")
    loop = asyncio.get_running_loop()

    def held(*args: Any) -> bool:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(READY_TIMEOUT_S)
        return settle(*args)

    monkeypatch.setattr(ExecutionRecord.objects, "settle", held)
    ordered = await control.order(worker, Target(session_key="s"), STOP)
    counts = await control.confirm(worker, ordered, active=Q(), wait_s=SHORT_S)
    assert counts == Counts(unconfirmed=1, active=1)
    gate.open()
    await execution.ended.wait()
    assert await control.confirm(worker, ordered, active=Q()) == Counts(aborted=1)


async def test_a_second_stop_joins_the_first_whose_author_stays(worker: ThisWorker) -> None:
    execution = await run_live(worker, session_key="s")
    first, second = await asyncio.gather(
        stop(worker, Target(session_key="s")), stop(worker, Target(session_key="s"), PANIC)
    )
    assert (first.aborted, second.aborted) == (1, 1)
    assert (await row(execution)).requested_by == "ann"


async def test_nothing_running_is_nothing_counted(worker: ThisWorker) -> None:
    assert await stop(worker, Target(session_key="s")) == Counts()


async def test_what_had_ended_by_itself_is_counted_apart(worker: ThisWorker) -> None:
    async def work() -> None:
        pass

    execution = await run_live(worker, work, session_key="s")
    await execution.ended.wait()
    ordered = await control.order(worker, Target(session_key="s"), STOP, struck=[execution])
    counts = await control.confirm(worker, ordered, active=Q())
    assert counts == Counts(already_finished=1)


# What belongs to others


async def test_a_run_of_another_process_is_ordered_and_not_confirmed_before_it_ends(worker: ThisWorker) -> None:
    record = await db(make_execution, session_key="s")
    ordered = await control.order(worker, Target(session_key="s"), STOP)
    counts = await control.confirm(worker, ordered, active=Q(), wait_s=SHORT_S)
    assert counts == Counts(unconfirmed=1, active=1)
    assert ((await row(record)).intent, (await row(record)).status) == ("session_stop", "running")


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [(aborted(), Counts(aborted=1)), (COMPLETED, Counts(already_finished=1))],
    ids=["as ordered", "by itself"],
)
async def test_the_end_that_another_process_writes_is_counted_as_it_is(
    outcome: Any, counts: Counts, worker: ThisWorker
) -> None:
    record = await db(make_execution, session_key="s")
    ordered = await control.order(worker, Target(session_key="s"), STOP)
    confirming = asyncio.create_task(control.confirm(worker, ordered, active=Q(), wait_s=READY_TIMEOUT_S))
    await asyncio.sleep(0)
    await db(ExecutionRecord.objects.settle, str(record.pk), outcome, record.worker_id)
    assert await confirming == counts


async def test_the_run_of_a_lost_worker_ends_by_the_stop(worker: ThisWorker) -> None:
    record = await db(make_execution, session_key="s")
    ordered = await control.order(worker, Target(session_key="s"), STOP)
    await db(expire, record.worker_id)
    counts = await control.confirm(worker, ordered, active=Q(), wait_s=READY_TIMEOUT_S)
    assert counts == Counts(aborted=1)
    assert (await row(record)).abort_reason == "session_stop"


# Whom it means


async def test_a_stop_of_one_execution_leaves_the_rest_of_the_session(worker: ThisWorker) -> None:
    turn = await run_live(worker, session_key="s")
    title = await run_live(worker, session_key="s", kind="title")
    counts = await stop(worker, Target(session_key="s", execution_id=title.id))
    assert counts == Counts(aborted=1, active=1)
    assert not turn.signal.aborted


async def test_a_stop_of_what_is_no_execution_finds_nothing(worker: ThisWorker) -> None:
    execution = await run_live(worker, session_key="s")
    counts = await stop(worker, Target(session_key="s", execution_id="nonsense"))
    assert counts == Counts(active=1)
    assert not execution.signal.aborted


async def test_a_panic_ends_every_kind_but_drills(worker: ThisWorker) -> None:
    turn, title, drill = [await run_live(worker, kind=kind) for kind in ("turn", "title", "drill")]
    counts = await stop(worker, EVERYTHING, PANIC, alone=True)
    assert counts == Counts(aborted=2)
    assert (turn.signal.reason, title.signal.reason) == (AbortReason.PANIC_STOP, AbortReason.PANIC_STOP)
    assert not drill.signal.aborted


async def test_a_panics_order_does_not_wait_for_the_burst_that_it_has_made(
    worker: ThisWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    burst = asyncio.Event()
    monkeypatch.setattr(worker.registry, "calm", burst.wait)
    theirs = await db(make_execution)
    async with asyncio.timeout(READY_TIMEOUT_S):
        await control.order(worker, EVERYTHING, PANIC, alone=True)
    assert (await row(theirs)).intent == AbortReason.PANIC_STOP


async def test_a_scoped_panic_means_its_user_or_its_model_only(worker: ThisWorker) -> None:
    ann, bob = [await db(User.objects.create_user, name) for name in ("ann", "bob")]
    hers = await run_live(worker, user_id=ann.pk, model="m")
    his = await run_live(worker, user_id=bob.pk, model="m")
    other = await run_live(worker, user_id=bob.pk, model="other")
    assert (await stop(worker, Target(user_id=ann.pk), PANIC)).aborted == 1
    assert hers.signal.aborted
    assert (await stop(worker, Target(model="m"), PANIC)).aborted == 1
    assert his.signal.aborted
    assert not other.signal.aborted


async def test_the_live_executions_of_others_are_counted_only_for_whom_may_see_them(worker: ThisWorker) -> None:
    ann = await db(User.objects.create_user, "ann")
    await run_live(worker, user_id=ann.pk)
    await run_live(worker)
    ordered = await control.order(worker, Target(session_key="nobody's"), STOP)
    assert (await control.confirm(worker, ordered, active=Q())).active == 2
    assert (await control.confirm(worker, ordered, active=Q(user_id=ann.pk))).active == 1


# Holds


async def test_a_panic_with_hold_stores_it_with_the_orders(worker: ThisWorker) -> None:
    ann = await db(User.objects.create_user, "ann")
    await run_live(worker, user_id=ann.pk)
    ordered = await control.order(
        worker, EVERYTHING, PANIC, alone=True, hold=HoldOrder(reason="fire", by="bob", user_id=ann.pk, model="m")
    )
    await control.confirm(worker, ordered, active=Q())
    [hold] = await db(lambda: list(Hold.objects.active()))
    assert hold == ordered.hold
    assert (hold.reason, hold.by, hold.scope_user_id, hold.scope_model) == ("fire", "bob", ann.pk, "m")
    assert hold.at is not None


async def test_a_panic_without_hold_holds_nothing(worker: ThisWorker) -> None:
    await stop(worker, EVERYTHING, PANIC, alone=True)
    assert not await db(Hold.objects.exists)


@pytest.mark.django_db
def test_a_release_ends_one_hold_or_all_and_counts_them() -> None:
    first, *_ = [Hold.objects.create() for _ in range(3)]
    assert control.release(str(first.pk), "ann") == 1
    assert control.release(str(first.pk), "ann") == 0
    assert control.release(None, "bob") == 2
    assert not Hold.objects.active().exists()
    first.refresh_from_db()
    assert first.released_by == "ann"


async def test_who_lets_executions_in_is_told_in_the_orders_own_transaction(worker: ThisWorker) -> None:
    told: list[Any] = []

    def hear(target: Target, **_: Any) -> None:
        told.append((target, ExecutionRecord.objects.exclude(intent="").exists()))

    abort_ordered.connect(hear, sender=Target)
    try:
        await db(functools.partial(make_execution, session_key="s"))
        await control.order(worker, Target(session_key="s"), STOP)
    finally:
        abort_ordered.disconnect(hear, sender=Target)
    assert told == [(Target(session_key="s"), False)]


# Without the database


async def test_a_stop_that_strikes_only_what_was_let_in_meanwhile_is_audited_too(
    worker: ThisWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = control._write_order

    def while_another_is_let_in(*order: Any) -> control.Ordered:
        ordered = write(*order)
        worker.registry.register("late", session_key="s")
        return ordered

    monkeypatch.setattr(control, "_write_order", while_another_is_let_in)
    ordered = await control.order(worker, Target(session_key="s"), STOP)
    assert [execution.id for execution in ordered.struck] == ["late"]
    [entry] = await db(lambda: list(AuditEntry.objects.values_list("verb", "by", "target", "executions")))
    assert entry == ("stop", "ann", "session s", 1)
    worker.registry.unregister("late")


async def test_with_the_database_away_our_own_runs_are_ended_and_the_answer_says_failed(
    worker: ThisWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = await run_live(worker, silence, session_key="s")

    async def away(*_: Any, **__: Any) -> Any:
        raise OperationalError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(lanes.control, "run", away)
        counts = await stop(worker, Target(session_key="s"))
        assert execution.signal.reason is AbortReason.SESSION_STOP
        assert counts == Counts(unconfirmed=1, active=1, failed=True)
    async with asyncio.timeout(READY_TIMEOUT_S):
        await execution.ended.wait()
    assert (await row(execution)).abort_reason == "session_stop"


async def test_an_order_that_was_written_but_cannot_be_confirmed_says_failed(
    worker: ThisWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await db(functools.partial(make_execution, session_key="s"))
    ordered = await control.order(worker, Target(session_key="s"), STOP)

    async def away(*_: Any, **__: Any) -> Any:
        raise DatabaseError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(lanes.control, "run", away)
        counts = await control.confirm(worker, ordered, active=Q())
    assert counts.failed
