"""What one socket is sent: all of it, in order; and a socket that takes nothing costs a bounded amount."""

import asyncio
from typing import Any

import pytest

from kernel.hub import Frame
from studio import outbox as outbox_module
from studio.outbox import Outbox
from tests.fakes import Gate
from tests.waiting import READY_TIMEOUT_S


class Socket:
    """Takes what it is sent, unless it waits at its gate."""

    def __init__(self, gate: Gate | None = None):
        self.sent: list[dict[str, Any]] = []
        self.overflows = 0
        self._gate = gate
        self.outbox = Outbox(self.send, self.overflow)

    async def send(self, message: dict[str, Any]) -> None:
        if self._gate is not None:
            await self._gate.wait()
        self.sent.append(message)

    def overflow(self) -> None:
        self.overflows += 1

    @property
    def texts(self) -> list[str]:
        return [message["text"] for message in self.sent if message["type"] == "websocket.send"]

    async def run(self) -> None:
        async with asyncio.timeout(READY_TIMEOUT_S):
            await self.outbox.run()


async def test_frames_are_sent_in_the_order_in_which_they_were_put() -> None:
    socket = Socket()
    for number in range(5):
        if number % 2:
            socket.outbox.put_data({"n": number})
        else:
            socket.outbox.put(Frame({"n": number}))
    socket.outbox.end(1001)
    await socket.run()
    assert socket.texts == [f'{{"n":{number}}}' for number in range(5)]


async def test_what_comes_while_it_sends_is_sent_too() -> None:
    gate = Gate()
    socket = Socket(gate)
    running = asyncio.create_task(socket.run())
    socket.outbox.put_data({"n": 1})
    await gate.reached.wait()
    socket.outbox.put_data({"n": 2})
    gate.open()
    socket.outbox.end(1001)
    await running
    assert socket.texts == ['{"n":1}', '{"n":2}']


async def test_the_end_sends_what_waits_and_then_closes_with_its_code() -> None:
    socket = Socket()
    socket.outbox.put_data({"n": 1})
    socket.outbox.end(1001)
    socket.outbox.put_data({"n": 2})
    await socket.run()
    assert socket.sent == [
        {"type": "websocket.send", "text": '{"n":1}'},
        {"type": "websocket.close", "code": 1001},
    ]


async def test_a_drop_sends_nothing_more() -> None:
    socket = Socket()
    socket.outbox.put_data({"n": 1})
    socket.outbox.drop()
    socket.outbox.put_data({"n": 2})
    await socket.run()
    assert socket.sent == []


@pytest.mark.parametrize(("name", "limit"), [("OUTBOX_MAX_FRAMES", 3), ("OUTBOX_MAX_CHARS", 21)])
async def test_a_socket_that_takes_nothing_is_given_up_once(
    name: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, name, limit)
    socket = Socket()
    for number in range(10):
        socket.outbox.put_data({"n": number})
    assert socket.overflows == 1
    await socket.run()
    assert socket.sent == [], "a stream with a hole would be worse than none"


async def test_one_large_frame_is_not_an_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "OUTBOX_MAX_CHARS", 10)
    socket = Socket()
    socket.outbox.put_data({"text": "x" * 1000})
    socket.outbox.end(1001)
    await socket.run()
    assert socket.overflows == 0
    assert len(socket.texts) == 1


async def test_a_socket_that_takes_its_frames_never_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "OUTBOX_MAX_FRAMES", 3)
    monkeypatch.setattr(outbox_module, "OUTBOX_MAX_CHARS", 30)
    socket = Socket()
    running = asyncio.create_task(socket.run())
    for number in range(50):
        socket.outbox.put_data({"n": number})
        for _ in range(3):
            await asyncio.sleep(0)
    socket.outbox.end(1001)
    await running
    assert (len(socket.texts), socket.overflows) == (50, 0)
