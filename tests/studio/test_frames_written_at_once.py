"""A text frame goes straight to the kernel, whole and in order, whatever the kernel takes of it."""

import json
from typing import Any

import pytest
from autobahn.websocket.protocol import WebSocketProtocol as AutobahnProtocol
from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.tcp import Connection
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from studio import daphne_fixes
from studio.daphne_fixes import Pace, text_frame

LENGTHS = [0, 1, 125, 126, 65535, 65536, 1 << 20]


class Transport(Connection):
    """A connection whose kernel takes `room` bytes; `taken` is what it took, `left` what went the usual way."""

    TLS = False

    def __init__(self, room: float = float("inf")):
        self.dataBuffer, self._tempDataBuffer = b"", []
        self.taken, self.left = b"", b""
        self.room: float = room
        self.lost = False

    def writeSomeData(self, data: bytes) -> int | Exception:
        if self.lost:
            return CONNECTION_LOST
        took = data[: int(min(len(data), self.room))]
        self.taken += took
        self.room -= len(took)
        return len(took)

    def write(self, data: bytes) -> None:
        self.left += data
        self._tempDataBuffer.append(data)


class Protocol:
    """What a send needs of a protocol."""

    state = WebSocketProtocol.STATE_OPEN
    _perMessageCompress: Any = None

    def __init__(self, transport: Transport):
        self.transport = transport
        self.studio_pace = Pace()
        self.send_queue: list[Any] = []


async def send(protocol: Protocol, text: str) -> None:
    await daphne_fixes._handle_reply(None, protocol, {"type": "websocket.send", "text": text})


def read(data: bytes) -> list[str]:
    """The texts of the frames in `data`, as another implementation reads them."""
    reader, texts = StreamReader(), []
    reader.feed_data(data)
    reader.feed_eof()
    while reader.buffer:
        parsing = Frame.parse(reader.read_exact, mask=False)
        with pytest.raises(StopIteration) as ended:
            next(parsing)
        frame = ended.value.value
        assert (frame.fin, frame.opcode) == (True, Opcode.TEXT)
        texts.append(bytes(frame.data).decode())
    return texts


@pytest.mark.parametrize("length", LENGTHS)
def test_a_frame_of_any_length_is_read_by_another_implementation(length: int) -> None:
    assert read(text_frame("x" * length)) == ["x" * length]


def test_a_length_is_of_bytes() -> None:
    assert read(text_frame("é" * 100)) == ["é" * 100]


async def test_what_the_kernel_takes_needs_no_turn_of_the_loop() -> None:
    transport = Transport()
    await send(Protocol(transport), "hello")
    assert (read(transport.taken), transport.left) == (["hello"], b"")


@pytest.mark.parametrize("room", [0, 1, 3, 6])
async def test_what_the_kernel_does_not_take_follows_and_nothing_overtakes_it(room: int) -> None:
    transport = Transport(room)
    protocol = Protocol(transport)
    await send(protocol, "hello")
    transport.room = float("inf")
    await send(protocol, "world")
    assert read(transport.taken + transport.left) == ["hello", "world"]
    assert len(transport.taken) == room


async def test_a_connection_that_is_lost_is_left_to_the_reactor() -> None:
    transport = Transport()
    transport.lost = True
    await send(Protocol(transport), "hello")
    assert read(transport.left) == ["hello"]


async def test_a_connection_with_tls_goes_the_usual_way() -> None:
    transport = Transport()
    transport.TLS = True
    await send(Protocol(transport), "hello")
    assert (transport.taken, read(transport.left)) == (b"", ["hello"])


@pytest.mark.parametrize(
    ("name", "value"),
    [("state", WebSocketProtocol.STATE_CLOSED), ("_perMessageCompress", object()), ("send_queue", [b"before"])],
)
async def test_whatever_is_not_plain_is_left_to_autobahn(
    name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replied = []

    async def reply(*given: Any) -> None:
        replied.append(given[2]["text"])

    monkeypatch.setattr(daphne_fixes, "_reply", reply)
    protocol = Protocol(Transport())
    setattr(protocol, name, value)
    await send(protocol, "hello")
    assert replied == ["hello"]
    assert protocol.transport.taken == protocol.transport.left == b""


def test_autobahn_and_twisted_still_have_what_this_counts_on() -> None:
    source = json.dumps(AutobahnProtocol.sendData.__code__.co_names)
    assert "send_queue" in source
    assert "_perMessageCompress" in AutobahnProtocol.sendMessage.__code__.co_names
    assert {"dataBuffer", "_tempDataBuffer"} <= set(Connection.doWrite.__code__.co_names)
    assert "SEND_LIMIT" in Connection.writeSomeData.__code__.co_names
    assert hasattr(Server, "handle_reply")
