"""Chainlit with one worker, over its own Socket.IO protocol, as its page speaks it."""

import asyncio
import json
import shutil
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from bench.peers.peer import ENVIRONMENTS, Peer, Unreplaced, served
from bench.subjects import Client, Stream, Token
from bench.upstream import Upstream
from tests.provider_script import directive

APP = Path(__file__).with_name("chainlit_app.py")
COMMAND = [str(ENVIRONMENTS / "chainlit/bin/chainlit"), "run", APP.name, "--headless", "--port", "{port}"]

# Of Engine.IO 4 and Socket.IO 5: the kinds of packet that are spoken here, as they begin a text frame.
OPEN, PING, PONG, CONNECT, EVENT = "0", "2", "3", "40", "42"


class Chainlit(Peer):
    name = "Chainlit 2.12, its guide's app made careful"

    @asynccontextmanager
    async def clients(self, count: int) -> AsyncIterator[list[Client]]:
        async with aiohttp.ClientSession() as http:
            pages = [await _Page.open(http, self.base_url, self._upstream) for _ in range(count)]
            try:
                yield list(pages)
            finally:
                await asyncio.gather(*(page.close() for page in pages))


@asynccontextmanager
async def running_chainlit(upstream: Upstream) -> AsyncIterator[Peer]:
    with TemporaryDirectory(prefix="bench-") as directory:  # it writes its configuration beside its application
        shutil.copy(APP, directory)
        async with served(COMMAND, Path(directory), "/health", PROVIDER_URL=upstream.url) as (process, base_url):
            yield Chainlit(process, base_url, upstream)


class _Page(Unreplaced):
    """One person's page: one answer at a time."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, upstream: Upstream):
        self._socket, self._upstream = socket, upstream
        self._answer: _Answer | None = None
        self._connected, self._idle = asyncio.Event(), asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name="peer:page")

    @classmethod
    async def open(cls, http: aiohttp.ClientSession, base_url: str, upstream: Upstream) -> "_Page":
        url = f"{base_url}/ws/socket.io/?EIO=4&transport=websocket"
        page = cls(await http.ws_connect(url, max_msg_size=0), upstream)
        await page._connected.wait()
        await page.emit("connection_successful")
        await page._idle.wait()
        return page

    async def ask(self, *, session: str | None = None, **orders: Any) -> Stream:
        id_ = self._upstream.new_id()
        message = {"id": str(uuid.uuid4()), "threadId": "", "name": "ann", "type": "user_message"}
        message |= {"output": directive(id=id_, **orders), "createdAt": "2026-01-01T00:00:00Z"}
        self._answer = _Answer(self, id_)
        await self.emit("client_message", {"message": message, "fileReferences": []})
        return self._answer

    async def emit(self, event: str, *data: Any) -> None:
        await self._socket.send_str(EVENT + json.dumps([event, *data]))

    async def close(self) -> None:
        await self._socket.close()
        self._reading.cancel()
        await asyncio.wait({self._reading})

    async def _read(self) -> None:
        async for packet in self._socket:
            text = packet.data
            if text.startswith(EVENT):
                event, *data = json.loads(text[len(EVENT) :])
                self._hear(event, data)
            elif text.startswith(CONNECT):
                self._connected.set()
            elif text.startswith(OPEN):
                hello = {"sessionId": str(uuid.uuid4()), "clientType": "webapp", "userEnv": "{}"}
                await self._socket.send_str(CONNECT + json.dumps({**hello, "chatProfile": "", "threadId": ""}))
            elif text.startswith(PING):
                await self._socket.send_str(PONG)

    def _hear(self, event: str, data: list[Any]) -> None:
        if self._answer is None:
            if event == "task_end":  # it says so at the beginning too
                self._idle.set()
        elif event == "stream_start":
            self._answer.hear(data[0]["output"])
        elif event == "stream_token":
            self._answer.hear(data[0]["token"])
        elif event == "task_end":
            self._answer.end()


class _Answer(Stream):
    def __init__(self, page: _Page, id_: str):
        self.id, self.asked_s = id_, time.monotonic()
        self._page = page
        self._tokens: list[Token] = []
        self._first, self._ended = asyncio.Event(), asyncio.Event()

    def hear(self, text: str) -> None:
        arrived_s = time.monotonic()
        if words := text.split():
            self._tokens += [(float(word), arrived_s) for word in words]
            self._first.set()

    def end(self) -> None:
        self._ended.set()

    def tokens(self) -> list[Token]:
        return self._tokens

    async def began(self) -> None:
        await self._first.wait()

    async def stop(self) -> float:
        ordered_s = time.monotonic()
        await self._page.emit("stop")
        return ordered_s

    async def ended(self) -> None:
        await self._ended.wait()
