"""`python -m chaos [--seed N] [--ops N] [--round N]` plays a campaign and tells what it did. Loopback only."""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from chaos.campaign import Broken, Campaign
from chaos.plan import Round, plan, rounds
from chaos.stage import Stage
from tests.processes.servers import Postgres, Redis
from tests.provider import Provider


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Break everything under people at work.")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: a new one each time")
    parser.add_argument("--ops", type=int, default=2000, help="how many operations, rounded up to whole rounds")
    parser.add_argument("--round", type=int, help="only the round of this number")
    parser.add_argument("--workers", type=int, default=3)
    told = parser.parse_args()
    wanted = rounds(told.seed, told.ops) if told.round is None else [plan(told.seed, told.round)]
    _say(f"seed {told.seed}")
    with _stage(told.workers) as stage:
        try:
            asyncio.run(_play(Campaign(stage), wanted))
        except Broken as broken:
            _say(str(broken))
            return 1
    return 0


async def _play(campaign: Campaign, wanted: Iterable[Round]) -> None:
    for round_ in wanted:
        began_s = time.monotonic()
        await campaign.play(round_)
        faults = ", ".join(fault.kind for fault in round_.faults) or "nothing"
        _say(f"round {round_.number}: {faults} broke, rest by {round_.rest}, {time.monotonic() - began_s:.1f} s")
    _say(str(campaign.tally))


@contextlib.contextmanager
def _stage(workers: int) -> Iterator[Stage]:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        directories = [directory / f"worker-{number}" for number in range(workers)]
        for each in directories:
            each.mkdir()
        provider = Provider().start()
        stack.callback(provider.close)
        servers = Postgres(), Redis()
        for server in servers:
            stack.callback(server.end)
            server.start()
        postgres, redis = servers
        postgres.make_template()
        stage = Stage(directories, provider, postgres, redis)
        stack.callback(stage.end)
        yield stage.start()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
