"""`python -m bench [--quick] [--peers] [SCENARIO …]` measures and prints Markdown.

Loopback only; nothing is left running.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from bench import machine, workers
from bench.floors import BareLitellm, Direct
from bench.flowing import first, idle, load, memory
from bench.past import history
from bench.peers.aisdk import running_aisdk
from bench.peers.chainlit import running_chainlit
from bench.product import running_product
from bench.stage import Scale, Stage
from bench.stopping import send_now, stop
from bench.tables import Table
from bench.upstream import Upstream

PEOPLE = 100

SCENARIOS: dict[str, Callable[[Stage], Awaitable[Table]]] = {
    scenario.__name__: scenario for scenario in (memory, load, stop, first, send_now, history, idle)
}
# These start workers of their own, after the one of the others has ended.
SEVERAL = {scenario.__name__: scenario for scenario in (workers.writes, workers.elsewhere, workers.panic)}


async def measure(names: list[str], scale: Scale, much: workers.Much, with_peers: bool) -> None:
    """Run the scenarios in their own order and print each table as it comes."""
    print(f"Measured on {time.strftime('%Y-%m-%d')}: {machine.description()}", flush=True)
    if single := [name for name in names if name in SCENARIOS]:
        await _one_worker(single, scale, with_peers)
    async with Upstream() as upstream:
        for name in names:
            if name in SEVERAL:
                await _print(SEVERAL[name](upstream, much))


async def _one_worker(names: list[str], scale: Scale, with_peers: bool) -> None:
    async with Upstream() as upstream, AsyncExitStack() as servers:
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as one,
            tempfile.TemporaryDirectory(prefix="bench-") as other,
            running_product(Path(one), upstream, PEOPLE, list(scale.sizes)) as product,
            running_product(Path(other), upstream, PEOPLE, [], "studio, through litellm", STUDIO_FAST_LANE="0") as slow,
        ):
            for each in (product, slow):
                await each.warm()
            starts = (running_chainlit, running_aisdk) if with_peers else ()
            peers = [await servers.enter_async_context(start(upstream)) for start in starts]
            stage = Stage(
                upstream=upstream,
                product=product,
                slow=slow,
                floor=Direct(upstream),
                litellm=BareLitellm(upstream),
                scale=scale,
                peers=peers,
            )
            for name in names:
                await _print(SCENARIOS[name](stage))


async def _print(measuring: Awaitable[Table]) -> None:
    began_s = time.monotonic()
    table = await measuring
    print(f"\n{table.markdown()}\n\n({time.monotonic() - began_s:.0f} s)", flush=True)


def main() -> None:
    known = [*SCENARIOS, *SEVERAL]
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the studio against its floor.")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--quick", action="store_true", help="within three minutes, with rougher figures")
    parser.add_argument("--peers", action="store_true", help="beside other products, set up by `make bench-peers`")
    arguments = parser.parse_args()
    if unknown := set(arguments.scenarios) - set(known):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    names = [name for name in known if name in (arguments.scenarios or known)]
    scale, much = (Scale.quick(), workers.QUICK) if arguments.quick else (Scale(), workers.FULL)
    asyncio.run(measure(names, scale, much, arguments.peers))


if __name__ == "__main__":
    main()
