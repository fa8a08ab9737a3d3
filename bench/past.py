"""Whether a long past makes a session slow."""

from bench.product import session_key
from bench.stage import MS, Stage
from bench.tables import Table, percentile, ratio, spread, target

TO_SHORTEST = 1.2


async def history(stage: Stage) -> Table:
    """Open a session, and take a turn in it, for several lengths of its past."""
    columns = ["messages", "subscribe p50 ms", "p99 ms", "max ms", "to the shortest"]
    columns += ["send → request p50 ms", "p99 ms", "max ms", "to the shortest", "target"]
    table = Table(title="A session with a past", columns=columns)
    shortest: tuple[float, float] | None = None
    for size, (opened_ms, asked_ms) in (await _visits(stage)).items():
        p50s = percentile(opened_ms, 50), percentile(asked_ms, 50)
        floors = shortest or (0.0, 0.0)
        ratios = [ratio(p50, floor) for p50, floor in zip(p50s, floors, strict=True)]
        bounds = zip(("subscribe", "send"), p50s, floors, strict=True)
        aim = target(*((name, p50 / floor, TO_SHORTEST) for name, p50, floor in bounds)) if shortest else ""
        table.rows.append([f"{size:,}", *spread(opened_ms), ratios[0], *spread(asked_ms), ratios[1], aim])
        shortest = shortest or p50s
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
