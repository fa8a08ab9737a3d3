"""Fixtures for the tests of MCP servers: links to real programs, and what these have received."""

import asyncio
import functools
import itertools
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kernel.abort import AbortController
from kernel.mcp.errors import McpFailure
from kernel.mcp.link import Link
from kernel.mcp.models import McpServer, ServerConfig
from kernel.tools import RunContext, Toolbox
from kernel.tools.call import CallResult, run_call
from tests.kernel.live import db
from tests.waiting import READY_TIMEOUT_S, eventually

PROGRAM = Path(__file__).with_name("program.py")


class Peer:
    """A link to a server, what the link has noted, and what the server has received."""

    def __init__(self, config: ServerConfig, log: Path):
        self.noted: list[int | McpFailure] = []
        self.log = log
        self._tasks: set[asyncio.Task[Any]] = set()
        self.link = Link(config, self._spawn, self.noted.append)

    def _spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.link.tools]

    @property
    def received(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def of(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.received if message.get("method") == method]

    async def call(
        self,
        name: str,
        controller: AbortController | None = None,
        timeout_s: float = READY_TIMEOUT_S,
        **arguments: Any,
    ) -> CallResult:
        """Call one of its tools as a run does."""
        return await run_call(
            Toolbox(self.link.tools),
            name=f"{self.link.config.name}__{name}",
            arguments=json.dumps(arguments),
            signal=(controller or AbortController()).signal,
            run=RunContext(execution_id="e", session_key="s", user_id=None),
            default_timeout_s=timeout_s,
        )

    async def begun(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until the server has received so many calls; return them."""
        return await eventually(lambda: (calls := self.of("tools/call"))[count - 1 :] and calls)


Make = Callable[..., Peer]


def program(log: Path, mode: str = "ok", **changes: Any) -> ServerConfig:
    fields = {
        "pk": 1,
        "name": "test",
        "transport": "stdio",
        "command": sys.executable,
        "args": ("-I", "-S", str(PROGRAM), str(log), mode),
        "connect_timeout_s": READY_TIMEOUT_S,
    }
    return ServerConfig(**{**fields, **changes})


async def row(config: ServerConfig, **fields: Any) -> McpServer:
    """The server as an operator has written it."""
    about = {"name": config.name, "transport": config.transport, "command": config.command}
    about |= {"args": list(config.args), "connect_timeout_s": config.connect_timeout_s}
    return await db(functools.partial(McpServer.objects.create, **about, **fields))


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes links to programs: `peer("mute", connect_timeout_s=1)`. They are closed at the end."""
    made: list[Peer] = []
    numbers = itertools.count()

    def make(mode: str = "ok", **changes: Any) -> Peer:
        log = tmp_path / f"received-{next(numbers)}"
        made.append(Peer(program(log, mode, **changes), log))
        return made[-1]

    yield make
    for each in made:
        await each.link.close()
