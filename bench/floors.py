"""What the product is compared with: the driver straight at the provider, and litellm with nothing around it.

Both run in the driver's process.
"""

import asyncio
import gc
import json
import os
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp

from bench.subjects import Client, Stream, Subject, Token
from bench.upstream import Upstream
from kernel.llm import library, litellm_model
from tests.processes.harness import MODEL
from tests.provider_script import directive

Request = dict[str, Any]


class Direct(Subject):
    """The floor: nothing can be faster on this machine."""

    name = "floor: straight at the provider"
    pid = os.getpid()

    def __init__(self, upstream: Upstream):
        self._upstream = upstream

    @asynccontextmanager
    async def clients(self, count: int) -> AsyncIterator[list[Client]]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            yield [_DirectClient(self._upstream, http) for _ in range(count)]


class BareLitellm(Subject):
    """The library that speaks to providers for the product, alone: what all else costs is ours."""

    name = "litellm alone"
    pid = os.getpid()

    def __init__(self, upstream: Upstream):
        self._upstream = upstream

    @asynccontextmanager
    async def clients(self, count: int) -> AsyncIterator[list[Client]]:
        await litellm_model.warm()
        gc.collect()
        gc.freeze()  # else each full collection walks litellm's 200 MB and holds the driver up
        yield [_LitellmClient(self._upstream) for _ in range(count)]


class _LocalStream(Stream):
    def __init__(self, id_: str, texts: AsyncGenerator[str, None]):
        self.id, self.asked_s = id_, time.monotonic()
        self._tokens: list[Token] = []
        self._first = asyncio.Event()
        self._reading = asyncio.create_task(self._read(texts), name=f"stream:{id_}")

    async def _read(self, texts: AsyncGenerator[str, None]) -> None:
        async with aclosing(texts):
            async for text in texts:
                if text:
                    self._tokens.append((float(text), time.monotonic()))
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


class _LocalClient(Client):
    """The subclass says how it reads the answer to a request."""

    def __init__(self, upstream: Upstream):
        self._upstream = upstream

    @abstractmethod
    def _texts(self, request: Request) -> AsyncGenerator[str, None]: ...

    async def ask(self, *, session: str | None = None, **orders: Any) -> Stream:
        id_ = self._upstream.new_id()
        messages = [{"role": "user", "content": directive(id=id_, **orders)}]
        return _LocalStream(id_, self._texts({"model": "fake-model", "stream": True, "messages": messages}))

    async def replace(self, stream: Stream, **orders: Any) -> tuple[float, str]:
        ordered_s = await stream.stop()
        await stream.ended()
        return ordered_s, (await self.ask(**orders)).id


class _DirectClient(_LocalClient):
    def __init__(self, upstream: Upstream, http: aiohttp.ClientSession):
        super().__init__(upstream)
        self._http = http

    async def _texts(self, request: Request) -> AsyncGenerator[str, None]:
        async with self._http.post(f"{self._upstream.url}/chat/completions", json=request) as answer:
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])["choices"][0]["delta"].get("content", "")


class _LitellmClient(_LocalClient):
    async def _texts(self, request: Request) -> AsyncGenerator[str, None]:
        litellm = await library.load()
        provider = {"model": MODEL, "api_base": self._upstream.url, "api_key": "none", "max_retries": 0}
        chunks = await litellm.acompletion(**request | provider)
        try:
            async for chunk in chunks:
                yield chunk.choices[0].delta.content or ""
        finally:
            await chunks.aclose()
