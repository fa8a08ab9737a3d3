"""Two things about asyncio that the standard library leaves to us. Pure."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

FINISH_S = 5.0


async def to_the_end(coroutine: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """Await to the end whatever happens; return the result, and whether a cancellation came meanwhile.

    The caller decides what becomes of the cancellation; most raise it afterwards.
    """
    task = asyncio.ensure_future(coroutine)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return task.result(), cancelled


async def finish(coroutine: Coroutine[Any, Any, Any], timeout_s: float = FINISH_S) -> None:
    """Clean up to the end, for `timeout_s` at most, however often the caller is cancelled; then pass the cancel on.

    An error of the clean-up is not raised: what was being closed is closed by its owner's book at the latest.
    """
    task = asyncio.ensure_future(coroutine)
    _, cancelled = await to_the_end(_bounded(task, timeout_s))
    if cancelled:
        raise asyncio.CancelledError


async def _bounded(task: "asyncio.Future[Any]", timeout_s: float) -> None:
    await asyncio.wait({task}, timeout=timeout_s)
    if not task.done():
        task.cancel()
    elif not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it as lost
