"""One server as this worker knows it: connected at need, its tools remembered, its failures kept from the runs.

The catalogue lives in memory, for `FRESH_S`; a stale one is offered still, while it is asked for again. A server that
fails is left alone for a while, longer each time, and nobody waits for it meanwhile. Nothing of the library is loaded
before the first connection.
"""

import asyncio
import functools
import importlib
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from kernel.aio import finish
from kernel.mcp.errors import McpFailure, SessionOver, Silent
from kernel.mcp.models import ServerConfig
from kernel.mcp.translate import text_of, tools_of
from kernel.tools import Tool

if TYPE_CHECKING:
    from mcp import types

    from kernel.mcp.session import Session

logger = logging.getLogger(__name__)

FRESH_S = 300.0
RETRY_S = 5.0
RETRY_MAX_S = 300.0

Spawn = Callable[[Coroutine[Any, Any, Any], str], asyncio.Task[Any]]
Opening = asyncio.Task[McpFailure | None]


class Link:
    """The way to one server. `note` is told the number of its tools, or why it failed, whenever either is learnt."""

    def __init__(self, config: ServerConfig, spawn: Spawn, note: Callable[[int | McpFailure], None]):
        self.config = config
        self.tools: tuple[Tool, ...] = ()
        self._spawn = spawn
        self._note = note
        self._session: Session | None = None
        self._opening: Opening | None = None
        self._opening_since_s = 0.0
        self._listed_s: float | None = None
        self._failures = 0
        self._retry_at_s = 0.0
        self._legacy = False
        self._closed = False

    def want(self) -> None:
        """See to it that the tools are known, soon; nobody waits."""
        now_s = time.monotonic()
        if self._listed_s is not None and now_s - self._listed_s < FRESH_S:
            return
        if self._usable_session is not None:
            self._usable_session.relist()
        elif self._opening is None and now_s >= self._retry_at_s:
            self._open()

    def first_listing(self, patience_s: float) -> tuple[Opening, float] | None:
        """While it is being connected for the first time: what a run may wait for, and how much longer it should."""
        if self._opening is None or self.is_known:
            return None
        left_s = self._opening_since_s + patience_s - time.monotonic()
        return (self._opening, left_s) if left_s > 0 else None

    async def open(self) -> McpFailure | None:
        """Be connected; return why not."""
        if self._usable_session is not None:
            return None
        opening = self._opening or self._open()
        await asyncio.wait({opening})  # whoever is cancelled here leaves it to the others
        if opening.cancelled():
            return McpFailure(f"The MCP server {self.config.name!r} was changed or switched off.")
        return opening.result()

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool by its server's own name for it; connect if need be. Raises `McpFailure`."""
        try:
            return text_of(await (await self._connected()).call(tool, arguments))
        except SessionOver:  # it has restarted: the call was not begun, and may be made anew
            return text_of(await (await self._connected()).call(tool, arguments))

    def retire(self) -> None:
        """Take no new calls; the connection ends with the last of the old ones."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._session is not None:
            self._session.retire()

    async def close(self) -> None:
        """End the connection now, calls and all."""
        opening, session = self._opening, self._session
        self.retire()
        if opening is not None:
            await asyncio.wait({opening})
        if session is not None:
            await session.close()

    @property
    def is_known(self) -> bool:
        """Whether its tools are."""
        return self._listed_s is not None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, or one being made."""
        return self._session is not None or self._opening is not None

    @property
    def _usable_session(self) -> "Session | None":
        return self._session if self._session is not None and self._session.usable else None

    async def _connected(self) -> "Session":
        failure = McpFailure(f"The MCP server {self.config.name!r} was changed or switched off.")
        if not self._closed:
            failure = await self.open() or McpFailure(f"The MCP server {self.config.name!r} has ended the connection.")
        if self._usable_session is None:
            raise failure
        return self._usable_session

    def _open(self) -> Opening:
        self._opening_since_s = time.monotonic()
        self._opening = self._spawn(self._connect(), f"mcp opens:{self.config.name}")
        return self._opening

    async def _connect(self) -> McpFailure | None:
        """Connect by the newer protocol, or by the older one to a server that is silent then."""
        try:
            library = await asyncio.to_thread(importlib.import_module, "kernel.mcp.session")
            failure = await self._try(library.Session, legacy=self._legacy)
            if isinstance(failure, Silent) and not self._legacy:
                failure = await self._try(library.Session, legacy=True)
                self._legacy = failure is None
        finally:
            self._opening = None
        if failure is not None:
            self._failed(failure)
        return failure

    async def _try(self, connect: "type[Session]", *, legacy: bool) -> McpFailure | None:
        session = connect(self.config, self._spawn, self._listed, legacy=legacy)
        session.ended.add_done_callback(functools.partial(self._ended, session))
        try:
            await asyncio.wait({session.opened})
        except asyncio.CancelledError:
            session.ended.cancel()
            await finish(asyncio.wait({session.ended}))  # a program is not left behind
            raise
        failure = session.opened.exception()
        if failure is None:
            self._session = session
        return failure  # type: ignore[return-value]  # that is what a session fails with

    def _listed(self, listed: "list[types.Tool]") -> None:
        self.tools = tools_of(self.config.name, listed, self.call, self.config.call_timeout_s)
        self._listed_s = time.monotonic()
        self._failures = 0
        self._note(len(self.tools))

    def _ended(self, session: "Session", owner: "asyncio.Task[McpFailure | None]") -> None:
        """A connection that ends by itself costs nothing but the next one, unless it has failed."""
        if self._session is session:
            self._session = None
            if not owner.cancelled() and (failure := owner.result()) is not None:
                self._failed(failure)

    def _failed(self, failure: McpFailure) -> None:
        self.tools = ()
        self._listed_s = None
        self._retry_at_s = time.monotonic() + min(RETRY_S * 2**self._failures, RETRY_MAX_S)
        self._failures += 1
        logger.warning("%s", failure.message, extra={"action": "mcp", "server": self.config.name})
        self._note(failure)
