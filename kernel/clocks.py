"""The clocks that end a run: `total` over all of it, `first_token` and `idle` while it waits for the provider. Pure.

A delta costs one comparison: touching a clock moves a number, and the one timer looks at it when it fires.
"""

import asyncio
from dataclasses import dataclass

from kernel.abort import AbortController, AbortReason, TimeoutKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Seconds that a run may take, in all and until the provider's first and next output."""

    total_s: float
    first_token_s: float
    idle_s: float


class Clock:
    """One deadline that can be moved. When it passes, the execution is aborted as a timeout of `kind`."""

    def __init__(self, controller: AbortController, kind: TimeoutKind, limit_s: float):
        self._controller = controller
        self._kind = kind
        self._limit_s = limit_s
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Run, or run anew, from now."""
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + self._limit_s
        if self._timer is None:
            self._timer = loop.call_at(self._deadline, self._fire)

    def stop(self) -> None:
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._deadline:  # it was moved meanwhile
            self._timer = loop.call_at(self._deadline, self._fire)
            return
        self._controller.abort(AbortReason.TIMEOUT, source="clock", timeout_kind=self._kind)


class ProviderClock:
    """`first_token` from the request to the first output, then `idle` between outputs; both rest at all other times."""

    def __init__(self, controller: AbortController, limits: Limits):
        self._first = Clock(controller, TimeoutKind.FIRST_TOKEN, limits.first_token_s)
        self._idle = Clock(controller, TimeoutKind.IDLE, limits.idle_s)
        self._waiting_for_first = False

    def request(self) -> None:
        """A request goes out, or goes out again."""
        self.rest()
        self._waiting_for_first = True
        self._first.start()

    def output(self) -> None:
        """Real output came; role-only and empty deltas are not output and never get here."""
        if self._waiting_for_first:
            self._waiting_for_first = False
            self._first.stop()
        self._idle.start()

    def rest(self) -> None:
        """The provider owes nothing now."""
        self._first.stop()
        self._idle.stop()
