"""aiohttp's connector, booking each connection on the execution that asked for it (see kernel.connections)."""

import asyncio
import contextvars
from collections.abc import Callable

import aiohttp
from aiohttp import ClientRequest, ClientTimeout
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from kernel.connections import CURRENT

KEEP_ALIVE_S = 15.0
DNS_CACHE_S = 300

# Whoever sets it is handed the requests of this context, and none of them is sent.
WATCHED: contextvars.ContextVar[Callable[[ClientRequest], None] | None] = contextvars.ContextVar(
    "requests that are only looked at", default=None
)


class NeverSent(aiohttp.ClientConnectionError):
    """The request was only to be looked at."""


class BookingConnector(aiohttp.TCPConnector):
    """A TCP connector that books each connection, new or reused, on the current context's book."""

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        if (watch := WATCHED.get()) is not None:
            watch(req)
            raise NeverSent
        book = CURRENT.get()
        if book is not None and book.closed:
            raise aiohttp.ClientConnectionError("The execution was aborted; it asks no provider again.")
        connection = await super().connect(req, traces, timeout)
        if book is None:
            return connection
        book.add(connection)
        if book.closed:  # closed while the connection was being made
            book.close()
            connection.close()
            raise aiohttp.ClientConnectionError("The execution was aborted while it was connecting.")
        return connection


_session: tuple[asyncio.AbstractEventLoop, aiohttp.ClientSession] | None = None


def booked_session() -> aiohttp.ClientSession:
    """The session of the running event loop, for requests that we make ourselves. Call it on the loop."""
    global _session
    loop = asyncio.get_running_loop()
    if _session is None or _session[0] is not loop or _session[1].closed:
        connector = BookingConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S, ttl_dns_cache=DNS_CACHE_S)
        # Without limits of time: the run's own clocks are the ones that count.
        session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=ClientTimeout(total=None)
        )
        _session = loop, session
    return _session[1]


async def close_session() -> None:
    """Close the session and the connections that it keeps alive; the next request makes another."""
    global _session
    if _session is not None:
        _, session = _session
        _session = None
        await session.close()
