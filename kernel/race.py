"""Waiting for work that may be called off from three sides. Pure."""

import asyncio
from typing import Any

from kernel.abort import AbortSignal


async def race(work: "asyncio.Future[Any]", signal: AbortSignal, timeout_s: float) -> bool:
    """Wait for `work`, the abort or the limit, whichever is first; `work` itself goes on.

    Return True if a cancellation ended the wait. It is the caller's to raise, once it has done what it owes.
    """
    called_off: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    forget = signal.listen(called_off.set_result)
    try:
        await asyncio.wait({work, called_off}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        return True
    finally:
        forget()
    return False
