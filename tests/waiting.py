"""The one patience of all tests: everything is waited for, and nothing is waited for longer than this."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

READY_TIMEOUT_S = 20.0
LOOK_S = 0.02

T = TypeVar("T")


async def eventually(look: Callable[[], T], timeout_s: float = READY_TIMEOUT_S) -> T:
    """Look until it returns something true; return that. For what tells nobody of its changes: files, rows."""
    give_up = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > give_up:
            raise TimeoutError(f"still {found!r} after {timeout_s} s")
        await asyncio.sleep(LOOK_S)
    return found
