"""Child processes end with the call that started them."""

import asyncio
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel import process
from kernel.abort import AbortController, AbortReason, AbortSignal, ExecutionAborted
from kernel.process import run_process
from tests.waiting import READY_TIMEOUT_S


async def ready(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), READY_TIMEOUT_S)


class PidPipe:
    """A named pipe into which a script writes the id of a process."""

    def __init__(self, path: Path):
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    async def read(self) -> int:
        written = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, written.set)
        await ready(written)
        loop.remove_reader(self._fd)
        return int(os.read(self._fd, 100))

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def pid_pipe(tmp_path: Path) -> Iterator[PidPipe]:
    pipe = PidPipe(tmp_path / "pid")
    yield pipe
    pipe.close()


def ends(pid: int) -> bool:
    """Whether the process has ended, or is about to."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], READY_TIMEOUT_S)[0])
    finally:
        os.close(handle)


def children() -> set[int]:
    """The processes that this one has started and not yet buried."""
    return {int(pid) for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()}


class TestProcess:
    @pytest.fixture
    def signal(self) -> AbortSignal:
        return AbortController().signal

    async def test_it_returns_what_the_program_wrote_and_its_code(self, signal: AbortSignal) -> None:
        script = "cat; echo problem >&2; exit 3"
        result = await run_process("sh", "-c", script, signal=signal, timeout_s=READY_TIMEOUT_S, input="привет")
        assert (result.code, result.stdout, result.stderr) == (3, "привет", "problem\n")

    async def test_long_output_is_read_to_its_end_and_cut(
        self, signal: AbortSignal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process, "MAX_STREAM_BYTES", 10)
        result = await run_process("sh", "-c", "yes | head -c 300000", signal=signal, timeout_s=READY_TIMEOUT_S)
        assert (result.code, result.stdout) == (0, "y\n" * 5 + "\n[299990 more bytes were cut.]")

    async def test_a_program_that_does_not_exist_is_an_os_error(self, signal: AbortSignal) -> None:
        with pytest.raises(FileNotFoundError):
            await run_process("no-such-program", signal=signal, timeout_s=READY_TIMEOUT_S)

    async def test_after_an_abort_nothing_is_started(self) -> None:
        controller = AbortController()
        controller.abort(AbortReason.SESSION_STOP)
        with pytest.raises(ExecutionAborted):
            await run_process("true", signal=controller.signal, timeout_s=READY_TIMEOUT_S)

    async def test_the_limit_ends_the_whole_group(self, signal: AbortSignal, pid_pipe: PidPipe) -> None:
        with pytest.raises(TimeoutError):
            await run_process("sh", "-c", f"sleep 300 & echo $! > {pid_pipe.path}; wait", signal=signal, timeout_s=0.5)
        assert ends(await pid_pipe.read())

    async def test_what_a_program_leaves_behind_ends_with_it(self, signal: AbortSignal, pid_pipe: PidPipe) -> None:
        script = f"sleep 300 & echo $! > {pid_pipe.path}; echo done"
        result = await run_process("sh", "-c", script, signal=signal, timeout_s=READY_TIMEOUT_S)
        assert result.stdout == "done\n"
        assert ends(await pid_pipe.read())

    @pytest.mark.parametrize("how", ["cancel", "abort"])
    async def test_a_stop_ends_a_group_that_ignores_sigterm(
        self, how: str, pid_pipe: PidPipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process, "PROCESS_GRACE_S", 0.05)
        controller = AbortController()
        script = f"trap '' TERM; sleep 300 & echo $! > {pid_pipe.path}; wait"
        running = run_process("sh", "-c", script, signal=controller.signal, timeout_s=READY_TIMEOUT_S)
        task = asyncio.create_task(running)
        pid = await pid_pipe.read()
        if how == "cancel":
            task.cancel()
        else:
            controller.abort(AbortReason.SESSION_STOP)
        with pytest.raises(asyncio.CancelledError if how == "cancel" else ExecutionAborted):
            await asyncio.wait_for(task, READY_TIMEOUT_S)
        assert ends(pid)

    async def test_a_cancellation_during_the_start_leaves_no_process(self, signal: AbortSignal) -> None:
        before = children()
        task = asyncio.create_task(run_process("sleep", "300", signal=signal, timeout_s=READY_TIMEOUT_S))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=READY_TIMEOUT_S)
        assert task.cancelled()
        assert all(ends(pid) for pid in children() - before)
