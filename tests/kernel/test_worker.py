"""The worker: orders reach its runs through the database alone, and what it may not own any more it lets go."""

import asyncio
import logging
import os
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models.functions import Now
from pytest_django import Settings

from kernel import worker as worker_module
from kernel.abort import AbortReason
from kernel.models import ExecutionRecord, Intent, Worker, WorkerQuerySet
from kernel.registry import Execution
from kernel.runner import Status
from kernel.worker import ThisWorker, executions_recovered, this_worker
from tests.fakes import Gate
from tests.kernel.live import db, row, run_live
from tests.kernel.rows import expire, make_execution, make_worker
from tests.waiting import READY_TIMEOUT_S

STOP = Intent(reason=AbortReason.SESSION_STOP, by="ann", source="command")


async def end_of(execution: Execution) -> None:
    async with asyncio.timeout(READY_TIMEOUT_S):
        await execution.ended.wait()


async def test_the_first_who_asks_starts_it_and_all_others_join(worker: ThisWorker) -> None:
    other = ThisWorker()
    assert set(await asyncio.gather(*(other.ready() for _ in range(5)))) == {other}
    assert await db(Worker.objects.filter(pk=other.id).count) == 1
    await other.close()


async def test_a_start_that_failed_is_tried_again_by_the_next(
    worker: ThisWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ThisWorker()

    def away(*_: Any) -> None:
        raise OperationalError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(worker_module, "_join", away)
        with pytest.raises(OperationalError):
            await other.ready()
    await other.ready()
    assert await db(Worker.objects.filter(pk=other.id).exists)
    await other.close()


async def test_an_order_that_another_process_wrote_reaches_the_run(worker: ThisWorker) -> None:
    execution = await run_live(worker)
    await db(ExecutionRecord.objects.order, STOP)
    await end_of(execution)
    end = await row(execution)
    assert (end.status, end.abort_reason, end.requested_by, end.source) == ("aborted", "session_stop", "ann", "command")


async def test_an_order_for_another_workers_run_is_not_ours_to_obey(worker: ThisWorker) -> None:
    mine = await run_live(worker)
    theirs = await db(make_execution)
    await db(ExecutionRecord.objects.filter(pk=theirs.pk).order, STOP)
    await db(ExecutionRecord.objects.filter(pk=mine.id).order, STOP)
    await end_of(mine)
    assert (await row(theirs)).status == "running"


async def test_the_poll_outlives_a_database_that_was_away(worker: ThisWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Gate()
    read = worker_module._intents

    def fail(*_: Any) -> None:
        loop.call_soon_threadsafe(away.reached.set)
        raise OperationalError("the database is away")

    loop = asyncio.get_running_loop()
    execution = await run_live(worker)
    monkeypatch.setattr(worker_module, "_intents", fail)
    await away.reached.wait()
    monkeypatch.setattr(worker_module, "_intents", read)
    await db(ExecutionRecord.objects.order, STOP)
    await end_of(execution)


async def test_what_a_lost_worker_ran_is_settled_and_told(worker: ThisWorker) -> None:
    told = asyncio.Event()
    recovered: list[str] = []

    async def hear(execution_ids: list[str], **_: Any) -> None:
        recovered.extend(execution_ids)
        told.set()

    executions_recovered.connect(hear)
    try:
        lost = await db(make_execution, await db(make_worker))
        await db(expire, lost.worker_id)
        async with asyncio.timeout(READY_TIMEOUT_S):
            await told.wait()
    finally:
        executions_recovered.disconnect(hear)
    assert recovered == [str(lost.pk)]
    assert (await row(lost)).abort_reason == "worker_lost"


async def test_the_lease_is_renewed_by_the_beat(settings: Settings, worker: ThisWorker) -> None:
    settings.STUDIO_LEASE_S = 0.03
    beating = ThisWorker()
    await beating.ready()
    settings.STUDIO_LEASE_S = 3600
    async with asyncio.timeout(READY_TIMEOUT_S):
        # Asked anew each time: a beat that came too late has joined under a new id.
        while not await db(Worker.objects.filter(pk=beating.id, lease_until__gt=Now() + timedelta(minutes=30)).exists):
            pass
    await beating.close()


async def test_a_worker_that_lost_its_lease_lets_its_runs_go_and_joins_anew(
    settings: Settings, worker: ThisWorker
) -> None:
    settings.STUDIO_LEASE_S = 3  # the first beat comes after a third of it, when the row has expired
    sleeper = await ThisWorker().ready()
    before = sleeper.id
    settings.STUDIO_LEASE_S = 3600
    execution = await run_live(sleeper)
    await db(expire, before)
    await end_of(execution)
    assert execution.signal.reason is AbortReason.WORKER_LOST
    assert (await row(execution)).abort_reason == "worker_lost"
    async with asyncio.timeout(READY_TIMEOUT_S):
        while not await db(Worker.objects.filter(pk=sleeper.id, lease_until__gt=Now()).exists):
            pass
    assert sleeper.id != before
    await sleeper.close()


async def test_a_worker_that_slept_through_its_lease_has_a_new_one_before_it_takes_new_work(
    settings: Settings, worker: ThisWorker
) -> None:
    settings.STUDIO_LEASE_S = 3600  # no beat of its own comes in between
    sleeper = await ThisWorker().ready()
    before = sleeper.id
    await db(expire, before)
    sleeper._lease_until_s = time.monotonic()
    await asyncio.gather(*(sleeper.ready() for _ in range(5)))
    assert sleeper.id != before
    assert await db(Worker.objects.filter(pk=sleeper.id, lease_until__gt=Now()).exists)
    assert await db(Worker.objects.filter(pid=os.getpid()).exclude(pk__in=[worker.id, before]).count) == 1
    await sleeper.close()


async def test_a_worker_is_never_known_by_an_id_that_has_no_row(
    settings: Settings, worker: ThisWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STUDIO_LEASE_S = 3600
    sleeper = await ThisWorker().ready()
    before = sleeper.id
    join, known = worker_module._join, []

    def watched(*args: Any) -> None:
        known.append(sleeper.id)
        join(*args)

    monkeypatch.setattr(worker_module, "_join", watched)
    await db(expire, before)
    sleeper._lease_until_s = time.monotonic()
    await sleeper.ready()
    assert known == [before]
    assert await db(Worker.objects.filter(pk=sleeper.id).exists)
    await sleeper.close()


async def test_a_worker_that_cannot_renew_its_lease_lets_its_runs_go_before_it_ends(
    settings: Settings, worker: ThisWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> bool:
        raise OperationalError("the database is away")

    settings.STUDIO_LEASE_S = 1
    cut_off = await ThisWorker().ready()
    monkeypatch.setattr(WorkerQuerySet, "renew", away)
    execution = await run_live(cut_off)
    await end_of(execution)
    assert execution.signal.reason is AbortReason.WORKER_LOST
    monkeypatch.undo()
    await cut_off.close()


async def test_a_drain_aborts_everything_and_waits_for_the_written_ends(worker: ThisWorker) -> None:
    executions = [await run_live(worker) for _ in range(3)]
    await worker.drain()
    assert worker.draining
    assert len(worker.registry) == 0
    for execution in executions:
        end = await row(execution)
        assert (end.status, end.abort_reason, end.source) == (Status.ABORTED, "shutdown", "shutdown")


async def test_a_drain_does_not_wait_for_ever(worker: ThisWorker) -> None:
    released = asyncio.Event()

    async def deaf() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    execution = await run_live(worker, deaf)
    await asyncio.sleep(0)
    await worker.drain(grace_s=0.01)
    assert not execution.ended.is_set()
    released.set()
    await end_of(execution)


async def test_a_worker_that_leaves_gives_its_lease_back(worker: ThisWorker) -> None:
    other = await ThisWorker().ready()
    await other.close()
    left = await db(Worker.objects.get, pk=other.id)
    assert left.draining
    assert await db(Worker.objects.filter(pk=other.id, lease_until__lte=Now()).exists)


async def test_a_task_of_the_workers_own_that_fails_is_told_in_the_log(
    worker: ThisWorker, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise RuntimeError("out of order")

    with caplog.at_level(logging.ERROR):
        await asyncio.wait({worker.spawn(fail(), "the-task")})
        await asyncio.sleep(0)
    assert "the-task" in caplog.text


async def test_a_loop_has_one_worker() -> None:
    assert this_worker() is this_worker()
