"""The life of one server process: warm before the first turn, drained before the end.

Servers that speak lifespan (uvicorn, granian) tell of both; Daphne is taught to (studio.daphne_fixes). Draining is the
same under all: nothing new, own runs aborted with `shutdown`, partials stored, sockets closed with 1001.
"""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from chat import lifecycle as chat_lifecycle
from chat.toolbox import toolbox
from kernel import lanes
from kernel.hub import Hub, hub
from kernel.llm import catalog, library, litellm_model
from kernel.mcp.roster import roster_of
from kernel.tools import ToolDefinitionError
from kernel.worker import ThisWorker, this_worker
from studio import live_list, logins

logger = logging.getLogger(__name__)

SHUTDOWN_TOPIC = f"{Hub.LOCAL}shutdown"
# From telling the sockets to close until they are cut: the time in which what waits and the close frames leave.
CLOSE_S = 0.5
JOIN_RETRY_S = 2.0

App = Callable[[Any, Any, Any], Awaitable[None]]


class Lifecycle:
    """An ASGI application around another one."""

    def __init__(self, application: App):
        self._application = application
        self._started: ThisWorker | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        self.start()  # for servers that tell nothing
        await self._application(scope, receive, send)

    def start(self) -> None:
        """Start this process's worker, once for each event loop."""
        worker = this_worker()
        if self._started is not worker:
            self._started = worker
            chat_lifecycle.attach(worker)
            live_list.attach()
            logins.watch(asyncio.get_running_loop())
            worker.spawn(_warm(worker), "warm")

    async def end(self) -> None:
        """End everything of this process in good order."""
        logger.info("Draining before the end.", extra={"action": "drain"})
        worker = this_worker()
        await worker.drain()
        if hub.listeners(SHUTDOWN_TOPIC):
            hub.publish(SHUTDOWN_TOPIC, {"type": "shutdown"})
            await asyncio.sleep(CLOSE_S)
        await roster_of(worker).close()
        await worker.close()
        await library.close()

    async def _lifespan(self, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.end()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def _warm(worker: ThisWorker) -> None:
    """Join the ledger, load the tools, and pay for litellm's first call before the first person does."""
    while True:
        try:
            await worker.ready()
            break
        except lanes.FAILURES:
            logger.exception("The ledger cannot be joined; trying again.", extra={"action": "join"})
            await asyncio.sleep(JOIN_RETRY_S)
    try:
        await lanes.reads.run(toolbox)
    except ToolDefinitionError as error:
        logger.error("The tools cannot be used: %s", error, extra={"action": "tools"})
    await roster_of(worker).start()
    default = await lanes.reads.run(catalog.default_model)
    if not default.startswith(("demo/", "local/")):
        await litellm_model.warm(default)
    # What is loaded stays: a full collection of it would hold the loop, and so the next stop, for a fifth of a second.
    gc.collect()
    gc.freeze()
