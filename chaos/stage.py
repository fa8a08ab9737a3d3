"""The servers of a campaign: workers, PostgreSQL, Redis, the scripted provider; and how they are made whole again."""

import asyncio
import functools
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import aiohttp
from websockets.exceptions import WebSocketException

from chaos.plan import LEASE_S, TABS
from tests.client import StudioClient
from tests.processes.cluster import Cluster
from tests.processes.harness import ROOT, START_TIMEOUT_S, Row, Studio
from tests.processes.servers import Postgres, Redis
from tests.provider import Provider

CLOCK = Path(__file__).parent / "clock"
# Everything that hangs ends by itself within half a minute.
LIMITS = {
    "STUDIO_LEASE_S": f"{LEASE_S:g}",
    "STUDIO_TIMEOUT_S": "25",
    "STUDIO_FIRST_TOKEN_TIMEOUT_S": "8",
    "STUDIO_IDLE_TIMEOUT_S": "8",
    "STUDIO_TOOL_TIMEOUT_S": "5",
    "STUDIO_SHUTDOWN_GRACE_S": "5",
}
CONNECT_S = 3.0
# How a worker that is dead, frozen, or without its database refuses a login or a socket.
REFUSALS = (AssertionError, OSError, TimeoutError, aiohttp.ClientError, WebSocketException)
LOOK_S = 0.1


class Stage:
    """Several workers on servers that may fail. `heal` has everything running again."""

    def __init__(self, directories: Sequence[Path], provider: Provider, postgres: Postgres, redis: Redis):
        path = os.pathsep.join([str(CLOCK), str(ROOT)])
        changes = {**LIMITS, "REDIS_URL": redis.url, "PYTHONPATH": path}
        self.provider, self.postgres, self.redis = provider, postgres, redis
        self.cluster = Cluster(directories, provider.url, DATABASE_URL=postgres.make_database(), **changes)
        self.workers = self.cluster.workers

    def start(self) -> "Stage":
        self.cluster.start()
        asyncio.run(self._log_in())
        return self

    async def _log_in(self) -> None:
        """Everybody logs in while nothing is broken; the cluster remembers it."""
        for person in sorted(set(TABS)):
            client, _ = await self.connect(person, 0, START_TIMEOUT_S)
            await client.close()

    def end(self) -> None:
        for server in (self.postgres, self.redis):
            server.revive()
        self.cluster.end()

    def worker(self, number: int) -> Studio:
        return self.workers[number % len(self.workers)]

    async def connect(self, person: str, number: int, patience_s: float = CONNECT_S) -> tuple[StudioClient, int]:
        """A socket at this worker, or at the next that takes one; returns also which one did.

        Raises `TimeoutError` if none does for a long time.
        """
        give_up = time.monotonic() + START_TIMEOUT_S + patience_s
        while time.monotonic() < give_up:
            for worker_number in range(number, number + len(self.workers)):
                with suppress(*REFUSALS):
                    async with asyncio.timeout(patience_s):
                        return await self.cluster.connect(self.worker(worker_number), person), worker_number
            await asyncio.sleep(LOOK_S)
        raise TimeoutError(f"no worker takes a socket of {person}")

    async def rows(self, sql: str, *parameters: object) -> Sequence[Row]:
        return await asyncio.to_thread(self.cluster.rows, sql, *parameters)

    async def heal(self) -> None:
        """Have everything run, and every worker say that nothing is wrong."""
        await asyncio.to_thread(self._revive)
        for worker in self.workers:
            await until(functools.partial(_is_well, worker), START_TIMEOUT_S)

    def _revive(self) -> None:
        for server in (self.postgres, self.redis):
            server.revive()
        for worker in self.workers:
            if worker.runs:
                worker.continue_process()
            else:
                worker.launch()
        for worker in self.workers:
            worker.wait_until_ready()


async def until(look: Callable[[], object], timeout_s: float) -> None:
    """Wait until a look, made in a thread since it takes its time, finds something true."""
    give_up = time.monotonic() + timeout_s
    while not await asyncio.to_thread(look):
        if time.monotonic() > give_up:
            raise TimeoutError(f"not {look} after {timeout_s} s")
        await asyncio.sleep(LOOK_S)


def _is_well(worker: Studio) -> bool:
    try:
        with urllib.request.urlopen(f"{worker.base_url}/readyz", timeout=5) as answer:  # noqa: S310  our own worker
            return bool(json.load(answer)["ok"])
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
