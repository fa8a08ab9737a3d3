"""This process's live executions. Pure; touched only by the event loop's thread.

Everything that can be stopped is registered before it asks a provider for anything, and unregistered when its end is
written. The registry is a collection of `Execution`; what it holds is a cache of the ledger for this one process.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernel.abort import Abort, AbortController, AbortReason, AbortSignal
from kernel.connections import Book
from kernel.events import Phase, Usage

# Strikes closer together than this are a burst; after this much silence it is over.
CALM_S = 0.015
CALM_MAX_S = 0.15


@dataclass(kw_only=True, eq=False)
class Execution:
    """One live execution, and what is known of it so far.

    `id` is the ledger's, which has it once it is `admitted`; `kind` is `turn`, `title` or `drill`. `ended` is set when
    the terminal row is committed and the provider's connection is closed: the meaning of *confirmed*. `usage` is of
    finished model calls, `pending` an estimate of the one that runs. `started_s` and `first_output_s` are of the
    monotonic clock.
    """

    id: str
    kind: str = "turn"
    session_key: str = ""
    user_id: int | None = None
    model: str = ""
    admitted: bool = False
    controller: AbortController = field(default_factory=AbortController)
    book: Book = field(default_factory=Book)
    started_s: float = field(default_factory=time.monotonic)
    first_output_s: float | None = None
    phase: Phase = Phase.STARTING
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    pending: Usage = field(default_factory=Usage)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    keeper: asyncio.Task[object] | None = None

    @property
    def signal(self) -> AbortSignal:
        return self.controller.signal


class ExecutionRegistry:
    """A collection of the live executions of this process."""

    def __init__(self) -> None:
        self._executions: dict[str, Execution] = {}
        self._struck_s = 0.0
        self._burst = 0

    def register(
        self,
        execution_id: str,
        *,
        session_key: str = "",
        kind: str = "turn",
        user_id: int | None = None,
        model: str = "",
    ) -> AbortController:
        """Register an execution and return its controller. Raises ValueError if the id is registered already."""
        if execution_id in self._executions:
            raise ValueError(f"Execution {execution_id!r} is registered already.")
        execution = Execution(id=execution_id, session_key=session_key, kind=kind, user_id=user_id, model=model)
        self._executions[execution_id] = execution
        execution.signal.listen(self._on_strike)
        return execution.controller

    async def calm(self) -> None:
        """Wait while stops come in a burst, `CALM_MAX_S` at most; a lone stop never waits.

        The database work of the first would hold up the reading, and so the closing, of the rest.
        """
        give_up_s = time.monotonic() + CALM_MAX_S
        while self._burst > 1 and (left_s := self._struck_s + CALM_S - time.monotonic()) > 0:
            if time.monotonic() > give_up_s:
                break
            await asyncio.sleep(left_s)

    def unregister(self, execution_id: str) -> None:
        """Forget an execution; unknown ids are ignored."""
        self._executions.pop(execution_id, None)

    def abort_session(self, session_key: str, reason: AbortReason | str, *, by: str = "", source: str = "") -> int:
        """Abort every execution of the session; return how many this call decided."""
        return sum(e.controller.abort(reason, by=by, source=source) for e in self.of_session(session_key))

    def abort_all(self, reason: AbortReason | str, *, by: str = "", source: str = "") -> int:
        """Abort every execution of this process; return how many this call decided."""
        return sum(e.controller.abort(reason, by=by, source=source) for e in list(self))

    def _on_strike(self, _: Abort) -> None:
        now_s = time.monotonic()
        self._burst = self._burst + 1 if now_s - self._struck_s < CALM_S else 1
        self._struck_s = now_s

    def of_session(self, session_key: str) -> list[Execution]:
        return [e for e in self._executions.values() if e.session_key == session_key]

    def get(self, execution_id: str) -> Execution | None:
        return self._executions.get(execution_id)

    def __getitem__(self, execution_id: str) -> Execution:
        return self._executions[execution_id]

    def __contains__(self, execution: object) -> bool:
        key = execution.id if isinstance(execution, Execution) else execution
        return key in self._executions

    def __iter__(self) -> Iterator[Execution]:
        return iter(list(self._executions.values()))

    def __len__(self) -> int:
        return len(self._executions)
