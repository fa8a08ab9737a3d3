"""What tokens on their way cost: processor time, lag, memory, and the wait for the first."""

import asyncio
import os
import time
from dataclasses import dataclass

from bench.machine import cpu_s, private_kb
from bench.stage import MS, RATE, Stage, stop_all, streaming
from bench.subjects import Subject
from bench.tables import Table, number, percentile, ratio, spread, target

US_PER_TOKEN = 190  # of the fast lane, at 100 streams
TO_LITELLM = 1.25  # of the other lane
LAG_MS = (45, 80)
RUN_KB = 100
FIRST_MS = 10


async def load(stage: Stage) -> Table:
    """What many streams cost the server, and how late their tokens are."""
    columns = ["", "tokens/s", "µs per token", "to litellm alone", "processor", "lag p50 ms", "p99 ms", "max ms"]
    table = Table(
        title=f"Streams of {RATE} tokens a second",
        columns=[*columns, "driver's processor", "target"],
        notes=["Processor time is the server process's; of the floor and of litellm alone, the driver's own."],
    )
    for streams in stage.scale.loads:
        litellm_us = 0.0
        for subject in stage.compared(streams, stage.litellm, stage.slow):
            used = await _load(stage, subject, streams)
            name = f"{subject.name}, {streams} streams"
            figures = [number(used.tokens_per_s), number(used.us_per_token), ratio(used.us_per_token, litellm_us)]
            row = [name, *figures, f"{used.processor:.0%}", *spread(used.lag_ms), f"{used.drivers_processor:.0%}"]
            litellm_us = used.us_per_token if subject is stage.litellm else litellm_us
            table.rows.append([*row, _aim(stage, subject, streams, used, litellm_us)])
    return table


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a window of streaming took. `processor` is a part of one core."""

    tokens_per_s: float
    us_per_token: float
    processor: float
    drivers_processor: float
    lag_ms: list[float]


def _aim(stage: Stage, subject: Subject, streams: int, used: Load, litellm_us: float) -> str:
    if subject is stage.slow:
        return target(("to litellm", used.us_per_token / litellm_us, TO_LITELLM))
    if subject is not stage.product or streams != stage.scale.compared:
        return ""
    lags = [(f"lag p{each}", percentile(used.lag_ms, each), ms) for each, ms in zip((50, 99), LAG_MS, strict=True)]
    return target(("µs", used.us_per_token, US_PER_TOKEN), *lags)


async def _load(stage: Stage, subject: Subject, count: int) -> Load:
    async with subject.clients(count) as clients:
        streams = await streaming(stage, clients)
        await asyncio.sleep(1.0)  # what flows is even
        pids = subject.pid, os.getpid()
        began_s, before = time.monotonic(), [cpu_s(pid) for pid in pids]
        await asyncio.sleep(stage.scale.window_s)
        ended_s, after = time.monotonic(), [cpu_s(pid) for pid in pids]
        await stop_all(streams)
    passed_s = ended_s - began_s
    tokens = [token for stream in streams for token in stream.tokens() if began_s <= token[1] < ended_s]
    used_s, driver_s = (end - begin for begin, end in zip(before, after, strict=True))
    return Load(
        tokens_per_s=len(tokens) / passed_s,
        us_per_token=used_s / max(1, len(tokens)) * 1e6,
        processor=used_s / passed_s,
        drivers_processor=driver_s / passed_s,
        lag_ms=[(arrived_s - sent_s) * MS for sent_s, arrived_s in tokens],
    )


async def memory(stage: Stage) -> Table:
    """What a live run holds. First of all scenarios: memory once taken is seldom given back."""
    count, window_s = 50, stage.scale.window_s
    columns = ["", "idle MB", "kB per run, just begun", f"kB per run after {window_s:g} s ({window_s * RATE:g} tokens)"]
    table = Table(title=f"Memory of {count} live runs above idle", columns=[*columns, "target"])
    for subject in (stage.floor, stage.product, stage.slow, stage.litellm):
        async with subject.clients(count) as clients:
            await stop_all(await streaming(stage, clients[:1]))  # what is only paid once
            idle_kb = private_kb(subject.pid)
            streams = await streaming(stage, clients)
            begun_kb = private_kb(subject.pid)
            await asyncio.sleep(window_s)
            later_kb = private_kb(subject.pid)
            await stop_all(streams)
        per_run = [(kb - idle_kb) / count for kb in (begun_kb, later_kb)]
        aim = target(("kB", max(per_run), RUN_KB)) if subject is stage.product else ""
        table.rows.append([subject.name, number(idle_kb / 1024), *map(number, per_run), aim])
    return table


async def first(stage: Stage) -> Table:
    """From sending a message to its first delta, less what the provider took."""
    columns = ["", "turns", "p50 ms", "p99 ms", "max ms", "p50 to floor", "of it before the request, p50 ms", "target"]
    table = Table(title="Send → first delta, without the provider's own time", columns=columns)
    for beside in (0, 50):
        floor_p50 = 0.0
        for subject in stage.compared(beside):
            own_ms, before_ms = await _firsts(stage, subject, beside)
            p50 = percentile(own_ms, 50)
            name = f"{subject.name}, {f'beside {beside} streams' if beside else 'idle'}"
            before = number(percentile(before_ms, 50))
            aim = target(("p50", p50, FIRST_MS)) if subject is stage.product and not beside else ""
            table.rows.append([name, str(len(own_ms)), *spread(own_ms), ratio(p50, floor_p50), before, aim])
            floor_p50 = floor_p50 or p50
    return table


async def _firsts(stage: Stage, subject: Subject, beside: int) -> tuple[list[float], list[float]]:
    own_ms, before_ms = [], []
    async with subject.clients(1 + beside) as [client, *others]:
        streams = await streaming(stage, others)
        for _ in range(stage.scale.turns):
            stream = await client.ask(session="first", n=1)
            await stream.ended()
            call = stage.upstream.calls[stream.id]
            arrived_s, sent_s = await call.arrived, await call.first
            [(_, delta_s)] = stream.tokens()
            own_ms.append((delta_s - stream.asked_s - (sent_s - arrived_s)) * MS)
            before_ms.append((arrived_s - stream.asked_s) * MS)
        await stop_all(streams)
    return own_ms, before_ms


async def idle(stage: Stage) -> Table:
    """What sockets cost that do nothing, and what they cost those who do something."""
    sockets, runs = stage.scale.idle
    columns = ["", "idle processor", "kB per idle socket", "µs per token", "lag p50 ms", "p99 ms", "max ms"]
    table = Table(title=f"Idle sockets beside {runs} live runs", columns=columns)
    for count in (0, sockets):
        pid, before_kb = stage.product.pid, private_kb(stage.product.pid)
        async with stage.product.clients(count):
            socket_kb = number((private_kb(pid) - before_kb) / count) if count else "–"
            before_s = cpu_s(pid)
            await asyncio.sleep(stage.scale.window_s)
            resting = (cpu_s(pid) - before_s) / stage.scale.window_s
            used = await _load(stage, stage.product, runs)
        name = f"{count:,} idle sockets"
        table.rows.append([name, f"{resting:.1%}", socket_kb, number(used.us_per_token), *spread(used.lag_ms)])
    return table
