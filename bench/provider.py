"""A provider that costs next to nothing, as a process of its own: `python -m bench.provider`.

It streams tokens at an even pace. Each token's text is the CLOCK_MONOTONIC second at which it was sent, so whoever
receives it knows how long it was under way. When a request came, when its first token went out and when its connection
closed is told on standard output, one JSON line each. Orders are those of the tests' provider: `id`, `n`, `rate`, and
`hold`, the number of the token before which a stream waits. A line on standard input lets all that wait go on.
"""

import asyncio
import json
import os
import random
import sys
import time
from contextlib import suppress
from typing import Any

from tests.provider_script import script_of

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def tell(event: str, id_: str, **more: Any) -> None:
    os.write(1, json.dumps({"event": event, "id": id_, "at": time.monotonic(), **more}).encode() + b"\n")


class Gate:
    """Where held streams wait for the next line on standard input."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()

    async def wait(self) -> None:
        await self._opened.wait()

    def listen(self) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._open)

    def _open(self) -> None:
        if not os.read(sys.stdin.fileno(), 1024):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._opened.set()
        self._opened = asyncio.Event()


class Connection(asyncio.Protocol):
    """One connection; it serves one request after the other."""

    def __init__(self, gate: "Gate") -> None:
        self._gate = gate
        self._received = b""
        self._answering: asyncio.Task[None] | None = None
        self._open_id: str | None = None  # the request that is being answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if end and len(body) >= (size := _content_length(head)):
            self._received = body[size:]
            self._answering = asyncio.create_task(self._answer(json.loads(body[:size])))

    def eof_received(self) -> None:
        self._gone()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()

    def _gone(self) -> None:
        if self._open_id is not None:
            tell("closed", self._open_id)
            self._open_id = None
        if self._answering is not None:
            self._answering.cancel()

    async def _answer(self, request: dict[str, Any]) -> None:
        script = script_of(request["messages"])
        self._open_id = script.id
        tell("arrived", script.id)
        self._transport.write(HEAD)
        before, after = _event({"content": "@"}).split(b"@")
        started = time.monotonic()
        for number in range(script.n):
            if number == script.hold:
                await self._gate.wait()
                # Streams that go on together are not in step.
                started = time.monotonic() + (random.random() - number) / script.rate
            if script.rate:
                await asyncio.sleep(max(0.0, started + number / script.rate - time.monotonic()))
            self._chunk(before + b"%.5f " % time.monotonic() + after)
            if number == 0:
                tell("first", script.id)
        self._chunk(_event({}, "stop"))
        self._transport.write(LAST)
        self._open_id = None
        tell("finished", script.id)

    def _chunk(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


def _event(delta: dict[str, str], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": reason}
    chunk = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "fake-model"}
    return b"data: " + json.dumps({**chunk, "choices": [choice]}).encode() + b"\n\n"


async def _main() -> None:
    gate = Gate()
    gate.listen()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(gate), "127.0.0.1", 0, backlog=1024)
    tell("listening", "", port=server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_main())
