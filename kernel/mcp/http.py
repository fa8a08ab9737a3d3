"""A server that is reached at an address, over streamable HTTP. Each request fails by itself, and in words.

The library lets one broken connection end the session with everything in it, and waits for as long as it takes until
a notice is taken. Here a failure becomes the answer to its own request, a notice gets `NOTICE_S`, and no answer is
larger than `MESSAGE_MAX_BYTES`.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from kernel.mcp.models import ServerConfig
from kernel.mcp.program import MESSAGE_MAX_BYTES

logger = logging.getLogger(__name__)

NOTICE_S = 2.0
# Our own codes, of the range that servers may use, for what no server said in the protocol's words.
REFUSED, UNREACHABLE = -32099, -32098
NOT_FOUND = 404  # the library knows what it means: an unknown method, or a session that is over


@asynccontextmanager
async def address(config: ServerConfig) -> AsyncIterator[Any]:
    """The transport of one server, as the library asks for it: a context manager of two streams."""
    # An answer may take as long as its call; the call's own limit ends it.
    timeout = httpx2.Timeout(config.connect_timeout_s, read=None)
    async with (
        _Client(headers={"accept-encoding": "identity", **dict(config.headers)}, timeout=timeout) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MESSAGE_MAX_BYTES) as streams,
    ):
        yield streams


class _Client(httpx2.AsyncClient):
    """An HTTP client that answers in the server's place where that fails to."""

    def build_request(self, method: Any, url: Any, **options: Any) -> httpx2.Request:
        message = options.get("json")
        if method == "DELETE" or (method == "POST" and "id" not in (message or {})):
            options["timeout"] = NOTICE_S
        request = super().build_request(method, url, **options)
        request.extensions["message"] = message
        return request

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            if request.method != "POST":
                raise
            return _answer(request, UNREACHABLE, f"cannot be reached ({type(error).__name__})")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()  # a few bytes can unfold to gigabytes
            return _answer(request, REFUSED, "answers in a packing that it was not asked for")
        if request.method == "POST":
            return await _checked(request, response)
        return response


async def _checked(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """The response, bounded; if it is a refusal that the library would not understand, one that it does."""
    is_json = response.headers.get("content-type", "").lower().startswith("application/json")
    if is_json:
        response.stream = _Bounded(response.stream)
    refused = response.status_code >= 400 and response.status_code != NOT_FOUND
    if refused and not (is_json and await _explains_itself(response)):
        await response.aclose()
        return _answer(request, REFUSED, f"answers {response.status_code} {response.reason_phrase}".strip())
    return response


async def _explains_itself(response: httpx2.Response) -> bool:
    """Whether the body says why, in the protocol's words."""
    try:
        await response.aread()
        return isinstance(response.json(), dict) and "error" in response.json()
    except (httpx2.StreamError, httpx2.HTTPError, ValueError):
        return False


def _answer(request: httpx2.Request, code: int, why: str) -> httpx2.Response:
    message = request.extensions["message"] or {}
    error = {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": why}}
    return httpx2.Response(503, json=error, request=request)


class _Bounded(httpx2.AsyncByteStream):
    """A body of a size that can be read."""

    def __init__(self, stream: Any):
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MESSAGE_MAX_BYTES:
                raise httpx2.StreamError("it answers more than any message may be")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
