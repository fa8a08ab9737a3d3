"""Several workers on one PostgreSQL: a stop at another worker, with a broker and without, and a panic over them all."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.tables import Table, number, percentile, spread
from bench.upstream import Upstream
from tests.client import StudioClient
from tests.processes.cluster import Cluster
from tests.processes.servers import Postgres, Redis, Server
from tests.provider_script import directive

FOREVER = 1_000_000
LEFT_OPEN_S = 5.0
MS = 1000.0


@dataclass(frozen=True, kw_only=True)
class Much:
    """How much is measured: stops, and panics of so many runs on so many workers."""

    stops: int
    panics: tuple[tuple[int, int], ...]


FULL = Much(stops=40, panics=((100, 1), (100, 2), (100, 4), (400, 4)))
QUICK = Much(stops=10, panics=((50, 2),))


async def elsewhere(upstream: Upstream, much: Much) -> Table:
    """From the order to stop at one worker until the provider of a run sees its connection closed."""
    columns = ["the run is at", "stops", "p50 ms", "p99 ms", "max ms", f"left open after {LEFT_OPEN_S:g} s"]
    table = Table(title="Stop with two workers → provider's connection closed", columns=columns)
    async with _servers() as (postgres, redis), AsyncExitStack() as stack:
        joined = await stack.enter_async_context(_cluster(2, upstream, postgres, REDIS_URL=redis.url))
        alone = await stack.enter_async_context(_cluster(2, upstream, postgres))
        for name, cluster, runner in (
            ("the same worker", joined, 1),
            ("the other worker, Redis up", joined, 0),
            ("the other worker, no Redis (poll 0.5 s)", alone, 0),
        ):
            closed_ms, left_open = await _stops(upstream, cluster, runner, much.stops)
            table.rows.append([name, str(much.stops), *spread(closed_ms), str(left_open)])
    return table


async def panic(upstream: Upstream, much: Much) -> Table:
    """From the order to panic until the last provider connection is closed, and until the reply has counted."""
    columns = ["runs", "workers", "half closed ms", "last closed ms", "reply ms", "aborted", "unconfirmed", "left open"]
    table = Table(title="Panic with Redis → provider's connections closed", columns=columns)
    async with _servers() as (postgres, redis):
        for runs, workers in much.panics:
            async with _cluster(workers, upstream, postgres, REDIS_URL=redis.url) as cluster:
                table.rows.append([str(runs), str(workers), *await _panic(upstream, cluster, runs)])
    table.notes.append("The runs have begun and wait for their first word, so that their text is not what is measured.")
    return table


async def _stops(upstream: Upstream, cluster: Cluster, runner: int, count: int) -> tuple[list[float], int]:
    workers = list(cluster)
    closed_ms: list[float] = []
    async with await cluster.connect(workers[runner]) as starts, await cluster.connect(workers[1]) as stops:
        for _ in range(count):
            id_ = upstream.new_id()
            reply = await starts.send(id_, directive(id=id_, n=FOREVER, rate=20))
            await upstream.calls[id_].first
            ordered_s = time.monotonic()
            await stops.post("studio_chat_stop_session", sessionKey=id_)
            try:
                async with asyncio.timeout(LEFT_OPEN_S):
                    closed_ms.append((await upstream.calls[id_].closed - ordered_s) * MS)
            except TimeoutError:
                continue
            await starts.result(reply["executionId"])
    return closed_ms, count - len(closed_ms)


async def _panic(upstream: Upstream, cluster: Cluster, runs: int) -> list[str]:
    async with AsyncExitStack() as stack:
        sockets: list[StudioClient] = [
            await stack.enter_async_context(await cluster.connect(worker)) for worker in cluster
        ]
        operator = await stack.enter_async_context(await cluster.connect(next(iter(cluster)), "op"))
        ids = [upstream.new_id() for _ in range(runs)]
        for number_, id_ in enumerate(ids):
            await sockets[number_ % len(sockets)].send(id_, directive(id=id_, n=FOREVER, hold=1))
        await asyncio.gather(*(upstream.calls[id_].arrived for id_ in ids))
        ordered_s = time.monotonic()
        reply = await operator.call("studio_chat_panic")
        replied_ms = (time.monotonic() - ordered_s) * MS
        await asyncio.wait([upstream.calls[id_].closed for id_ in ids], timeout=LEFT_OPEN_S)
        moments = [upstream.calls[id_].closed for id_ in ids]
    closed_ms = [(moment.result() - ordered_s) * MS for moment in moments if moment.done()]
    counts = [str(reply["abortedCount"]), str(reply["unconfirmedCount"]), str(runs - len(closed_ms))]
    return [*(number(percentile(closed_ms, percent)) for percent in (50, 100)), number(replied_ms), *counts]


@asynccontextmanager
async def _servers() -> AsyncIterator[tuple[Postgres, Redis]]:
    """A PostgreSQL with the template of the tests, and a Redis."""
    servers: list[Server] = []
    try:
        postgres, redis = await asyncio.to_thread(Postgres), Redis()
        for server in (postgres, redis):
            servers.append(server)
            await asyncio.to_thread(server.start)
        await asyncio.to_thread(postgres.make_template)
        yield postgres, redis
    finally:
        for server in servers:
            await asyncio.to_thread(server.end)


@asynccontextmanager
async def _cluster(size: int, upstream: Upstream, postgres: Postgres, **changes: str) -> AsyncIterator[Cluster]:
    with TemporaryDirectory(prefix="bench-") as directory:
        directories = [Path(directory) / str(number_) for number_ in range(size)]
        for each in directories:
            each.mkdir()
        database = await asyncio.to_thread(postgres.make_database)
        cluster = Cluster(directories, upstream.url, DATABASE_URL=database, STUDIO_TOOLS="", **changes)
        try:
            await asyncio.to_thread(cluster.start)
            yield cluster
        finally:
            await asyncio.to_thread(cluster.end)
