"""The places in Daphne and autobahn that are patched are there, and do what the patches count on."""

import asyncio
import inspect
from typing import Any

import pytest
from autobahn.websocket.protocol import WebSocketProtocol as AutobahnProtocol
from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol

from studio import daphne_fixes
from studio.daphne_fixes import Pace
from studio.protocol import MESSAGE_MAX_BYTES

METHODS = [
    (WebSocketProtocol, "serverClose"),
    (WebSocketProtocol, "onConnect"),
    (WebSocketProtocol, "onOpen"),
    (Server, "handle_reply"),
    (Server, "run"),
    (Server, "kill_all_applications"),
]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The patches, taken back after the test."""
    for owner, name in METHODS:
        monkeypatch.setattr(owner, name, getattr(owner, name))

    async def end() -> None:
        pass

    daphne_fixes.install(lambda: None, end)


class Protocol:
    """What the patches use of a protocol."""

    def __init__(self) -> None:
        self.closed: list[Any] = []
        self.maxMessagePayloadSize = self.maxFramePayloadSize = 0
        self.failByDrop = True

    def sendCloseFrame(self, code: int) -> None:
        self.closed.append(("frame", code))

    def sendClose(self, code: int | None = None) -> None:
        self.closed.append(("autobahn", code))


@pytest.mark.parametrize(("owner", "name"), METHODS, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_patched_is_there(owner: type, name: str) -> None:
    assert inspect.isfunction(inspect.getattr_static(owner, name))


def test_autobahn_still_has_what_the_patches_use() -> None:
    assert "code" in inspect.signature(AutobahnProtocol.sendCloseFrame).parameters
    source = inspect.getsource(AutobahnProtocol)
    for name in ("maxMessagePayloadSize", "maxFramePayloadSize", "failByDrop"):
        assert name in source


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("code", [1001, 1009, 1011, 1013])
def test_a_server_may_close_with_the_codes_of_servers(code: int) -> None:
    protocol = Protocol()
    WebSocketProtocol.serverClose(protocol, code)
    assert protocol.closed == [("frame", code)]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("code", [1000, 4401, 4429])
def test_all_other_codes_go_the_usual_way(code: int) -> None:
    protocol = Protocol()
    WebSocketProtocol.serverClose(protocol, code)
    assert protocol.closed == [("autobahn", code)]


@pytest.mark.usefixtures("installed")
def test_frames_up_to_the_contracts_limit_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = Protocol()
    monkeypatch.setattr(daphne_fixes, "_connect", lambda _self, request: request)
    assert WebSocketProtocol.onConnect(protocol, "request") == "request"
    assert (protocol.maxMessagePayloadSize, protocol.maxFramePayloadSize) == (MESSAGE_MAX_BYTES, MESSAGE_MAX_BYTES)
    assert not protocol.failByDrop


@pytest.mark.usefixtures("installed")
async def test_a_send_waits_while_the_transport_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    async def reply(_self: Any, _protocol: Any, message: dict[str, Any]) -> None:
        sent.append(message["type"])

    monkeypatch.setattr(daphne_fixes, "_reply", reply)
    protocol = Protocol()
    protocol.studio_pace = Pace()
    protocol.studio_pace.pauseProducing()
    sending = asyncio.create_task(Server.handle_reply(None, protocol, {"type": "websocket.send"}))
    await Server.handle_reply(None, protocol, {"type": "websocket.close"})
    await asyncio.sleep(0)
    assert sent == ["websocket.close"], "a close is not held up by a full transport"
    protocol.studio_pace.resumeProducing()
    await sending
    assert sent == ["websocket.close", "websocket.send"]


class Request:
    """What the patches use of a request: Twisted's own part, on a channel that nobody reads."""

    def __init__(self) -> None:
        self.channel: Any = self
        self.producer: Any = None

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        assert streaming
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None


@pytest.mark.usefixtures("installed")
async def test_the_pieces_of_a_body_wait_while_the_transport_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    async def reply(_self: Any, _protocol: Any, message: dict[str, Any]) -> None:
        sent.append(message["body"])

    async def send(body: bytes, *, more: bool = True) -> None:
        message = {"type": "http.response.body", "body": body, "more_body": more}
        await Server.handle_reply(None, request, message)

    monkeypatch.setattr(daphne_fixes, "_reply", reply)
    request = Request()
    await send(b"first")
    request.producer.pauseProducing()
    sending = asyncio.create_task(send(b"second"))
    await asyncio.sleep(0)
    assert sent == [b"first"]
    request.producer.resumeProducing()
    await sending
    await send(b"last", more=False)
    assert sent == [b"first", b"second", b"last"]
    assert request.producer is None


@pytest.mark.usefixtures("installed")
async def test_a_body_for_a_connection_that_is_lost_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    async def reply(_self: Any, _protocol: Any, message: dict[str, Any]) -> None:
        sent.append(message["type"])

    monkeypatch.setattr(daphne_fixes, "_reply", reply)
    request = Request()
    request.channel = None
    await Server.handle_reply(None, request, {"type": "http.response.body", "body": b"", "more_body": True})
    assert sent == ["http.response.body"]


def test_a_transport_that_is_gone_holds_nobody_up() -> None:
    pace = Pace()
    pace.pauseProducing()
    pace.stopProducing()
    assert pace.writable.is_set()
