"""The AI SDK's smallest Node server. Its page stops an answer by closing the connection that reads it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from bench.peers.peer import ENVIRONMENTS, Peer, Unreplaced, served
from bench.subjects import Client, Stream, Token
from bench.upstream import Upstream
from tests.provider_script import directive

HERE = ENVIRONMENTS / "aisdk"


class AiSdk(Peer):
    name = "AI SDK, minimal Node server"

    @asynccontextmanager
    async def clients(self, count: int) -> AsyncIterator[list[Client]]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as http:
            yield [_Reader(http, self.base_url, self._upstream) for _ in range(count)]


@asynccontextmanager
async def running_aisdk(upstream: Upstream) -> AsyncIterator[Peer]:
    async with served(["node", "server.mjs"], HERE, "/", PROVIDER_URL=upstream.url) as (process, base_url):
        yield AiSdk(process, base_url, upstream)


class _Reader(Unreplaced):
    def __init__(self, http: aiohttp.ClientSession, base_url: str, upstream: Upstream):
        self._http, self._base_url, self._upstream = http, base_url, upstream

    async def ask(self, *, session: str | None = None, **orders: Any) -> Stream:
        id_ = self._upstream.new_id()
        body = {"messages": [{"role": "user", "content": directive(id=id_, **orders)}]}
        return _Answer(self._http, f"{self._base_url}/api/chat", body, id_)


class _Answer(Stream):
    def __init__(self, http: aiohttp.ClientSession, url: str, body: dict[str, Any], id_: str):
        self.id, self.asked_s = id_, time.monotonic()
        self._tokens: list[Token] = []
        self._first = asyncio.Event()
        self._reading = asyncio.create_task(self._read(http, url, body), name=f"peer:{id_}")

    async def _read(self, http: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
        async with http.post(url, json=body) as answer:
            async for line in answer.content:
                if line.startswith(b'data: {"type":"text-delta"'):
                    self._tokens.append((float(json.loads(line[6:])["delta"]), time.monotonic()))
                    self._first.set()

    def tokens(self) -> list[Token]:
        return self._tokens

    async def began(self) -> None:
        await self._first.wait()

    async def stop(self) -> float:
        ordered_s = time.monotonic()
        self._reading.cancel()
        return ordered_s

    async def ended(self) -> None:
        await asyncio.wait({self._reading})
