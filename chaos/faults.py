"""What breaks, done to the real servers. How long a fault lasts is part of the plan, and nothing waits for it."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

from chaos.journal import Disturbance, Journal
from chaos.plan import Fault
from chaos.stage import Stage
from tests.processes.harness import Studio


async def strike(fault: Fault, stage: Stage, journal: Journal) -> None:
    """Break it when its time has come, and mend it when it has lasted."""
    await asyncio.sleep(fault.after_s)
    worker = stage.worker(fault.worker)
    of_server = fault.kind in _OF_SERVERS
    if not of_server and not worker.runs:
        return
    told = Disturbance(round=journal.round, kind=fault.kind, pid=None if of_server else worker.pid, began_s=time.time())
    journal.disturbances.append(told)
    try:
        if of_server:
            await _OF_SERVERS[fault.kind](stage, fault.lasts_s)
        else:
            await _OF_WORKERS[fault.kind](worker, fault.lasts_s)
    finally:
        told.ended_s = time.time()


async def _kill(worker: Studio, lasts_s: float) -> None:
    await asyncio.to_thread(worker.kill)
    await asyncio.sleep(lasts_s)
    worker.launch()
    await asyncio.to_thread(worker.wait_until_ready)


async def _freeze(worker: Studio, lasts_s: float) -> None:
    worker.stop_process()
    try:
        await asyncio.sleep(lasts_s)
    finally:
        worker.continue_process()


async def _terminate(worker: Studio, lasts_s: float) -> None:
    worker.terminate()
    await asyncio.to_thread(worker.wait_exit)
    await asyncio.sleep(lasts_s)
    worker.launch()
    await asyncio.to_thread(worker.wait_until_ready)


async def _jump(worker: Studio, lasts_s: float) -> None:
    os.kill(worker.pid, signal.SIGUSR2)
    try:
        await asyncio.sleep(lasts_s)
    finally:
        os.kill(worker.pid, signal.SIGUSR2)


async def _kill_redis(stage: Stage, lasts_s: float) -> None:
    await asyncio.to_thread(stage.redis.kill)
    await asyncio.sleep(lasts_s)
    await asyncio.to_thread(stage.redis.revive)


async def _freeze_redis(stage: Stage, lasts_s: float) -> None:
    stage.redis.freeze()
    try:
        await asyncio.sleep(lasts_s)
    finally:
        stage.redis.revive()


async def _restart_postgres(stage: Stage, lasts_s: float) -> None:
    await asyncio.to_thread(stage.postgres.kill)
    await asyncio.sleep(lasts_s)
    await asyncio.to_thread(stage.postgres.revive)


_OF_WORKERS: dict[str, Callable[[Studio, float], Awaitable[None]]] = {
    "kill": _kill,
    "freeze": _freeze,
    "freeze_long": _freeze,
    "terminate": _terminate,
    "clock": _jump,
}
_OF_SERVERS: dict[str, Callable[[Stage, float], Awaitable[None]]] = {
    "redis_kill": _kill_redis,
    "redis_freeze": _freeze_redis,
    "postgres_restart": _restart_postgres,
}
