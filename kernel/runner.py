"""Supervise one execution: from its first await to its one written end. Pure.

Two tasks: the *work*, which anyone's abort may cancel at any await, and the *keeper*, which no abort touches and which
writes the end. The keeper promises that the provider's connection is closed before it says so, that the end is written
once, and that it is retried until it is written or belongs to somebody else. A cancellation that is not ours is never
taken for an abort: of the work it is an error, of the keeper it passes through once the end is written.
"""

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kernel.abort import Abort, ExecutionAborted, TimeoutKind
from kernel.aio import to_the_end
from kernel.clocks import Clock, Limits
from kernel.connections import CURRENT
from kernel.errors import ToldError
from kernel.registry import Execution

logger = logging.getLogger(__name__)

# One cancel() is a request, not a fact: it is repeated this often until the work has ended.
REASSERT_S = 0.05
# After this long, work that swallows every cancel is left alone; its connections are closed, its late results ignored.
GRACE_S = 5.0
SETTLE_RETRY_S = (0.05, 0.2, 0.5, 1.0, 2.0)

Work = Callable[[], Coroutine[Any, Any, Any]]


class Status(StrEnum):
    """How an execution ended."""

    COMPLETED = "completed"
    ERROR = "error"
    ABORTED = "aborted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The end of an execution, as data.

    `abort` iff aborted. `error` is text for people. `value` is what the work returned. `upstream_closed_ms` counts from
    the decision to abort until no provider connection was open. `stuck`: the work swallowed its cancellations and was
    left alone.
    """

    status: Status
    abort: Abort | None = None
    error: str = ""
    value: Any = None
    upstream_closed_ms: float | None = None
    stuck: bool = False


# Writes the end; returns something true, or nothing if the execution is not this process's any more.
Settle = Callable[[Outcome], Awaitable[Any]]
# Tells of the end once it is written, with what `Settle` returned. The end stands whether it can be told or not.
Announce = Callable[[Any], Awaitable[None]]


def start(execution: Execution, work: Work, settle: Settle, limits: Limits, announce: Announce | None = None) -> None:
    """Start the execution's two tasks. The keeper belongs to the execution and is never handed out."""
    context = contextvars.copy_context()
    context.run(CURRENT.set, execution.book)
    work_task = asyncio.create_task(_body(execution, work), name=f"work:{execution.id}", context=context)
    strike = _Strike(execution, work_task)
    execution.keeper = asyncio.create_task(
        _keep(execution, work_task, strike, _End(settle, announce), limits),
        name=f"keeper:{execution.id}",
        context=context,
    )


async def _body(execution: Execution, work: Work) -> Any:
    try:
        execution.signal.raise_if_aborted()
        value = await work()
        # Decided while the last await was completing: the abort wins, as its requester was told.
        execution.signal.raise_if_aborted()
        return value
    finally:
        execution.controller.finish()  # an abort that comes after a failure is as late as one after a success


async def _keep(execution: Execution, work: asyncio.Task[Any], strike: "_Strike", end: "_End", limits: Limits) -> None:
    total = Clock(execution.controller, TimeoutKind.TOTAL, limits.total_s)
    total.start()
    try:
        outcome, foreign = await to_the_end(_await_end(execution, work, strike))
    finally:
        total.stop()
    _, cancelled = await to_the_end(end.write(execution, outcome))
    execution.ended.set()
    if foreign or cancelled:
        raise asyncio.CancelledError


class _Strike:
    """What an abort does at once, in the caller's own stack: cancel the work and close its connections."""

    def __init__(self, execution: Execution, work: asyncio.Task[Any]):
        self._execution = execution
        self._work = work
        self.aborted = asyncio.Event()
        self.closed_s: float | None = None
        execution.signal.listen(self._first)

    def again(self) -> None:
        if self._execution.book.open:
            self.closed_s = None
        self._work.cancel()
        self._execution.book.close()
        # The transports close in the loop's next iteration, in callbacks scheduled before this one.
        asyncio.get_running_loop().call_soon(self._look)

    def _first(self, abort: Abort) -> None:
        self.aborted.set()
        self.again()

    def _look(self) -> None:
        if self._execution.book.open == 0 and self.closed_s is None:
            self.closed_s = time.monotonic()


async def _await_end(execution: Execution, work: asyncio.Task[Any], strike: _Strike) -> Outcome:
    aborted = asyncio.create_task(strike.aborted.wait(), name=f"aborted:{execution.id}")
    try:
        await asyncio.wait({work, aborted}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        aborted.cancel()
    if execution.signal.aborted:
        await _insist(work, strike)
    execution.controller.finish()  # without an await before the outcome: no abort falls between the two
    return _outcome(execution, work, strike)


async def _insist(work: asyncio.Task[Any], strike: _Strike) -> None:
    """Repeat the strike until the work has ended and its connections are closed, for `GRACE_S` at most."""
    deadline = time.monotonic() + GRACE_S
    while True:
        if work.done():
            await asyncio.sleep(0)  # one iteration, in which the transports close
        else:
            await asyncio.wait({work}, timeout=REASSERT_S)
        if (work.done() and strike.closed_s is not None) or time.monotonic() > deadline:
            return
        strike.again()
        if work.done():
            await asyncio.sleep(REASSERT_S)


def _outcome(execution: Execution, work: asyncio.Task[Any], strike: _Strike) -> Outcome:
    abort = execution.signal.abort
    failure = None if not work.done() or work.cancelled() else work.exception()
    if abort is not None:
        if failure is not None and not isinstance(failure, ExecutionAborted):
            logger.info("The aborted work ended in an error of its own.", extra={"execution_id": execution.id})
        closed_ms = None if strike.closed_s is None else max(0.0, (strike.closed_s - abort.decided_s) * 1000)
        return Outcome(status=Status.ABORTED, abort=abort, upstream_closed_ms=closed_ms, stuck=not work.done())
    if work.cancelled():
        return Outcome(status=Status.ERROR, error="The run was cancelled from outside. Send the message again.")
    if failure is not None:
        return Outcome(status=Status.ERROR, error=describe(failure), value=failure)
    return Outcome(status=Status.COMPLETED, value=work.result())


def describe(failure: BaseException) -> str:
    """Text for people: the failure's own where it was written for them (`message`), else one that tells no secret."""
    if isinstance(failure, ToldError):
        return failure.message
    logger.error("An execution failed.", exc_info=failure)
    return f"Something failed on our side ({type(failure).__name__}). Send the message again; the log has the details."


@dataclass(frozen=True, slots=True)
class _End:
    """First the truth, then the news."""

    settle: Settle
    announce: Announce | None

    async def write(self, execution: Execution, outcome: Outcome) -> None:
        written = await self._until_written(execution, outcome)
        if not written:
            logger.warning("An execution had been settled by somebody else.", extra={"execution_id": execution.id})
        if self.announce is None:
            return
        try:
            await self.announce(written)
        except Exception:
            logger.exception("An end could not be told.", extra={"action": "tell", "execution_id": execution.id})

    async def _until_written(self, execution: Execution, outcome: Outcome) -> Any:
        attempt = 0
        while True:
            try:
                return await self.settle(outcome)
            except Exception:  # the runner is the one place that must outlive every failure
                delay_s = SETTLE_RETRY_S[min(attempt, len(SETTLE_RETRY_S) - 1)]
                attempt += 1
                logger.exception(
                    "The end of an execution could not be written; trying again in %s s.",
                    delay_s,
                    extra={"action": "settle", "execution_id": execution.id},
                )
                await asyncio.sleep(delay_s)
