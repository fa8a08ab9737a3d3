"""What has arrived is kept by one write for all turns, soon or at once, and a refused write ends the turn."""

import asyncio
from typing import Any

import pytest
from django.db import OperationalError

from chat import partials
from chat.live import LiveTurn
from chat.models import ChatMessage
from chat.partials import Flusher, Partial
from kernel.abort import AbortReason
from kernel.events import StepFinished, TextDelta
from kernel.models import ExecutionRecord
from kernel.registry import Execution
from kernel.worker import ThisWorker
from tests.chat.rows import owner, start
from tests.kernel.live import db
from tests.waiting import READY_TIMEOUT_S


class Writes:
    """The writes as they happen: the partials of each, and an event for the test that waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.batches: list[list[Partial]] = []
        self.failures = 0
        self._written = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._save = partials._save
        monkeypatch.setattr(partials, "_save", self.save)

    def save(self, batch: list[Partial]) -> list[str]:
        self.batches.append(batch)
        try:
            if self.failures:
                self.failures -= 1
                raise OperationalError("the database is away")
            return self._save(batch)
        finally:
            self._loop.call_soon_threadsafe(self._written.set)

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(READY_TIMEOUT_S):
            while len(self.batches) < count:
                await self._written.wait()
                self._written.clear()


@pytest.fixture
async def writes(worker: ThisWorker, monkeypatch: pytest.MonkeyPatch) -> Writes:
    return Writes(monkeypatch)


@pytest.fixture
async def flusher(worker: ThisWorker) -> Flusher:
    return Flusher(worker.spawn)


async def run_turn(flusher: Flusher, worker: ThisWorker, key: str) -> LiveTurn:
    """A turn of this worker that the ledger knows."""
    started = await db(lambda: start(key=key, by=owner(worker.id)))
    return LiveTurn(
        Execution(id=str(started.record.pk), session_key=key),
        session_id=started.session.pk,
        message_id=started.answer.pk,
        max_steps=8,
        on_change=flusher.watch(worker.id),
    )


async def stored(turn: LiveTurn) -> str:
    return (await db(ChatMessage.objects.get, pk=turn.message_id)).text


def said(text: str) -> TextDelta:
    return TextDelta(step=1, kind="text", text=text)


async def test_all_turns_that_changed_are_kept_by_one_write(
    worker: ThisWorker, flusher: Flusher, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [await run_turn(flusher, worker, key) for key in "abc"]
    for turn in turns:
        for number in range(50):
            turn.tell(said(f"{number} "))
    turns[0].tell(StepFinished(step=1))
    await writes.wait(1)
    [batch] = writes.batches
    assert {each.execution_id for each in batch} == {turn.execution.id for turn in turns}
    for turn in turns:
        turn.close()
    while [await stored(turn) for turn in turns] != [turn.draft.text() for turn in turns]:
        await asyncio.sleep(0)


async def test_flowing_text_is_kept_after_a_tick_without_being_asked(
    worker: ThisWorker, flusher: Flusher, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert partials.TICK_S < 0.5
    monkeypatch.setattr(partials, "TICK_S", 0.01)
    turn = await run_turn(flusher, worker, "s")
    turn.tell(said("a"))
    await writes.wait(1)
    turn.tell(said("b"))
    await writes.wait(2)
    assert [batch[0].text for batch in writes.batches] == ["a", "ab"]
    turn.close()


async def test_a_finished_step_is_kept_without_waiting_for_the_tick(
    worker: ThisWorker, flusher: Flusher, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partials, "TICK_S", 3600.0)
    turn = await run_turn(flusher, worker, "s")
    turn.tell(said("a"))
    turn.tell(StepFinished(step=1))
    await writes.wait(1)
    assert writes.batches[0][0].text == "a"
    turn.close()


async def test_a_write_that_failed_is_tried_again(
    worker: ThisWorker, flusher: Flusher, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partials, "TICK_S", 0.01)
    writes.failures = 2
    turn = await run_turn(flusher, worker, "s")
    turn.tell(said("a"))
    await writes.wait(3)
    while await stored(turn) != "a":
        await asyncio.sleep(0)
    assert not turn.execution.signal.aborted
    turn.close()


async def test_a_turn_that_is_another_workers_by_now_is_aborted_as_lost(
    worker: ThisWorker, flusher: Flusher, writes: Writes
) -> None:
    turn = await run_turn(flusher, worker, "s")
    other = (await db(owner)).worker_id
    await db(ExecutionRecord.objects.filter(pk=turn.execution.id).update, worker_id=other)
    turn.tell(said("a"))
    turn.tell(StepFinished(step=1))
    async with asyncio.timeout(READY_TIMEOUT_S):
        abort = await turn.execution.signal.wait()
    assert (abort.reason, abort.source) == (AbortReason.WORKER_LOST, "lease")
    assert await stored(turn) == ""
    turn.close()


async def test_a_refused_write_of_what_is_ending_by_itself_aborts_nothing(
    worker: ThisWorker, flusher: Flusher, writes: Writes
) -> None:
    turn, other = await run_turn(flusher, worker, "s"), await run_turn(flusher, worker, "t")
    await db(ChatMessage.objects.filter(pk=turn.message_id).update, status="completed")
    turn.execution.controller.finish()
    turn.tell(said("a"))
    turn.tell(StepFinished(step=1))
    await writes.wait(1)
    other.tell(StepFinished(step=1))
    await writes.wait(2)  # so the first has been judged
    assert not turn.execution.signal.aborted
    turn.close()


async def test_a_turn_that_has_ended_is_forgotten(
    worker: ThisWorker, flusher: Flusher, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, other = await run_turn(flusher, worker, "s"), await run_turn(flusher, worker, "t")
    turn.tell(said("a"))
    flusher.forget(turn.execution.id)
    other.tell(said("b"))
    other.tell(StepFinished(step=1))
    await writes.wait(1)
    ids: list[Any] = [each.execution_id for each in writes.batches[0]]
    assert ids == [other.execution.id]
    turn.close()
    other.close()
