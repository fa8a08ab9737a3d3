"""What Daphne does not do by itself and the contract needs. Held by tests/studio/test_daphne_fixes.py.

- autobahn lets applications close with 1000 and 3000 to 4999 only, though RFC 6455 (7.4.1) gives servers 1001, 1009,
  1011 and 1013 too; and it drops the connection of a frame over its limit without a close frame.
- Daphne never waits for a reader: what a slow socket does not take grows in its memory. Here a send waits while its
  transport is full, so that the socket's own bounded outbox fills instead.
- A frame for a socket that closed in the same instant raises. Here it is dropped, as the close is on its way.
- Daphne has no lifespan: it starts without telling the application, and its end begins with cancelling consumers. Here
  the application is started with the reactor, and has ended before its consumers are cancelled.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from autobahn.exception import Disconnected
from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol

from studio.protocol import MESSAGE_MAX_BYTES

SERVER_CODES = {1001, 1009, 1011, 1012, 1013}

_close = WebSocketProtocol.serverClose
_connect = WebSocketProtocol.onConnect
_open = WebSocketProtocol.onOpen
_reply = Server.handle_reply
_run = Server.run
_kill = Server.kill_all_applications


def install(start: Callable[[], None], end: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Patch Daphne's classes: `start` is called in the loop when it runs, `end` is awaited before it stops."""
    WebSocketProtocol.serverClose = _server_close
    WebSocketProtocol.onConnect = _on_connect
    WebSocketProtocol.onOpen = _on_open
    Server.handle_reply = _handle_reply
    Server.run = lambda self: _run_started(self, start)
    Server.kill_all_applications = lambda self: _end_first(self, end)


class Pace:
    """A Twisted push producer: it is told when the transport is full and when it takes more."""

    def __init__(self) -> None:
        self.writable = asyncio.Event()
        self.writable.set()

    def pauseProducing(self) -> None:
        self.writable.clear()

    def resumeProducing(self) -> None:
        self.writable.set()

    def stopProducing(self) -> None:
        self.writable.set()


def _server_close(self: Any, code: int | None = None) -> None:
    if code in SERVER_CODES:
        self.sendCloseFrame(code=code)
    else:
        _close(self, code)


def _on_connect(self: Any, request: Any) -> Any:
    # Frames up to this size are read and refused with a reply; larger ones close the socket with 1009.
    self.maxMessagePayloadSize = self.maxFramePayloadSize = MESSAGE_MAX_BYTES
    self.failByDrop = False
    return _connect(self, request)


def _on_open(self: Any) -> None:
    # Until the upgrade, the HTTP channel is the transport's producer.
    self.transport.unregisterProducer()
    self.studio_pace = Pace()
    self.transport.registerProducer(self.studio_pace, streaming=True)
    _open(self)


async def _handle_reply(self: Any, protocol: Any, message: dict[str, Any]) -> None:
    pace: Pace | None = getattr(protocol, "studio_pace", None)
    if pace is not None and message["type"] == "websocket.send":
        await pace.writable.wait()
    with suppress(Disconnected):  # it closed in this very instant; the consumer is being told
        await _reply(self, protocol, message)


def _run_started(self: Any, start: Callable[[], None]) -> None:
    from twisted.internet import reactor

    # `callWhenRunning` alone comes just before the loop runs.
    reactor.callWhenRunning(lambda: reactor.callLater(0, start))
    _run(self)


def _end_first(self: Any, end: Callable[[], Coroutine[Any, Any, None]]) -> Any:
    from twisted.internet.defer import Deferred

    ended = Deferred.fromFuture(asyncio.ensure_future(end()))
    return ended.addBoth(lambda _: _kill(self))
