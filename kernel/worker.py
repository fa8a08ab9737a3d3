"""This process as a worker: its row and lease, its live executions, and the net under every stop.

Started lazily, in the event loop of the first execution or subscriber. A beat renews the lease in the database's clock;
a worker that cannot renew it in time aborts its own executions before anyone else may take them. A poll reads the
intents written for its executions, so that a stop reaches them with no broker at all, and settles what other workers
lost.
"""

import asyncio
import contextlib
import functools
import logging
import os
import socket
import time
import uuid
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now
from django.dispatch import Signal

from kernel import conf, lanes
from kernel.abort import AbortReason
from kernel.bus import Bus
from kernel.hub import hub
from kernel.models import ExecutionRecord, Worker
from kernel.registry import ExecutionRegistry

logger = logging.getLogger(__name__)

# Sent on the event loop after this process has settled executions that others lost; `execution_ids` is a list.
executions_recovered = Signal()
# Called at every poll with the worker, on the event loop: cheap looks at its live executions.
on_poll: list[Callable[["ThisWorker"], None]] = []

BEATS_PER_LEASE = 3
# Without a renewed lease, own executions are aborted after this part of it: well before another worker may take them.
GIVE_UP_AT = 0.8
LEAVE_S = 2.0


class ThisWorker:
    """One process (precisely: one event loop) that owns executions."""

    def __init__(self) -> None:
        self.id = uuid.uuid4()
        self.registry = ExecutionRegistry()
        self.bus = Bus(self, hub)
        self.draining = False
        self.polled_s: float | None = None
        self._lease: asyncio.TimerHandle | None = None
        self._lease_until_s = 0.0
        self._renewing = asyncio.Lock()
        self._started: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._strays: set[uuid.UUID] = set()

    async def ready(self) -> "ThisWorker":
        """Have the row, the beat and the poll, and a lease that holds; the first caller starts them.

        A process that slept is asked for new work before its own clock rings, so the lease is looked at here: what is
        admitted without one would belong to a worker that everybody takes for lost. Raises one of `lanes.FAILURES`.
        """
        started = self._started
        if started is None:
            started = self._started = self.spawn(self._start(), "worker:start")
        try:
            await asyncio.shield(started)
        except lanes.FAILURES:
            if self._started is started:
                self._started = None  # the next caller tries again
            raise
        if not self._holds_lease:
            await self._beat()
        return self

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start an owned task: it is kept until it ends, and a failure is logged."""
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def forever(self, step: Callable[[], Awaitable[None]], pause_s: Callable[[], float], name: str) -> None:
        """Repeat a pause and `step` for as long as the worker lives: a failure is logged, and never ends it."""

        async def repeat() -> None:
            while True:
                await asyncio.sleep(pause_s())
                try:
                    await step()
                except Exception:  # what keeps every stop working must outlive every failure
                    logger.exception("A step of this worker failed; it goes on.", extra={"action": name})

        self.spawn(repeat(), name)

    async def drain(self, grace_s: float | None = None) -> None:
        """Take nothing new, abort everything with `shutdown`, and wait for the written ends, `grace_s` at most."""
        self.draining = True
        live = list(self.registry)
        for execution in live:
            execution.controller.abort(AbortReason.SHUTDOWN, source="shutdown")
        if live:
            ends = [asyncio.ensure_future(execution.ended.wait()) for execution in live]
            _, late = await asyncio.wait(ends, timeout=grace_s or conf.shutdown_grace_s())
            for end in late:
                end.cancel()
            logger.info("Drained %s executions, %s not in time.", len(live), len(late), extra={"action": "drain"})

    async def close(self) -> None:
        """Drain, end the own tasks, and give the lease back."""
        if not self.draining:
            await self.drain()
        if self._lease is not None:
            self._lease.cancel()
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()
        if self._started is not None:
            with contextlib.suppress(*lanes.FAILURES, TimeoutError):  # the lease runs out by itself
                async with asyncio.timeout(LEAVE_S):
                    await lanes.control.run(_leave, self.id)
            self._started = None

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("The task %s failed.", task.get_name(), exc_info=failure)

    async def _start(self) -> None:
        asked_s = time.monotonic()
        await self._join()
        self._hold_lease(asked_s)
        self.bus.open()
        self.forever(self._beat, lambda: conf.lease_s() / BEATS_PER_LEASE, "beat")
        self.forever(self._poll, conf.poll_s, "poll")
        self.forever(self._tidy, lambda: min(1.0, conf.lease_s() / BEATS_PER_LEASE), "tidy")
        for look in on_poll:
            self.forever(functools.partial(_called, look, self), conf.poll_s, f"poll:{look.__name__}")

    @property
    def _holds_lease(self) -> bool:
        return time.monotonic() < self._lease_until_s

    async def _beat(self) -> None:
        async with self._renewing:
            asked_s = time.monotonic()
            if not await lanes.control.run(Worker.objects.renew, self.id, conf.lease_s(), self.bus.channel):
                await self._rejoin()
            self._hold_lease(asked_s)

    def _hold_lease(self, asked_s: float) -> None:
        """The lease counts from `asked_s`. If nothing renews it, own executions are aborted before it ends."""
        if self._lease is not None:
            self._lease.cancel()
        self._lease_until_s = asked_s + conf.lease_s() * GIVE_UP_AT
        left_s = max(0.0, self._lease_until_s - time.monotonic())
        self._lease = asyncio.get_running_loop().call_later(left_s, self._give_up, "could not renew its lease")

    async def _rejoin(self) -> None:
        """The lease ran out while this process slept or was cut off: what it owned is not its own any more."""
        self._give_up("had lost its lease")
        await self._join()

    async def _join(self) -> None:
        """Write a row of a new id, one for each try: an earlier one may have been written without our hearing of it."""
        joining = uuid.uuid4()
        await lanes.control.run(_join, joining, conf.lease_s(), self.bus.channel)
        self.id = joining  # only now: the database refuses an admission that names a worker without a row

    def _give_up(self, why: str) -> None:
        aborted = self.registry.abort_all(AbortReason.WORKER_LOST, source="lease")
        logger.warning("This worker %s; it aborted its %s executions.", why, aborted, extra={"action": "lease"})

    async def _poll(self) -> None:
        if len(self.registry):
            await self.obey()
        self.polled_s = time.monotonic()

    async def _tidy(self) -> None:
        await self.recover()
        await self._end_strays()

    async def _end_strays(self) -> None:
        """End live rows of this worker that it does not run: an admission whose commit was never heard of."""
        unknown = {pk for pk in await lanes.control.run(_live, self.id) if str(pk) not in self.registry}
        for pk in unknown & self._strays:  # seen twice, so it is not one that was just ending
            if await lanes.control.run(ExecutionRecord.objects.settle_lost, pk, self.id):
                logger.warning("Ended an execution that nobody ran.", extra={"execution_id": str(pk)})
                await executions_recovered.asend(sender=ThisWorker, worker=self, execution_ids=[str(pk)])
        self._strays = unknown

    async def joined(self) -> None:
        """The bus knows its channel: write it into the row, where those who order a stop look for it."""
        await lanes.control.run(Worker.objects.filter(pk=self.id).update, channel=self.bus.channel)

    async def obey(self) -> None:
        """Abort what the ledger says was ordered to stop."""
        for pk, reason, by, source, why in await lanes.control.run(_intents, self.id):
            execution = self.registry.get(str(pk))
            if execution is not None:
                execution.controller.abort(reason, by=by, source=source, why=why)

    async def recover(self) -> list[str]:
        """Settle what other workers lost; return the ids."""
        recovered = await lanes.control.run(ExecutionRecord.objects.settle_orphans)
        if recovered:
            logger.warning("Settled %s executions of lost workers.", len(recovered), extra={"action": "recover"})
            await executions_recovered.asend(sender=ThisWorker, worker=self, execution_ids=recovered)
        return recovered


_workers: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ThisWorker]" = weakref.WeakKeyDictionary()


def this_worker() -> ThisWorker:
    """The worker of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _workers:
        _workers[loop] = ThisWorker()
    return _workers[loop]


def _join(worker_id: uuid.UUID, lease_s: float, channel: str) -> None:
    lease_until = Now() + timedelta(seconds=lease_s)
    Worker.objects.create(
        id=worker_id, host=socket.gethostname(), pid=os.getpid(), channel=channel, lease_until=lease_until
    )


def _leave(worker_id: uuid.UUID) -> None:
    """End the lease now, so that nobody waits for it; executions that were not settled in time are recovered."""
    Worker.objects.filter(pk=worker_id).update(lease_until=Now(), draining=True)


def _live(worker_id: uuid.UUID) -> list[uuid.UUID]:
    return list(ExecutionRecord.objects.live().filter(worker_id=worker_id).values_list("pk", flat=True))


async def _called(look: Callable[["ThisWorker"], None], worker: "ThisWorker") -> None:
    look(worker)


def _intents(worker_id: uuid.UUID) -> list[tuple[uuid.UUID, str, str, str, str]]:
    mine = ExecutionRecord.objects.live().filter(worker_id=worker_id).exclude(intent="")
    return list(mine.values_list("pk", "intent", "requested_by", "source", "why"))
