"""What Daphne does not do by itself and the contract needs. Held by tests/studio/test_daphne_fixes.py.

- autobahn lets applications close with 1000 and 3000 to 4999 only, though RFC 6455 (7.4.1) gives servers 1001, 1009,
  1011 and 1013 too; and it drops the connection of a frame over its limit without a close frame.
- Daphne never waits for a reader: what a slow socket does not take grows in its memory. Here a send waits while its
  transport is full, so that the socket's own bounded outbox fills instead; and so does the next piece of a body, so
  that a long export costs no memory either.
- A frame for a socket that closed in the same instant raises. Here it is dropped, as the close is on its way.
- A frame takes autobahn through its log of every octet and Twisted through two more turns of the loop, which costs more
  than all that we do for a token. Here a text is framed and given to the kernel at once, where nothing waits before it.
- Daphne has no lifespan: it starts without telling the application, and its end begins with cancelling consumers. Here
  the application is started with the reactor, and has ended before its consumers are cancelled.
"""

import asyncio
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from autobahn.exception import Disconnected
from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet.tcp import Connection

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
    if message["type"] == "http.response.body":
        pace = _pace_of_body(protocol, more=message.get("more_body", False))
        if pace is not None:
            await pace.writable.wait()
    if pace is not None and message["type"] == "websocket.send":
        if not pace.writable.is_set():
            await pace.writable.wait()
        text = message.get("text")
        if text is not None and _is_plain(protocol):
            _write(protocol.transport, text_frame(text))
            return
    with suppress(Disconnected):  # it closed in this very instant; the consumer is being told
        await _reply(self, protocol, message)


def _pace_of_body(request: Any, *, more: bool) -> Pace | None:
    """A body in pieces is given a pace with its first, and gives it back with its last."""
    if request.channel is None:  # the connection is lost
        return None
    if more and request.producer is None:
        request.registerProducer(Pace(), streaming=True)
    elif not more and request.producer is not None:
        request.unregisterProducer()
    return request.producer


def text_frame(text: str) -> bytes:
    """The text as one frame of a server: whole, unmasked, not compressed (RFC 6455, 5.2)."""
    payload = text.encode()
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", 0x81, size) + payload
    if size < 1 << 16:
        return struct.pack("!BBH", 0x81, 126, size) + payload
    return struct.pack("!BBQ", 0x81, 127, size) + payload


def _is_plain(protocol: Any) -> bool:
    """Whether the protocol is open, and would neither compress a frame nor queue it behind another."""
    is_open = protocol.state == WebSocketProtocol.STATE_OPEN
    return is_open and protocol._perMessageCompress is None and not protocol.send_queue


def _write(transport: Any, data: bytes) -> None:
    """Write at once what the kernel takes; the rest, and what comes while something waits, goes the usual way."""
    if isinstance(transport, Connection) and not (transport.TLS or transport.dataBuffer or transport._tempDataBuffer):
        written = transport.writeSomeData(data)
        if isinstance(written, int):  # else it is lost, and the reactor will find out
            data = data[written:]
    if data:
        transport.write(data)


def _run_started(self: Any, start: Callable[[], None]) -> None:
    from twisted.internet import reactor

    # `callWhenRunning` alone comes just before the loop runs.
    reactor.callWhenRunning(lambda: reactor.callLater(0, start))
    _run(self)


def _end_first(self: Any, end: Callable[[], Coroutine[Any, Any, None]]) -> Any:
    from twisted.internet.defer import Deferred

    ended = Deferred.fromFuture(asyncio.ensure_future(end()))
    return ended.addBoth(lambda _: _kill(self))
