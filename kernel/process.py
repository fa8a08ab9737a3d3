"""Child processes that end with the call that started them. Pure.

`run_process` promises that nothing of the program outlives the call: it runs in a process group of its own, and however
the call ends, the whole group is ended. A program that moves its children to another session escapes this.
"""

import asyncio
import os
import signal as os_signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from kernel.abort import AbortSignal
from kernel.aio import to_the_end
from kernel.race import race

PROCESS_GRACE_S = 0.5  # from SIGTERM to SIGKILL; shorter than the grace of the tool that waits for it
MAX_STREAM_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessResult:
    """How the program ended by itself: its exit code, negative for a signal, and what it wrote, each capped."""

    code: int
    stdout: str
    stderr: str


async def run_process(
    *argv: str,
    signal: AbortSignal,
    timeout_s: float,
    input: str | bytes | None = None,  # noqa: A002  # subprocess's own word
    cwd: str | None = None,
) -> ProcessResult:
    """Run a program without a shell and wait for its end.

    On an abort, a cancellation or the limit in seconds, its group gets SIGTERM, and SIGKILL after `PROCESS_GRACE_S`.
    Raises `ExecutionAborted`, `asyncio.CancelledError`, `TimeoutError`, or OSError if the program cannot be started.
    """
    signal.raise_if_aborted()
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    spawn = asyncio.get_running_loop().subprocess_exec(_Child, *argv, stdin=stdin, cwd=cwd, start_new_session=True)
    # A cancel in the middle of the start would leave a process that nobody knows.
    (_, child), cancelled = await to_the_end(spawn)
    if not cancelled:
        child.feed(input)
        cancelled = await race(child.exited, signal, timeout_s)
    by_itself = child.exited.done()
    _, cancelled_again = await to_the_end(child.end())
    if cancelled or cancelled_again:
        raise asyncio.CancelledError
    if not by_itself:
        signal.raise_if_aborted()
        raise TimeoutError(f"{argv[0]!r} ran longer than {timeout_s:g} s.")
    return ProcessResult(code=child.exited.result(), stdout=child.output[1].text, stderr=child.output[2].text)


class _Child(asyncio.SubprocessProtocol):
    """One program. `exited` is its own end; `closed` is that of everybody who holds its pipes."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.output = {1: _Output(), 2: _Output()}

    def feed(self, data: str | bytes | None) -> None:
        stdin = cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(0))
        if data is not None and stdin is not None:
            stdin.write(data.encode() if isinstance(data, str) else data)
            stdin.write_eof()

    async def end(self) -> None:
        """End the group, first gently, and collect what is left in the pipes."""
        if not self.closed.done():
            self._signal(os_signal.SIGTERM)
            await asyncio.wait({self.closed}, timeout=PROCESS_GRACE_S)
        self._signal(os_signal.SIGKILL)
        await asyncio.wait({self.closed}, timeout=PROCESS_GRACE_S)
        self._transport.close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):  # the group is empty
            os.killpg(self._transport.get_pid(), number)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output[fd].add(data)

    def process_exited(self) -> None:
        self.exited.set_result(cast(int, self._transport.get_returncode()))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


class _Output:
    """What one pipe said, up to the cap; the rest is read and counted, so that the program isn't held up."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = 0

    def add(self, data: bytes) -> None:
        room = MAX_STREAM_BYTES - len(self._kept)
        self._kept += data[:room]
        self._cut += len(data[room:])

    @property
    def text(self) -> str:
        text = self._kept.decode("utf-8", "replace")
        return f"{text}\n[{self._cut} more bytes were cut.]" if self._cut else text
