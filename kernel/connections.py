"""The provider connections of one execution: booked when made, closed when it is aborted, counted as proof. Pure.

An iterator that is cancelled usually closes its connection; a stop must not depend on it. Whoever connects for an
execution writes each connection into the book of the current context, so that `Book.close()` can abort the transports
themselves, whatever the code above them is doing, and `Book.open` can tell whether anything was left.
"""

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

CURRENT: contextvars.ContextVar["Book | None"] = contextvars.ContextVar("connections of the execution", default=None)


class Bookable(Protocol):
    """A connection that can be booked: aiohttp's is one."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """The open transport, or None once the connection was released."""

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the connection is released or closed."""


class Book:
    """Which connections one execution holds. `closed` refuses new ones: an aborted execution asks no provider again."""

    def __init__(self) -> None:
        self._connections: set[Bookable] = set()
        self.closed = False

    @property
    def open(self) -> int:
        """How many connections are still open."""
        return len(list(self._transports()))

    def add(self, connection: Bookable) -> None:
        self._connections.add(connection)
        connection.add_callback(lambda: self._connections.discard(connection))

    def close(self) -> int:
        """Abort every open transport, refuse new ones, and return how many were open.

        The sockets are closed in the next iteration of the event loop, before any callback scheduled after this call.
        """
        self.closed = True
        transports = list(self._transports())
        for transport in transports:
            transport.abort()
        return len(transports)

    def _transports(self) -> Iterator[asyncio.Transport]:
        for connection in self._connections:
            transport = connection.transport
            if transport is not None and not transport.is_closing():
                yield transport


@contextmanager
def booked(book: Book) -> Iterator[None]:
    """Book on `book` what the current context connects to."""
    token = CURRENT.set(book)
    try:
        yield
    finally:
        CURRENT.reset(token)
