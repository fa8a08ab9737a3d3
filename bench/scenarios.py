"""The six scenarios. Each takes the stage, measures every subject on it in the same run, and returns a table."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bench.machine import cpu_s, private_kb
from bench.product import Product, session_key
from bench.subjects import Client, Stream, Subject
from bench.tables import Table, number, percentile, ratio, spread
from bench.upstream import Upstream

RATE = 20  # tokens a second, of each stream
FOREVER = 1_000_000
LEFT_OPEN_S = 5.0
LOADED_S = 0.2  # of flowing, before a stop
MS = 1000.0


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured."""

    repeats: int = 50  # stops of one run
    turns: int = 30  # of one person, in the other scenarios
    rounds: int = 3  # of what many do at once
    window_s: float = 6.0  # of load
    together: tuple[int, ...] = (50, 100)  # runs that are stopped at once
    loads: tuple[int, ...] = (20, 100)  # streams
    sizes: tuple[int, ...] = (50, 5_000)  # messages in a session

    @classmethod
    def quick(cls) -> "Scale":
        return cls(repeats=12, turns=12, rounds=1, window_s=3.0, together=(50,), loads=(50,))


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Everything that runs: the product, what it is compared with, and the provider behind them all."""

    upstream: Upstream
    product: Product
    floor: Subject
    litellm: Subject
    scale: Scale
    peers: Sequence[Subject] = ()


async def stop(stage: Stage) -> Table:
    """From the order to stop until the provider sees its connection closed."""
    columns = ["", "stops", "p50 ms", "p99 ms", "max ms", "p50 to floor", f"left open after {LEFT_OPEN_S:g} s"]
    table = Table(title="Stop → provider's connection closed", columns=columns)
    for together, rounds in ((1, stage.scale.repeats), *((many, stage.scale.rounds) for many in stage.scale.together)):
        floor_p50 = 0.0
        for subject in (stage.floor, *stage.peers, stage.product):
            closed_ms, left_open = await _stops(stage, subject, together, rounds)
            p50 = percentile(closed_ms, 50)
            name = f"{subject.name}, {'one run' if together == 1 else f'{together} at once'}"
            table.rows.append([name, str(together * rounds), *spread(closed_ms), ratio(p50, floor_p50), str(left_open)])
            floor_p50 = floor_p50 or p50
    return table


async def _stops(stage: Stage, subject: Subject, together: int, rounds: int) -> tuple[list[float], int]:
    closed_ms: list[float] = []
    async with subject.clients(together) as clients:
        for _ in range(rounds):
            streams = await _streaming(stage, clients)
            await asyncio.sleep(LOADED_S + random.random() / RATE)  # any moment between two tokens
            waits = await asyncio.gather(*(_stop(stage, each) for each in streams))
            closed_ms += [wait_ms for wait_ms in waits if wait_ms is not None]
            await asyncio.gather(*(each.ended() for each in streams))
    return closed_ms, together * rounds - len(closed_ms)


async def _streaming(stage: Stage, clients: list[Client]) -> list[Stream]:
    """One endless stream for each client. All have begun before they flow: a start is not what is measured here."""
    streams = [await client.ask(n=FOREVER, rate=RATE, hold=1) for client in clients]
    await asyncio.gather(*(stream.began() for stream in streams))
    stage.upstream.release()
    return streams


async def _stop(stage: Stage, stream: Stream) -> float | None:
    ordered_s = await stream.stop()
    try:
        return (await asyncio.wait_for(stage.upstream.calls[stream.id].closed, LEFT_OPEN_S) - ordered_s) * MS
    except TimeoutError:
        return None


async def first(stage: Stage) -> Table:
    """From sending a message to its first delta, less what the provider took."""
    columns = ["", "turns", "p50 ms", "p99 ms", "max ms", "p50 to floor", "of it before the request, p50 ms"]
    table = Table(title="Send → first delta, without the provider's own time", columns=columns)
    for beside in (0, 50):
        floor_p50 = 0.0
        for subject in (stage.floor, *stage.peers, stage.product):
            own_ms, before_ms = await _firsts(stage, subject, beside)
            p50 = percentile(own_ms, 50)
            name = f"{subject.name}, {f'beside {beside} streams' if beside else 'idle'}"
            before = number(percentile(before_ms, 50))
            table.rows.append([name, str(len(own_ms)), *spread(own_ms), ratio(p50, floor_p50), before])
            floor_p50 = floor_p50 or p50
    return table


async def _firsts(stage: Stage, subject: Subject, beside: int) -> tuple[list[float], list[float]]:
    own_ms, before_ms = [], []
    async with subject.clients(1 + beside) as [client, *others]:
        streams = await _streaming(stage, others)
        for _ in range(stage.scale.turns):
            stream = await client.ask(session="first", n=1)
            await stream.ended()
            call = stage.upstream.calls[stream.id]
            arrived_s, sent_s = await call.arrived, await call.first
            [(_, delta_s)] = stream.tokens()
            own_ms.append((delta_s - stream.asked_s - (sent_s - arrived_s)) * MS)
            before_ms.append((arrived_s - stream.asked_s) * MS)
        await _stop_all(streams)
    return own_ms, before_ms


async def load(stage: Stage) -> Table:
    """What many streams cost the server, and how late their tokens are."""
    columns = ["", "tokens/s", "µs per token", "to litellm alone", "processor", "lag p50 ms", "p99 ms", "max ms"]
    table = Table(
        title=f"Streams of {RATE} tokens a second",
        columns=[*columns, "driver's processor"],
        notes=["Processor time is the server process's; of the floor and of litellm alone, the driver's own."],
    )
    for streams in stage.scale.loads:
        litellm_us = 0.0
        for subject in (stage.floor, stage.litellm, *stage.peers, stage.product):
            used = await _load(stage, subject, streams)
            name = f"{subject.name}, {streams} streams"
            figures = [number(used.tokens_per_s), number(used.us_per_token), ratio(used.us_per_token, litellm_us)]
            table.rows.append(
                [name, *figures, f"{used.processor:.0%}", *spread(used.lag_ms), f"{used.drivers_processor:.0%}"]
            )
            litellm_us = used.us_per_token if subject is stage.litellm else litellm_us
    return table


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a window of streaming took. `processor` is a part of one core."""

    tokens_per_s: float
    us_per_token: float
    processor: float
    drivers_processor: float
    lag_ms: list[float]


async def _load(stage: Stage, subject: Subject, count: int) -> Load:
    async with subject.clients(count) as clients:
        streams = await _streaming(stage, clients)
        await asyncio.sleep(1.0)  # what flows is even
        pids = subject.pid, os.getpid()
        began_s, before = time.monotonic(), [cpu_s(pid) for pid in pids]
        await asyncio.sleep(stage.scale.window_s)
        ended_s, after = time.monotonic(), [cpu_s(pid) for pid in pids]
        await _stop_all(streams)
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


async def _stop_all(streams: list[Stream]) -> None:
    await asyncio.gather(*(stream.stop() for stream in streams))
    await asyncio.gather(*(stream.ended() for stream in streams))


async def memory(stage: Stage) -> Table:
    """What a live run holds. First of all scenarios: memory once taken is seldom given back."""
    count, window_s = 50, stage.scale.window_s
    columns = ["", "idle MB", "kB per run, just begun", f"kB per run after {window_s:g} s ({window_s * RATE:g} tokens)"]
    table = Table(title=f"Memory of {count} live runs above idle", columns=columns)
    for subject in (stage.floor, stage.product, stage.litellm):
        async with subject.clients(count) as clients:
            await _stop_all(await _streaming(stage, clients[:1]))  # what is only paid once
            idle_kb = private_kb(subject.pid)
            streams = await _streaming(stage, clients)
            begun_kb = private_kb(subject.pid)
            await asyncio.sleep(window_s)
            later_kb = private_kb(subject.pid)
            await _stop_all(streams)
        per_run = [number((kb - idle_kb) / count) for kb in (begun_kb, later_kb)]
        table.rows.append([subject.name, number(idle_kb / 1024), *per_run])
    return table


async def send_now(stage: Stage) -> Table:
    """From Send now on a queued message until the provider has its request."""
    columns = ["", "times", "p50 ms", "p99 ms", "max ms", "p50 to floor", "messages sent other than once"]
    table = Table(title="Send now → the new request at the provider", columns=columns)
    floor_p50 = 0.0
    for subject in (stage.floor, stage.product):
        took_ms, not_once = await _replacements(stage, subject)
        p50 = percentile(took_ms, 50)
        table.rows.append([subject.name, str(len(took_ms)), *spread(took_ms), ratio(p50, floor_p50), str(not_once)])
        floor_p50 = p50
    return table


async def _replacements(stage: Stage, subject: Subject) -> tuple[list[float], int]:
    took_ms, ids = [], []
    async with subject.clients(1) as [client]:
        for _ in range(stage.scale.turns):
            [stream] = await _streaming(stage, [client])
            ordered_s, id_ = await client.replace(stream, n=1)
            call = stage.upstream.calls[id_]
            took_ms.append((await call.arrived - ordered_s) * MS)
            await call.finished
            ids.append(id_)
    return took_ms, sum(stage.upstream.calls[id_].count != 1 for id_ in ids)


async def history(stage: Stage) -> Table:
    """Whether a long past makes a session slow."""
    columns = ["messages", "subscribe p50 ms", "p99 ms", "max ms", "to the shortest"]
    columns += ["send → request p50 ms", "p99 ms", "max ms", "to the shortest"]
    table = Table(title="A session with a past", columns=columns)
    shortest: tuple[float, float] = (0.0, 0.0)
    for size, (opened_ms, asked_ms) in (await _visits(stage)).items():
        p50s = percentile(opened_ms, 50), percentile(asked_ms, 50)
        ratios = [ratio(p50, floor) for p50, floor in zip(p50s, shortest, strict=True)]
        table.rows.append([f"{size:,}", *spread(opened_ms), ratios[0], *spread(asked_ms), ratios[1]])
        shortest = shortest if any(shortest) else p50s
    return table


async def _visits(stage: Stage) -> dict[int, tuple[list[float], list[float]]]:
    """For each size in turn, so that a busy moment of the machine hits them all: open the session, ask in it."""
    taken: dict[int, tuple[list[float], list[float]]] = {size: ([], []) for size in stage.scale.sizes}
    for _ in range(stage.scale.turns):
        for size, (opened_ms, asked_ms) in taken.items():
            client = await stage.product.client(0)
            opened_ms.append(await client.subscribe(session_key(size)) * MS)
            stream = await client.ask(session=session_key(size), n=1)
            asked_ms.append((await stage.upstream.calls[stream.id].arrived - stream.asked_s) * MS)
            await stream.ended()
            await client.close()
    return taken


SCENARIOS: dict[str, Callable[[Stage], Awaitable[Table]]] = {
    scenario.__name__: scenario for scenario in (memory, load, stop, first, send_now, history)
}
