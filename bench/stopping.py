"""How fast a stop closes the provider's connection, and how fast Send now opens another."""

import asyncio
import random

from bench.stage import LEFT_OPEN_S, MS, RATE, Stage, streaming
from bench.subjects import Stream, Subject
from bench.tables import Table, percentile, ratio, spread, target

LOADED_S = 0.2  # of flowing, before a stop
TARGETS = {1: (3, 8), 50: (None, 50), 100: (None, 80)}  # by runs at once: p50 and p99, in ms
SEND_NOW_MS = 40


async def stop(stage: Stage) -> Table:
    """From the order to stop until the provider sees its connection closed."""
    columns = [
        "",
        "stops",
        "p50 ms",
        "p99 ms",
        "max ms",
        "p50 to floor",
        f"left open after {LEFT_OPEN_S:g} s",
        "target",
    ]
    table = Table(title="Stop → provider's connection closed", columns=columns)
    for together, rounds in ((1, stage.scale.repeats), *((many, stage.scale.rounds) for many in stage.scale.together)):
        floor_p50 = 0.0
        for subject in stage.compared(together):
            closed_ms, left_open = await _stops(stage, subject, together, rounds)
            p50 = percentile(closed_ms, 50)
            name = f"{subject.name}, {'one run' if together == 1 else f'{together} at once'}"
            aim = _aim(together, closed_ms, left_open) if subject is stage.product else ""
            figures = [*spread(closed_ms), ratio(p50, floor_p50), str(left_open)]
            table.rows.append([name, str(together * rounds), *figures, aim])
            floor_p50 = floor_p50 or p50
    return table


def _aim(together: int, closed_ms: list[float], left_open: int) -> str:
    limits = zip((50, 99), TARGETS.get(together, ()), strict=False)
    bounds = [(f"p{percent}", percentile(closed_ms, percent), limit) for percent, limit in limits if limit]
    return target(*bounds, ("left open", left_open, 0))


async def _stops(stage: Stage, subject: Subject, together: int, rounds: int) -> tuple[list[float], int]:
    closed_ms: list[float] = []
    async with subject.clients(together) as clients:
        for _ in range(rounds):
            streams = await streaming(stage, clients)
            await asyncio.sleep(LOADED_S + random.random() / RATE)  # any moment between two tokens
            waits = await asyncio.gather(*(_stop(stage, each) for each in streams))
            closed_ms += [wait_ms for wait_ms in waits if wait_ms is not None]
            await asyncio.gather(*(each.ended() for each in streams))
    return closed_ms, together * rounds - len(closed_ms)


async def _stop(stage: Stage, stream: Stream) -> float | None:
    ordered_s = await stream.stop()
    try:
        return (await asyncio.wait_for(stage.upstream.calls[stream.id].closed, LEFT_OPEN_S) - ordered_s) * MS
    except TimeoutError:
        return None


async def send_now(stage: Stage) -> Table:
    """From Send now on a queued message until the provider has its request."""
    columns = ["", "times", "p50 ms", "p99 ms", "max ms", "p50 to floor", "messages sent other than once", "target"]
    table = Table(title="Send now → the new request at the provider", columns=columns)
    floor_p50 = 0.0
    for subject in (stage.floor, stage.product):
        took_ms, not_once = await _replacements(stage, subject)
        p50 = percentile(took_ms, 50)
        aim = target(("p50", p50, SEND_NOW_MS), ("lost", not_once, 0)) if subject is stage.product else ""
        table.rows.append(
            [subject.name, str(len(took_ms)), *spread(took_ms), ratio(p50, floor_p50), str(not_once), aim]
        )
        floor_p50 = p50
    return table


async def _replacements(stage: Stage, subject: Subject) -> tuple[list[float], int]:
    took_ms, ids = [], []
    async with subject.clients(1) as [client]:
        for _ in range(stage.scale.turns):
            [stream] = await streaming(stage, [client])
            ordered_s, id_ = await client.replace(stream, n=1)
            call = stage.upstream.calls[id_]
            took_ms.append((await call.arrived - ordered_s) * MS)
            await call.finished
            ids.append(id_)
    return took_ms, sum(stage.upstream.calls[id_].count != 1 for id_ in ids)
