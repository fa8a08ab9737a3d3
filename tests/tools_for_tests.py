"""Tools that the process tests offer through STUDIO_TOOLS: fast, slow, in a thread, failing, deaf to cancellation,
with a child process."""

import asyncio
import time

from kernel.abort import AbortSignal
from kernel.process import run_process
from kernel.tools import tool


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool
async def wait_async(seconds: float) -> str:
    """Wait on the event loop."""
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


@tool
def wait_in_thread(seconds: float) -> str:
    """Block a thread."""
    time.sleep(seconds)
    return f"blocked {seconds}"


@tool
async def wait_deaf(seconds: float) -> str:
    """Wait, and swallow the first cancellation, as careless code does."""
    until = time.monotonic() + seconds
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(until - time.monotonic())
    return f"waited {seconds} without listening"


@tool
async def fail(text: str) -> str:
    """Raise an error."""
    raise RuntimeError(text)


@tool
async def run_child(pid_file: str, signal: AbortSignal) -> str:
    """Run a program that starts another, whose id it writes, and waits for it."""
    script = 'sleep 600 & echo $! > "$0"; wait'
    result = await run_process("sh", "-c", script, pid_file, signal=signal, timeout_s=600)
    return result.stdout
