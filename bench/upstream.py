"""The provider's process as the driver sees it: where it listens, and what it told of each request."""

import asyncio
import itertools
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.waiting import READY_TIMEOUT_S

ROOT = Path(__file__).resolve().parents[1]


def _future() -> "asyncio.Future[float]":
    return asyncio.get_running_loop().create_future()


@dataclass(kw_only=True, eq=False)
class Call:
    """One id's requests. Futures hold CLOCK_MONOTONIC seconds; `count` tells of an id that was asked for twice."""

    arrived: "asyncio.Future[float]" = field(default_factory=_future)
    first: "asyncio.Future[float]" = field(default_factory=_future)
    closed: "asyncio.Future[float]" = field(default_factory=_future)
    finished: "asyncio.Future[float]" = field(default_factory=_future)
    count: int = 0


class Upstream:
    """Starts the provider and listens to it: `async with Upstream() as upstream`."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = defaultdict(Call)
        self._ids = itertools.count(1)
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.provider", cwd=ROOT, stdin=PIPE, stdout=PIPE
        )
        line = await asyncio.wait_for(self._lines().readline(), READY_TIMEOUT_S)
        self.url = f"http://127.0.0.1:{json.loads(line)['port']}/v1"
        self._listening = asyncio.create_task(self._listen(), name="upstream")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._process is not None
        self._process.terminate()
        await self._process.wait()
        await self._listening

    def release(self) -> None:
        """Let every stream that is held go on."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def new_id(self) -> str:
        return f"b{next(self._ids)}"

    async def _listen(self) -> None:
        while line := await self._lines().readline():
            told = json.loads(line)
            call = self.calls[told["id"]]
            call.count += told["event"] == "arrived"
            moment = getattr(call, told["event"])
            if not moment.done():
                moment.set_result(told["at"])

    def _lines(self) -> asyncio.StreamReader:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout
