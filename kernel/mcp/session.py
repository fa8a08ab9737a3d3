"""One live connection to one server, shared by all runs of this worker.

It belongs to a task of its own: the library's scopes must be left by the task that entered them. A call is a task too.
Whoever waits for one may leave at any moment: the call is cancelled then, and tells the server so
(`notifications/cancelled`, with its request's id) in its own time, while nobody waits. A late answer finds nobody.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from mcp import Client, MCPError, types
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

from kernel.mcp.errors import McpFailure
from kernel.mcp.failures import failure_of, is_over
from kernel.mcp.http import address
from kernel.mcp.models import ServerConfig, Transport
from kernel.mcp.program import Program

logger = logging.getLogger(__name__)

CLOSE_S = 3.0  # for a program to end and for an address to be told; then it is cut off, which has as long again
TOOLS_MAX = 1000
PAGES_MAX = 100

Spawn = Callable[[Coroutine[Any, Any, Any], str], asyncio.Task[Any]]
Listed = list[types.Tool]


class Session:
    """A connection, from the first step to the last.

    `on_listed` is called with the tools, at the start and whenever the server has changed them. `legacy` spares servers
    that do not answer what they do not know the question which protocol they speak.
    """

    def __init__(
        self, config: ServerConfig, spawn: Spawn, on_listed: Callable[[Listed], None], *, legacy: bool = False
    ):
        self.config = config
        self._on_listed = on_listed
        self._mode = "legacy" if legacy else "auto"
        self._program: Program | None = None
        self._calls: set[asyncio.Task[types.CallToolResult]] = set()
        self._wake = asyncio.Event()
        self._changed = False
        self._retired = False
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # In a context of its own: nothing of the run that happens to come first.
        self.ended = contextvars.Context().run(spawn, self._live(), f"mcp:{config.name}")

    @property
    def usable(self) -> bool:
        """Whether new calls may come."""
        return self.opened.done() and not self._retired

    async def call(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call one of the server's tools by its own name. Raises `McpFailure`, `SessionOver` if it was never begun."""
        calling = self._client.call_tool(tool, arguments)
        name = f"mcp call:{self.config.name}:{tool}"
        call = asyncio.create_task(calling, name=name, context=contextvars.Context())
        self._calls.add(call)
        call.add_done_callback(self._call_ended)
        try:
            await asyncio.wait({call})
        finally:
            call.cancel()  # if it is still under way: it takes its leave by itself
        if call.cancelled():
            raise McpFailure(f"The connection to the MCP server {self.config.name!r} was closed.")
        try:
            return call.result()
        except Exception as error:  # whatever it is, it ends this call, and no more
            raise self._told(error) from error

    def relist(self) -> None:
        """Ask for the tools again, soon."""
        self._changed = True
        self._wake.set()

    def retire(self) -> None:
        """Take no new calls, and end with the last of the old ones."""
        self._retired = True
        self._wake.set()

    async def close(self) -> None:
        """End now, calls and all, within twice `CLOSE_S`."""
        self.retire()
        for call in self._calls:
            call.cancel()
        await asyncio.wait({self.ended}, timeout=CLOSE_S)
        self.ended.cancel()
        await asyncio.wait({self.ended}, timeout=CLOSE_S)

    async def _live(self) -> McpFailure | None:
        """The owner's whole life. Return why it ended, if not in good order."""
        failure: McpFailure | None = None
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.config.connect_timeout_s):
                    self._client = await stack.enter_async_context(self._connection())
                    await self._list()
                self.opened.set_result(None)
                await self._serve(stack)
        except Exception as error:  # a stranger's program, and a library that passes on what it meets
            logger.debug("The connection to an MCP server ended in an error.", exc_info=True)
            failure = self._told(error)
        finally:
            self._retired = True
            if not self.opened.done():
                closed = McpFailure(f"The connection to the MCP server {self.config.name!r} was closed.")
                self.opened.set_exception(failure or closed)
                self.opened.exception()  # whoever waits for it hears; nobody has to
        return failure

    def _connection(self) -> Client:
        if self.config.transport == Transport.STDIO:
            self._program = Program(self.config, on_end=self.retire)
        transport = self._program or address(self.config)
        return Client(transport, mode=self._mode, cache=None, message_handler=self._on_message)

    async def _serve(self, stack: AsyncExitStack) -> None:
        """Until it is retired and no call is left; meanwhile, ask for the tools whenever they have changed."""
        hearing = asyncio.create_task(self._hear(), name=f"mcp changes:{self.config.name}")
        stack.callback(hearing.cancel)
        while not self._retired or self._calls:
            await self._wake.wait()
            self._wake.clear()
            if self._changed and not self._retired:
                self._changed = False
                async with asyncio.timeout(self.config.connect_timeout_s):
                    await self._list()

    async def _list(self) -> None:
        tools: Listed = []
        cursor = None
        if self._client.server_capabilities.tools is not None:
            for _ in range(PAGES_MAX):
                page = await self._client.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                if cursor is None or len(tools) >= TOOLS_MAX:
                    break
        self._on_listed(tools[:TOOLS_MAX])

    async def _on_message(self, message: Any) -> None:
        """Servers of the older protocol tell of a change by themselves."""
        if isinstance(message, types.ToolListChangedNotification):
            self.relist()

    async def _hear(self) -> None:
        """Servers of the newer protocol tell whoever has asked them to."""
        capability = self._client.server_capabilities.tools
        if capability is None or not capability.list_changed:
            return
        try:
            async with self._client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.relist()
        except ListenNotSupportedError:
            return
        except (MCPError, SubscriptionLost, TimeoutError):
            logger.debug("An MCP server no longer tells of changes; its tools are asked for again in time.")

    def _call_ended(self, call: "asyncio.Task[types.CallToolResult]") -> None:
        self._calls.discard(call)
        self._wake.set()
        if not call.cancelled() and (error := call.exception()) is not None and is_over(error):
            self.retire()

    def _told(self, error: BaseException) -> McpFailure:
        return failure_of(error, self.config, self._program.last_words if self._program is not None else "")
