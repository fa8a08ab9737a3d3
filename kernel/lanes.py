"""Database work off the event loop: small thread pools with a connection kept per thread.

A whole transaction is one synchronous function. A caller that is cancelled returns at once while its function still
runs to the end: a write is never torn. Control has a lane of its own, so that a stop never waits behind a search, or
behind the writes of running text.
"""

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import DatabaseError, InterfaceError, connections

# What the database raises when it does not answer; InterfaceError is not a DatabaseError.
FAILURES = (DatabaseError, InterfaceError)

# A connection is looked at before it is used if it has rested for this long, or since another one was found dead.
REST_S = 0.5
_last = threading.local()
_found_dead_s = 0.0

P = ParamSpec("P")
T = TypeVar("T")


class Lane:
    """One pool of threads for database work."""

    def __init__(self, name: str, threads: int):
        self._name = name
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function` in a thread of this lane and return what it returns."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=f"{self._name}-db")
        future = self._pool.submit(_guarded, functools.partial(function, *args, **kwargs))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Wait for what is running, close the threads' connections and end them. The lane opens again when used."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        # One task per thread: each waits for the others, so that every thread closes its own connection.
        meet = threading.Barrier(self._threads)
        for _ in range(self._threads):
            pool.submit(_close_connection, meet)
        pool.shutdown(wait=True)


def _guarded(function: Callable[[], T]) -> T:
    _check_rested()
    try:
        return function()
    except FAILURES:
        _replace_broken()
        raise


def _check_rested() -> None:
    """After a restart of the database every connection is dead: one failure tells of all."""
    used_s = getattr(_last, "used_s", 0.0)
    _last.used_s = time.monotonic()
    if used_s < max(_found_dead_s, _last.used_s - REST_S):
        for connection in connections.all(initialized_only=True):
            connection.health_check_done = False  # type: ignore[attr-defined]  # the stubs do not know it
            connection.close_if_health_check_failed()


def _replace_broken() -> None:
    """A connection that broke is replaced before the next use; one that works is kept."""
    global _found_dead_s
    for connection in connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()
        if connection.connection is None:
            _found_dead_s = time.monotonic()


def _close_connection(meet: threading.Barrier) -> None:
    connections.close_all()
    meet.wait(timeout=10)


control = Lane("control", 4)  # admission, orders, ends, the lease
reads = Lane("reads", 3)  # what is shown, and what a turn must know
searches = Lane("searches", 1)  # what may take long, one at a time
writes = Lane("writes", 1)  # running answers
