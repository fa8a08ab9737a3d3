"""Keeping what has arrived: one write per tick for all turns of this process.

Text that flows is kept at least every `TICK_S`; a finished step or tool at once. Never a write per delta.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from chat.live import LiveTurn, OnChange
from chat.models import ChatMessage
from kernel import lanes
from kernel.abort import AbortReason
from kernel.models import ExecutionRecord, usage_fields

logger = logging.getLogger(__name__)

TICK_S = 0.3
BATCH = 10


Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Partial:
    """What is written of one turn."""

    message_id: int
    execution_id: str
    worker_id: uuid.UUID
    text: str
    parts: list[dict[str, Any]]
    record: dict[str, Any]


class Flusher:
    """Writes the partials of the turns that changed. It sleeps while nothing does. `spawn` starts its owned task."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._changed: dict[str, tuple[LiveTurn, uuid.UUID]] = {}
        self._something = asyncio.Event()
        self._now = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def watch(self, worker_id: uuid.UUID) -> OnChange:
        """Return what a turn of this worker calls when it changed."""

        def changed(turn: LiveTurn, *, now: bool) -> None:
            self._changed[turn.execution.id] = (turn, worker_id)
            self._something.set()
            if now:
                self._now.set()
            if self._task is None or self._task.done():
                self._task = self._spawn(self._run(), "partials")

        return changed

    def forget(self, execution_id: str) -> None:
        """The turn has ended; its end is written by whoever settles it."""
        self._changed.pop(execution_id, None)

    async def _run(self) -> None:
        while True:
            await self._something.wait()
            try:
                async with asyncio.timeout(TICK_S):
                    await self._now.wait()
            except TimeoutError:
                pass  # the usual tick; nothing asked to be kept sooner
            self._something.clear()
            self._now.clear()
            changed, self._changed = self._changed, {}
            await self._write(changed)

    async def _write(self, changed: dict[str, tuple[LiveTurn, uuid.UUID]]) -> None:
        partials = [partial(turn, worker_id) for turn, worker_id in changed.values()]
        try:
            refused = await lanes.writes.run(_save, partials)
        except lanes.FAILURES:
            logger.exception("Partial answers could not be kept; trying again.", extra={"action": "partials"})
            for execution_id, turn in changed.items():
                self._changed.setdefault(execution_id, turn)
            self._something.set()
            return
        for execution_id in refused:
            controller = changed[execution_id][0].execution.controller
            if not controller.finished and controller.abort(AbortReason.WORKER_LOST, source="lease"):
                logger.warning("A turn is not ours any more; it was aborted.", extra={"execution_id": execution_id})


def partial(turn: LiveTurn, worker_id: uuid.UUID) -> Partial:
    """The turn as it stands; its usage only if it is due, or the ledger has none of it yet."""
    execution = turn.execution
    return Partial(
        message_id=int(turn.message_id),
        execution_id=execution.id,
        worker_id=worker_id,
        text=turn.draft.text(),
        parts=turn.draft.parts(),
        record={"steps": execution.steps, **usage_fields([turn.usage()])} if turn.usage_is_due() else {},
    )


def _save(partials: list[Partial]) -> list[str]:
    """Write each; return the executions that are not this worker's any more.

    A message that has ended meanwhile is not streaming any more, so what was read first cannot be written over its end.
    """
    ids = [each.execution_id for each in partials]
    live = ExecutionRecord.objects.live().filter(pk__in=ids).values_list("pk", "worker_id")
    owners = {str(pk): worker_id for pk, worker_id in live}
    refused = []
    for batch in _batches(partials):
        with transaction.atomic():
            for each in batch:
                mine = owners.get(each.execution_id) == each.worker_id
                if not mine or not ChatMessage.objects.save_partial(each.message_id, text=each.text, parts=each.parts):
                    refused.append(each.execution_id)
    for each in partials:
        if each.record and each.execution_id not in refused:
            ExecutionRecord.objects.live().filter(pk=each.execution_id, worker_id=each.worker_id).update(**each.record)
    return refused


def _batches(partials: list[Partial]) -> list[list[Partial]]:
    """A few at a time: a turn that ends waits for the rows of its own batch only."""
    return [partials[first : first + BATCH] for first in range(0, len(partials), BATCH)]
