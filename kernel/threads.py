"""Blocking work in a daemon thread of its own: a stuck one holds up neither other work nor the process's end. Pure."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T], *, name: str) -> "asyncio.Future[T]":
    """Start `work` with this context's variables; the future has what it returns or raises.

    Cancelling the future leaves the thread behind. Raises RuntimeError if there is no thread to be had.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if ended.done():  # cancelled: nobody waits any more
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(result)  # type: ignore[arg-type]  # without an error there is a result

    def body() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001  # a thread has nobody above it to tell
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=contextvars.copy_context().run, args=(body,), name=name, daemon=True).start()
    return ended
