"""Several workers on one PostgreSQL: a stop at another worker, with a broker and without, and a panic over them all."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.stage import FOREVER, LEFT_OPEN_S, MS, RATE, STARTING
from bench.tables import Table, number, percentile, spread, target
from bench.upstream import Upstream
from tests.client import StudioClient
from tests.processes.cluster import Cluster
from tests.processes.servers import Postgres, Redis, Server
from tests.provider_script import directive

SETTLED_S = 30.0
ELSEWHERE_MS = (5, 25)
POLL_MS = 500 + 250
PANIC_MS = (1000, 3000)  # of the last close and the last written end, for 1,000 runs on 4 workers
COUNTED = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
STATISTICS_S = 1.5  # until PostgreSQL's counters tell of what was done


@dataclass(frozen=True, kw_only=True)
class Much:
    """How much is measured: stops, one by one and together; panics of so many runs on so many workers; tokens."""

    stops: int
    together: int
    panics: tuple[tuple[int, int], ...]
    tokens: int


FULL = Much(stops=40, together=50, panics=((100, 1), (100, 2), (100, 4), (400, 4), (1000, 4)), tokens=120)
QUICK = Much(stops=10, together=10, panics=((50, 2),), tokens=40)


async def writes(upstream: Upstream, much: Much) -> Table:
    """What a run costs the database, above what the worker does anyway in the same time."""
    columns = ["", "seconds", "rows written", "transactions"]
    table = Table(title=f"Database writes of one run of {much.tokens} tokens", columns=columns)
    async with _servers() as (postgres, _), _cluster(1, upstream, postgres) as cluster:
        [worker] = cluster
        async with await cluster.connect(worker) as client:
            seconds = much.tokens / RATE
            before = await _counted(cluster)
            await asyncio.sleep(seconds)
            rested = await _counted(cluster)
            reply = await client.send(upstream.new_id(), directive(id=upstream.new_id(), n=much.tokens, rate=RATE))
            await client.result(reply["executionId"], seconds + LEFT_OPEN_S)
            run = await _counted(cluster)
    idle = [after - begin for begin, after in zip(before, rested, strict=True)]
    busy = [after - begin for begin, after in zip(rested, run, strict=True)]
    own = [max(0, used - rest) for used, rest in zip(busy, idle, strict=True)]
    for name, each in (("idle", idle), ("the run, above", own)):
        table.rows.append([name, number(seconds), *map(str, each)])
    table.notes.append("A transaction that only reads counts as one too.")
    return table


async def elsewhere(upstream: Upstream, much: Much) -> Table:
    """From the order to stop at one worker until the provider of a run sees its connection closed."""
    columns = ["the run is at", "stops", "p50 ms", "p99 ms", "max ms", f"left open after {LEFT_OPEN_S:g} s", "target"]
    table = Table(title="Stop with two workers → provider's connection closed", columns=columns)
    one, many = (much.stops, 1), (1, much.together)
    async with _servers() as (postgres, redis), AsyncExitStack() as stack:
        joined = await stack.enter_async_context(_cluster(2, upstream, postgres, REDIS_URL=redis.url))
        alone = await stack.enter_async_context(_cluster(2, upstream, postgres))
        for name, cluster, runner, (rounds, together) in (
            ("the same worker", joined, 1, one),
            ("the other worker, Redis up", joined, 0, one),
            (f"the other worker, Redis up, {many[1]} at once", joined, 0, many),
            ("the other worker, no Redis (poll 0.5 s)", alone, 0, one),
        ):
            closed_ms: list[float] = []
            for _ in range(rounds):
                closed_ms += await _stops(upstream, cluster, runner, together)
            left_open = rounds * together - len(closed_ms)
            row = [name, str(rounds * together), *spread(closed_ms), str(left_open)]
            table.rows.append([*row, _aim(cluster is alone, runner, together, closed_ms)])
    return table


def _aim(alone: bool, runner: int, together: int, closed_ms: list[float]) -> str:
    if alone:
        return target(("max", percentile(closed_ms, 100), POLL_MS))
    if runner or together > 1:
        return ""
    percents = zip((50, 99), ELSEWHERE_MS, strict=True)
    return target(*((f"p{percent}", percentile(closed_ms, percent), limit) for percent, limit in percents))


async def panic(upstream: Upstream, much: Much) -> Table:
    """From the order to panic until the last provider connection is closed, and the last end is written."""
    columns = ["runs", "workers", "half closed ms", "last closed ms", "last settled ms", "reply ms"]
    columns += ["aborted", "unconfirmed", "left open", "target"]
    table = Table(title="Panic with Redis → provider's connections closed", columns=columns)
    async with _servers() as (postgres, redis):
        for workers in sorted({workers for _, workers in much.panics}):
            async with _cluster(workers, upstream, postgres, REDIS_URL=redis.url) as cluster:
                for runs in [runs for runs, on in much.panics if on == workers]:
                    table.rows.append([f"{runs:,}", str(workers), *await _panic(upstream, cluster, runs)])
    table.notes.append("The runs have begun and wait for their first word, so that their text is not what is measured.")
    return table


async def _stops(upstream: Upstream, cluster: Cluster, runner: int, together: int) -> list[float]:
    """Start so many runs at one worker, stop them at the other in the same instant; the ms until each was closed."""
    workers = list(cluster)
    closed_ms: list[float] = []
    async with await cluster.connect(workers[runner]) as starts, await cluster.connect(workers[1]) as stops:
        ids = [upstream.new_id() for _ in range(together)]
        replies = [await starts.send(id_, directive(id=id_, n=FOREVER, rate=RATE)) for id_ in ids]
        await asyncio.gather(*(upstream.calls[id_].first for id_ in ids))
        ordered = {}
        for id_ in ids:
            ordered[id_] = time.monotonic()
            await stops.post("studio_chat_stop_session", sessionKey=id_)
        await asyncio.wait([upstream.calls[id_].closed for id_ in ids], timeout=LEFT_OPEN_S)
        for id_, reply in zip(ids, replies, strict=True):
            closed = upstream.calls[id_].closed
            if closed.done():
                closed_ms.append((closed.result() - ordered[id_]) * MS)
                await starts.result(reply["executionId"])
    return closed_ms


async def _panic(upstream: Upstream, cluster: Cluster, runs: int) -> list[str]:
    async with AsyncExitStack() as stack:
        sockets: list[StudioClient] = [
            await stack.enter_async_context(await cluster.connect(worker)) for worker in cluster
        ]
        operator = await stack.enter_async_context(await cluster.connect(next(iter(cluster)), "op"))
        ids = [upstream.new_id() for _ in range(runs)]
        for first in range(0, runs, STARTING):
            some = list(enumerate(ids))[first : first + STARTING]
            orders = {"n": FOREVER, "hold": 1}
            await asyncio.gather(*(sockets[n % len(sockets)].send(id_, directive(id=id_, **orders)) for n, id_ in some))
        await asyncio.gather(*(upstream.calls[id_].arrived for id_ in ids))
        ordered_s = time.monotonic()
        reply = await operator.call("studio_chat_panic")
        replied_ms = (time.monotonic() - ordered_s) * MS
        settled_ms = await _settled(cluster, ordered_s)
        moments = [upstream.calls[id_].closed for id_ in ids]
        await asyncio.wait(moments, timeout=LEFT_OPEN_S)
    closed_ms = [(moment.result() - ordered_s) * MS for moment in moments if moment.done()]
    left_open = runs - len(closed_ms)
    counts = [str(reply["abortedCount"]), str(reply["unconfirmedCount"]), str(left_open)]
    last_ms = percentile(closed_ms, 100)
    bounds = zip(("closed", "settled"), (last_ms, settled_ms), PANIC_MS, strict=True)
    figures = map(number, (percentile(closed_ms, 50), last_ms, settled_ms, replied_ms))
    return [*figures, *counts, target(*bounds, ("left open", left_open, 0))]


async def _settled(cluster: Cluster, ordered_s: float) -> float:
    """Wait until no execution is live; return the ms since then."""
    while await asyncio.to_thread(cluster.live, ""):
        if time.monotonic() - ordered_s > SETTLED_S:
            return float("nan")
        await asyncio.sleep(0.05)
    return (time.monotonic() - ordered_s) * MS


async def _counted(cluster: Cluster) -> tuple[int, int]:
    """Rows written and transactions committed so far, when PostgreSQL's counters have come to rest."""
    await asyncio.sleep(STATISTICS_S)
    rows = [await asyncio.to_thread(cluster.rows, sql) for sql in (COUNTED, COMMITS)]
    written, commits = (int(next(iter(row.values()))) for [row] in rows)
    return written, commits


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
