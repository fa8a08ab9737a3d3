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


def test_a_transport_that_is_gone_holds_nobody_up() -> None:
    pace = Pace()
    pace.pauseProducing()
    pace.stopProducing()
    assert pace.writable.is_set()
