"""The runner: whatever happens to the work, one end is written, it is the true one, and nothing is left open."""

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel import runner
from kernel.abort import AbortReason, TimeoutKind
from kernel.aio import finish
from kernel.clocks import Limits
from kernel.connections import CURRENT
from kernel.llm.model import ModelError
from kernel.registry import Execution
from kernel.runner import Outcome, Status
from tests.fakes import Gate
from tests.waiting import READY_TIMEOUT_S

FOREVER = Limits(total_s=3600, first_token_s=3600, idle_s=3600)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same waits, in a hurry."""
    monkeypatch.setattr(runner, "REASSERT_S", 0.002)
    monkeypatch.setattr(runner, "SETTLE_RETRY_S", (0.0, 0.001))


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what never ends; everything else has all the time that it needs."""
    monkeypatch.setattr(runner, "GRACE_S", 0.05)


class Ledger:
    """A settle that remembers. The first `failures` calls raise; `written` is what the others return."""

    def __init__(self, *, failures: int = 0, written: bool = True, gate: Gate | None = None):
        self.calls: list[Outcome] = []
        self._failures = failures
        self._written = written
        self._gate = gate

    async def settle(self, outcome: Outcome) -> bool:
        self.calls.append(outcome)
        if self._gate is not None:
            await self._gate.wait()
        if len(self.calls) <= self._failures:
            raise ConnectionError("the database is away")
        return self._written

    @property
    def outcome(self) -> Outcome:
        [outcome] = self.calls
        return outcome


def begin(work: Any, ledger: Ledger, limits: Limits = FOREVER) -> Execution:
    execution = Execution(id="e")
    runner.start(execution, work, ledger.settle, limits)
    return execution


def task_named(name: str) -> asyncio.Task[Any]:
    [task] = [task for task in asyncio.all_tasks() if task.get_name() == name]
    return task


async def end_of(execution: Execution) -> None:
    assert execution.keeper is not None
    async with asyncio.timeout(READY_TIMEOUT_S):
        await execution.ended.wait()
        await asyncio.wait({execution.keeper})


async def silence() -> None:
    await asyncio.Event().wait()


class Transport:
    """A transport that closes when it is aborted, as the loop does it: not before its next iteration."""

    def __init__(self, *, closes: bool = True):
        self.aborts = 0
        self._closes = closes
        self._closing = False

    def abort(self) -> None:
        self.aborts += 1
        if self._closes:
            self._closing = True

    def is_closing(self) -> bool:
        return self._closing


class Connection:
    def __init__(self, transport: Transport):
        self.transport = transport

    def add_callback(self, callback: Any) -> None:
        pass


# An end without an abort


async def test_work_that_returns_completes_with_its_value() -> None:
    async def work() -> str:
        return "stop"

    ledger = Ledger()
    await end_of(begin(work, ledger))
    assert ledger.outcome == Outcome(status=Status.COMPLETED, value="stop")


async def test_an_error_written_for_people_is_told_as_it_is() -> None:
    async def work() -> None:
        raise ModelError("Check the key.")

    ledger = Ledger()
    await end_of(begin(work, ledger))
    assert (ledger.outcome.status, ledger.outcome.error) == (Status.ERROR, "Check the key.")


async def test_any_other_error_is_told_without_what_it_says() -> None:
    async def work() -> None:
        raise RuntimeError("password=hunter2")

    ledger = Ledger()
    await end_of(begin(work, ledger))
    assert ledger.outcome.status is Status.ERROR
    assert "hunter2" not in ledger.outcome.error
    assert "RuntimeError" in ledger.outcome.error


async def test_a_cancel_of_the_work_that_is_not_ours_is_an_error_and_never_an_abort() -> None:
    ledger = Ledger()
    execution = begin(silence, ledger)
    await asyncio.sleep(0)
    task_named("work:e").cancel()
    await end_of(execution)
    assert ledger.outcome.status is Status.ERROR
    assert ledger.outcome.abort is None
    assert "cancelled from outside" in ledger.outcome.error


async def test_work_that_cancels_itself_is_an_error_and_never_an_abort() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    ledger = Ledger()
    await end_of(begin(work, ledger))
    assert (ledger.outcome.status, ledger.outcome.abort) == (Status.ERROR, None)


# An abort in each state of the work


async def test_an_abort_before_the_first_step_lets_the_work_do_nothing() -> None:
    did: list[str] = []

    async def work() -> None:
        did.append("something")

    ledger = Ledger()
    execution = begin(work, ledger)
    execution.controller.abort("session_stop", by="ann")
    await end_of(execution)
    assert did == []
    assert ledger.outcome.status is Status.ABORTED
    assert ledger.outcome.abort is execution.signal.abort


async def test_an_abort_before_the_start_lets_the_work_do_nothing() -> None:
    did: list[str] = []

    async def work() -> None:
        did.append("something")

    execution, ledger = Execution(id="e"), Ledger()
    execution.controller.abort("session_stop")
    runner.start(execution, work, ledger.settle, FOREVER)
    await end_of(execution)
    assert did == []
    assert ledger.outcome.status is Status.ABORTED


async def test_an_abort_ends_the_await_that_the_work_is_in() -> None:
    gate, ended_by = Gate(), []

    async def work() -> None:
        try:
            await gate.wait()
        except asyncio.CancelledError as error:
            ended_by.append(error)
            raise

    ledger = Ledger()
    execution = begin(work, ledger)
    await gate.reached.wait()
    execution.controller.abort("panic_stop")
    await end_of(execution)
    assert len(ended_by) == 1
    assert ledger.outcome.status is Status.ABORTED
    assert ledger.outcome.abort.reason is AbortReason.PANIC_STOP
    assert ledger.outcome.upstream_closed_ms is not None
    assert not ledger.outcome.stuck


async def test_the_end_waits_for_work_that_cleans_up_slowly() -> None:
    reached, cleaning = Gate(), Gate()

    async def work() -> None:
        try:
            await reached.wait()
        finally:
            await finish(cleaning.wait())

    ledger = Ledger()
    execution = begin(work, ledger)
    await reached.reached.wait()
    execution.controller.abort("session_stop")
    await cleaning.reached.wait()
    assert ledger.calls == []
    cleaning.open()
    await end_of(execution)
    assert ledger.outcome.status is Status.ABORTED
    assert not ledger.outcome.stuck


async def test_work_that_swallows_a_cancel_is_cancelled_again() -> None:
    cancels = 0

    async def work() -> None:
        nonlocal cancels
        while True:
            try:
                await silence()
            except asyncio.CancelledError:
                cancels += 1
                if cancels == 3:
                    raise

    ledger = Ledger()
    execution = begin(work, ledger)
    await asyncio.sleep(0)
    execution.controller.abort("session_stop")
    await end_of(execution)
    assert cancels == 3
    assert ledger.outcome.status is Status.ABORTED
    assert not ledger.outcome.stuck


async def test_work_that_swallows_the_cancel_and_returns_is_aborted_all_the_same() -> None:
    async def work() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await silence()
        return "a value that nobody may see"

    ledger = Ledger()
    execution = begin(work, ledger)
    await asyncio.sleep(0)
    execution.controller.abort("session_stop")
    await end_of(execution)
    assert ledger.outcome.status is Status.ABORTED
    assert ledger.outcome.value is None


@pytest.mark.usefixtures("short_grace")
async def test_work_that_swallows_every_cancel_is_left_alone_after_the_grace() -> None:
    released, transport = asyncio.Event(), Transport()

    async def work() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    ledger = Ledger()
    execution = begin(work, ledger)
    execution.book.add(Connection(transport))
    await asyncio.sleep(0)
    execution.controller.abort("session_stop")
    await end_of(execution)
    assert ledger.outcome.status is Status.ABORTED
    assert ledger.outcome.stuck
    assert ledger.outcome.upstream_closed_ms is not None, "its connection is closed, stuck or not"
    assert transport.is_closing()
    assert execution.book.closed
    released.set()
    await asyncio.wait({task_named("work:e")})
    assert len(ledger.calls) == 1


async def test_an_error_of_the_works_own_after_an_abort_is_still_the_abort() -> None:
    async def work() -> None:
        try:
            await silence()
        except asyncio.CancelledError:
            raise ModelError("The connection was lost.") from None

    ledger = Ledger()
    execution = begin(work, ledger)
    await asyncio.sleep(0)
    execution.controller.abort("session_stop")
    await end_of(execution)
    assert (ledger.outcome.status, ledger.outcome.error) == (Status.ABORTED, "")


async def test_an_abort_in_the_instant_of_the_last_await_wins() -> None:
    last: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        await last
        return "done"

    ledger = Ledger()
    execution = begin(work, ledger)
    await asyncio.sleep(0)
    last.set_result(None)
    assert execution.controller.abort("session_stop")
    await end_of(execution)
    assert ledger.outcome.status is Status.ABORTED


async def test_an_abort_that_the_work_itself_decides_wins_over_its_value() -> None:
    execution, ledger = Execution(id="e"), Ledger()

    async def work() -> str:
        execution.controller.abort("panic_stop", source="hold")
        return "done"

    runner.start(execution, work, ledger.settle, FOREVER)
    await end_of(execution)
    assert ledger.outcome.status is Status.ABORTED


async def test_a_second_stop_changes_neither_reason_nor_author() -> None:
    ledger = Ledger()
    execution = begin(silence, ledger)
    execution.controller.abort("session_stop", by="ann")
    execution.controller.abort("panic_stop", by="bob")
    await end_of(execution)
    assert (ledger.outcome.abort.reason, ledger.outcome.abort.by) == (AbortReason.SESSION_STOP, "ann")


async def test_a_stop_after_the_completion_is_silent() -> None:
    async def work() -> None:
        pass

    gate = Gate()
    ledger = Ledger(gate=gate)
    execution = begin(work, ledger)
    await gate.reached.wait()
    assert not execution.controller.abort("session_stop"), "while the end is being written"
    gate.open()
    await end_of(execution)
    assert not execution.controller.abort("session_stop"), "afterwards"
    assert ledger.outcome.status is Status.COMPLETED
    assert not execution.signal.aborted


async def test_an_abort_in_the_instant_after_a_failure_comes_too_late() -> None:
    decided: list[bool] = []

    async def work() -> None:
        raise ModelError("broken")

    ledger = Ledger()
    execution = begin(work, ledger)
    task_named("work:e").add_done_callback(lambda _: decided.append(execution.controller.abort("session_stop")))
    await end_of(execution)
    assert decided == [False]
    assert (ledger.outcome.status, execution.signal.aborted) == (Status.ERROR, False)


async def test_an_abort_of_work_that_was_cancelled_before_its_first_step_comes_too_late() -> None:
    gate = Gate()
    ledger = Ledger(gate=gate)
    execution = begin(silence, ledger)
    task_named("work:e").cancel()
    await gate.reached.wait()
    assert not execution.controller.abort("session_stop")
    gate.open()
    await end_of(execution)
    assert ledger.outcome.status is Status.ERROR


async def test_the_total_clock_ends_the_run_as_a_timeout() -> None:
    ledger = Ledger()
    execution = begin(silence, ledger, Limits(total_s=0.001, first_token_s=3600, idle_s=3600))
    await end_of(execution)
    abort = ledger.outcome.abort
    assert (abort.reason, abort.timeout_kind, abort.source) == (AbortReason.TIMEOUT, TimeoutKind.TOTAL, "clock")


# The provider's connection


async def test_the_work_books_its_connections_on_its_execution() -> None:
    books = []

    async def work() -> None:
        books.append(CURRENT.get())

    execution = begin(work, Ledger())
    await end_of(execution)
    assert books == [execution.book]
    assert CURRENT.get() is None


async def test_an_abort_closes_the_connections_before_it_returns() -> None:
    transport = Transport()
    ledger = Ledger()
    execution = begin(silence, ledger)
    execution.book.add(Connection(transport))
    execution.controller.abort("session_stop")
    assert transport.aborts == 1
    await end_of(execution)


@pytest.mark.usefixtures("short_grace")
async def test_a_connection_that_does_not_close_is_closed_again_and_never_called_closed() -> None:
    transport = Transport(closes=False)
    ledger = Ledger()
    execution = begin(silence, ledger)
    execution.book.add(Connection(transport))
    await asyncio.sleep(0)
    execution.controller.abort("session_stop")
    await end_of(execution)
    assert transport.aborts > 2
    assert ledger.outcome.status is Status.ABORTED
    assert ledger.outcome.upstream_closed_ms is None


# The written end


async def test_the_end_is_confirmed_only_when_it_is_written() -> None:
    gate = Gate()
    ledger = Ledger(gate=gate)
    execution = begin(silence, ledger)
    execution.controller.abort("session_stop")
    await gate.reached.wait()
    assert not execution.ended.is_set()
    gate.open()
    await end_of(execution)


async def test_an_end_that_cannot_be_written_is_tried_again_until_it_is() -> None:
    ledger = Ledger(failures=5)
    await end_of(begin(silence, ledger, Limits(total_s=0.001, first_token_s=1, idle_s=1)))
    assert len(ledger.calls) == 6
    assert len({id(outcome) for outcome in ledger.calls}) == 1, "always the same end"


async def test_an_end_that_somebody_else_wrote_is_not_tried_again() -> None:
    ledger = Ledger(written=False)
    await end_of(begin(silence, ledger, Limits(total_s=0.001, first_token_s=1, idle_s=1)))
    assert len(ledger.calls) == 1


@pytest.mark.parametrize("when", ["while the work runs", "while the end is written"])
async def test_a_cancel_of_the_keeper_passes_through_once_the_end_is_written(when: str) -> None:
    gate, work_gate = Gate(), Gate()
    ledger = Ledger(gate=gate)
    execution = begin(work_gate.wait, ledger)
    await work_gate.reached.wait()
    if when == "while the end is written":
        work_gate.open()
        await gate.reached.wait()
    keeper = task_named("keeper:e")
    keeper.cancel()
    await asyncio.sleep(0)
    keeper.cancel()
    work_gate.open()
    gate.open()
    await end_of(execution)
    assert keeper.cancelled()
    assert ledger.outcome.status is Status.COMPLETED


def test_the_keeper_outlives_an_end_that_nobody_waits_for() -> None:
    """A keeper that nobody holds is not collected as garbage while it waits."""
    ledger = Ledger()

    async def scene() -> None:
        execution = begin(silence, ledger)
        await asyncio.sleep(0)
        gc.collect()
        execution.controller.abort("session_stop")
        await end_of(execution)

    asyncio.run(scene())
    assert ledger.outcome.status is Status.ABORTED


# Whatever comes, in whatever order

Action = tuple[int, str]
ACTIONS = st.lists(
    st.tuples(st.integers(1, 8), st.sampled_from(["abort", "cancel work", "cancel keeper", "stop again"])), max_size=6
)


@settings(max_examples=300, deadline=None)
@given(
    actions=ACTIONS,
    awaits=st.integers(0, 6),
    swallows=st.integers(0, 3),
    end=st.sampled_from(["return", "raise", "hang"]),
    failures=st.integers(0, 2),
)
async def test_whatever_comes_there_is_one_end_and_it_is_the_true_one(
    actions: list[Action], awaits: int, swallows: int, end: str, failures: int
) -> None:
    if end == "hang" and not any(kind in ("abort", "stop again", "cancel work") for _, kind in actions):
        actions = [*actions, (8, "abort")]
    if end == "hang" and not any(kind in ("abort", "stop again") for _, kind in actions):
        swallows = 0  # a foreign cancel is not repeated

    async def work() -> str:
        left = swallows
        for _ in range(awaits):
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not left:
                    raise
                left -= 1
        while end == "hang":
            try:
                await silence()
            except asyncio.CancelledError:
                if not left:
                    raise
                left -= 1
        if end == "raise":
            raise ModelError("broken")
        return "stop"

    ledger = Ledger(failures=failures)
    execution = begin(work, ledger)
    assert execution.keeper is not None
    decided = [await act(kind, execution) for kind in in_order(actions)]
    await end_of(execution)
    assert len(ledger.calls) == failures + 1
    assert len({id(outcome) for outcome in ledger.calls}) == 1
    outcome = ledger.calls[-1]
    assert (outcome.status is Status.ABORTED) == any(decided) == (outcome.abort is not None)
    assert not outcome.stuck
    assert not [task for task in asyncio.all_tasks() if task.get_name().endswith(":e")]


def in_order(actions: list[Action]) -> Iterator[str]:
    """The actions by their tick, with a "tick" for each turn of the loop between them."""
    for tick in range(1, 9):
        yield "tick"
        yield from (kind for at, kind in actions if at == tick)


async def act(kind: str, execution: Execution) -> bool:
    match kind:
        case "tick":
            await asyncio.sleep(0)
        case "abort":
            return execution.controller.abort("session_stop")
        case "stop again":
            return execution.controller.abort("panic_stop")
        case "cancel work":
            for task in asyncio.all_tasks():
                if task.get_name() == "work:e":
                    task.cancel()
        case "cancel keeper":
            assert execution.keeper is not None
            execution.keeper.cancel()
    return False
