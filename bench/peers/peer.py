"""What the peers share: a server of their own on loopback, and how long to wait until it answers."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from bench.subjects import Client, Stream, Subject
from bench.upstream import Upstream
from tests.processes.harness import free_port

ENVIRONMENTS = Path(__file__).resolve().parents[2] / ".bench"  # made by `make bench-peers`
READY_TIMEOUT_S = 120.0


class Peer(Subject):
    """A running product. `base_url` is where it listens."""

    def __init__(self, process: Process, base_url: str, upstream: Upstream):
        self.pid, self.base_url, self._upstream = process.pid, base_url, upstream


class Unreplaced(Client):
    """A peer's client. None of the peers can interrupt with a message, so nothing is measured there."""

    async def replace(self, stream: Stream, **orders: object) -> tuple[float, str]:
        raise NotImplementedError("this product has no Send now")


@asynccontextmanager
async def served(
    command: list[str], directory: Path, ready: str, **environment: str
) -> AsyncIterator[tuple[Process, str]]:
    """Run the server for the time of the `async with`; `{port}` in the command stands for its port."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(word.format(port=port) for word in command),
        cwd=directory,
        env={**os.environ, "PORT": str(port), **environment},
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    base_url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            await _answers(process, f"{base_url}{ready}")
        yield process, base_url
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _answers(process: Process, url: str) -> None:
    async with aiohttp.ClientSession() as http:
        while process.returncode is None:
            try:
                async with http.get(url) as answer:
                    if answer.status < 500:
                        return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.2)
    raise RuntimeError(f"the server at {url} ended with {process.returncode} before it answered")
