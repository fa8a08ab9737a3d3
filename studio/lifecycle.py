"""The life of one server process: warm before the first turn, drained before the end.

Daphne has no lifespan, so the start is the first connection of any kind and the end is a trigger of its reactor; under
servers that speak lifespan (uvicorn, granian) both are theirs. Draining is the same: nothing new, own runs aborted with
`shutdown`, partials stored, sockets closed with 1001.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from chat import lifecycle as chat_lifecycle
from kernel import lanes
from kernel.hub import hub
from kernel.llm import catalog, litellm_model
from kernel.worker import ThisWorker, this_worker

logger = logging.getLogger(__name__)

SHUTDOWN_TOPIC = "shutdown"
# From telling the sockets to close until the reactor goes on: the close frames leave in the loop's next turns.
CLOSE_S = 0.2

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
        self._start()
        await self._application(scope, receive, send)

    async def _lifespan(self, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await drain(this_worker())
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _start(self) -> None:
        worker = this_worker()
        if self._started is worker:
            return
        self._started = worker
        chat_lifecycle.attach(worker)
        worker.spawn(_warm(worker), "warm")
        _drain_before_daphne_ends(worker)


async def _warm(worker: ThisWorker) -> None:
    """Join the ledger, and pay for litellm's import and first call before the first person does."""
    await worker.ready()
    if not (await lanes.control.run(catalog.default_model)).startswith(("demo/", "local/")):
        await litellm_model.warm()


async def drain(worker: ThisWorker) -> None:
    """End everything of this process in good order."""
    logger.info("Draining before the end.", extra={"action": "drain"})
    await worker.drain()
    hub.publish(SHUTDOWN_TOPIC, {"type": "shutdown"})
    await asyncio.sleep(CLOSE_S)
    await worker.close()


def _drain_before_daphne_ends(worker: ThisWorker) -> None:
    """Under Twisted, hold the reactor's shutdown until this worker is drained."""
    reactor = sys.modules.get("twisted.internet.reactor")
    if reactor is None:
        return
    from twisted.internet.defer import Deferred

    loop = asyncio.get_running_loop()

    def before_shutdown() -> Any:
        return Deferred.fromFuture(asyncio.ensure_future(drain(worker), loop=loop))

    reactor.addSystemEventTrigger("before", "shutdown", before_shutdown)
