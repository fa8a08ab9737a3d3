"""Abort: one sticky decision that ends one execution. Pure; no Django, no event loop of its own.

`AbortController.abort(reason)` is the only way to decide. It is idempotent (the first reason wins), silent once the
execution has ended, and synchronous: every listener has been told when it returns. It promises the decision, not the
end; the end is the runner's to prove.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class AbortReason(StrEnum):
    """Why an execution was aborted. The values are stored and sent; they never change."""

    SESSION_STOP = "session_stop"
    PANIC_STOP = "panic_stop"
    TIMEOUT = "timeout"
    USER_INTERRUPT = "user_interrupt"
    DISCONNECT = "disconnect"
    SHUTDOWN = "shutdown"
    WORKER_LOST = "worker_lost"
    DELETED = "deleted"


class TimeoutKind(StrEnum):
    """Which clock ran out when the reason is `timeout`."""

    TOTAL = "total"
    FIRST_TOKEN = "first_token"  # noqa: S105  a clock, not a password
    IDLE = "idle"


class ExecutionAborted(Exception):
    """The execution was aborted; what it was about to do must not happen."""

    def __init__(self, abort: "Abort"):
        super().__init__(f"{self.__doc__} Reason: {abort.reason.value}.")
        self.abort = abort


@dataclass(frozen=True, kw_only=True, slots=True)
class Abort:
    """One decision: why, by whom, from where.

    `by` is a user name, or empty where no person decided, `why` what they said of it; `source` names the door (`web`,
    `panic`, `command`, `clock` …). `at` is the wall clock in seconds since the epoch, `decided_s` the monotonic clock
    of this process in seconds, from which latencies are measured.
    """

    reason: AbortReason
    by: str = ""
    source: str = ""
    why: str = ""
    timeout_kind: TimeoutKind | None = None
    at: float = field(default_factory=time.time)
    decided_s: float = field(default_factory=time.monotonic)


class AbortSignal:
    """The read side, handed to everything that an execution awaits."""

    def __init__(self) -> None:
        self._abort: Abort | None = None
        self._event = asyncio.Event()
        self._listeners: list[Callable[[Abort], None]] = []

    @property
    def aborted(self) -> bool:
        return self._abort is not None

    @property
    def abort(self) -> Abort | None:
        return self._abort

    @property
    def reason(self) -> AbortReason | None:
        return self._abort.reason if self._abort else None

    def raise_if_aborted(self) -> None:
        """Raise `ExecutionAborted` if the decision has fallen."""
        if self._abort is not None:
            raise ExecutionAborted(self._abort)

    async def wait(self) -> Abort:
        """Wait for the decision and return it."""
        await self._event.wait()
        assert self._abort is not None  # the event is set only after the decision
        return self._abort

    def listen(self, listener: Callable[[Abort], None]) -> Callable[[], None]:
        """Call `listener` once, synchronously, when the decision falls (at once if it has). Return the way to stop."""
        if self._abort is not None:
            listener(self._abort)
            return lambda: None
        self._listeners.append(listener)

        def forget() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return forget

    def _fire(self, abort: Abort) -> None:
        self._abort = abort
        self._event.set()
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(abort)


class AbortController:
    """The write side. `finish()` makes later aborts silent: a late stop never touches a finished execution."""

    def __init__(self) -> None:
        self.signal = AbortSignal()
        self._finished = False

    @property
    def finished(self) -> bool:
        return self._finished

    def abort(
        self,
        reason: AbortReason | str,
        *,
        by: str = "",
        source: str = "",
        why: str = "",
        timeout_kind: TimeoutKind | None = None,
    ) -> bool:
        """Decide. Return True if this call decided; False if it was decided or finished before.

        Raises ValueError for a reason that the product does not know.
        """
        reason = AbortReason(reason)
        if self._finished or self.signal.aborted:
            return False
        self.signal._fire(Abort(reason=reason, by=by, source=source, why=why, timeout_kind=timeout_kind))
        return True

    def finish(self) -> None:
        self._finished = True
