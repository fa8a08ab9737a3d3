"""Retries of one model call: bounded, visible, never after output, never after an abort."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from kernel.abort import AbortController, ExecutionAborted
from kernel.llm import retry
from kernel.llm.model import CallDelta, Delta, Finished, ModelError, ModelEvent, ModelRequest
from kernel.llm.retry import ATTEMPTS, RETRY_AFTER_MAX_S, wait_s
from tests.fakes import Gate, ScriptedModel, words
from tests.waiting import READY_TIMEOUT_S

BUSY = ModelError("busy", status=429, retryable=True)
REQUEST = ModelRequest(model="m", messages=[])


class ClockLog:
    """What the provider's clock is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def request(self) -> None:
        self.told.append("request")

    def output(self) -> None:
        self.told.append("output")

    def rest(self) -> None:
        self.told.append("rest")


class Call:
    """One call that is retried, and everything that can be seen of it."""

    def __init__(self, *scripts: Any):
        self.model = ScriptedModel(*scripts)
        self.controller = AbortController()
        self.clock = ClockLog()
        self.retries: list[tuple[int, float]] = []
        self.events: list[ModelEvent] = []
        self.on_retry: Callable[[int, float], None] = lambda attempt, delay_s: self.retries.append((attempt, delay_s))

    async def perform(self) -> list[ModelEvent]:
        stream = retry.stream(
            self.model, REQUEST, signal=self.controller.signal, clock=self.clock, on_retry=self.on_retry
        )
        async with asyncio.timeout(READY_TIMEOUT_S), aclosing(stream):
            async for event in stream:
                self.events.append(event)
        return self.events


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BACKOFF_S", 0.0)


async def test_an_answer_is_passed_on_and_asked_for_once() -> None:
    call = Call(words(3))
    assert await call.perform() == words(3)
    assert len(call.model.requests) == 1
    assert call.retries == []


async def test_a_failure_before_the_first_output_is_tried_again_and_shown() -> None:
    call = Call([BUSY], [BUSY], words(2))
    assert await call.perform() == words(2)
    assert call.retries == [(2, 0.0), (2, 0), (3, 0.0), (3, 0)]


async def test_at_least_three_attempts_are_made_and_then_the_error_is_told() -> None:
    assert ATTEMPTS >= 3
    call = Call(*[[BUSY]] * (ATTEMPTS + 3))
    with pytest.raises(ModelError, match="busy"):
        await call.perform()
    assert len(call.model.requests) == ATTEMPTS


async def test_what_cannot_be_helped_is_not_tried_again() -> None:
    call = Call([ModelError("wrong key", status=401)], words(1))
    with pytest.raises(ModelError, match="wrong key"):
        await call.perform()
    assert len(call.model.requests) == 1


@pytest.mark.parametrize("first", [Delta(kind="text", text="a"), Delta(kind="reasoning", text="a"), CallDelta(index=0)])
async def test_nothing_is_tried_again_after_the_first_output(first: ModelEvent) -> None:
    call = Call([first, BUSY], words(1))
    with pytest.raises(ModelError, match="busy"):
        await call.perform()
    assert call.events == [first]
    assert len(call.model.requests) == 1


async def test_every_stream_is_closed_before_the_next_is_asked_for() -> None:
    call = Call([BUSY], [BUSY], words(1))
    open_streams: list[int] = []
    call.on_retry = lambda *_: open_streams.append(call.model.open)
    await call.perform()
    assert set(open_streams) == {0}
    assert call.model.open == 0


async def test_an_aborted_run_asks_nothing() -> None:
    call = Call(words(1))
    call.controller.abort("session_stop")
    with pytest.raises(ExecutionAborted):
        await call.perform()
    assert call.model.requests == []


async def test_an_abort_that_comes_back_as_a_providers_error_is_not_tried_again() -> None:
    gate = Gate()
    call = Call([gate, BUSY], words(1))
    performing = asyncio.create_task(call.perform())
    await gate.reached.wait()
    call.controller.abort("session_stop")
    gate.open()
    with pytest.raises(ExecutionAborted):
        await performing
    assert len(call.model.requests) == 1
    assert call.retries == []


async def test_an_abort_while_it_waits_asks_nothing_more() -> None:
    call = Call([BUSY], words(1))
    call.on_retry = lambda *_: call.controller.abort("session_stop") and None
    with pytest.raises(ExecutionAborted):
        await call.perform()
    assert len(call.model.requests) == 1


async def test_the_wait_ends_with_a_cancel() -> None:
    waiting = asyncio.Event()
    call = Call([ModelError("busy", retryable=True, retry_after_s=60)], words(1))
    call.on_retry = lambda *_: waiting.set()
    performing = asyncio.create_task(call.perform())
    await waiting.wait()
    performing.cancel()
    await asyncio.wait({performing}, timeout=READY_TIMEOUT_S)
    assert performing.cancelled()
    assert len(call.model.requests) == 1


async def test_the_clock_waits_for_the_provider_and_rests_in_between() -> None:
    call = Call([BUSY], words(2))
    await call.perform()
    assert call.clock.told == ["request", "rest", "request", "output", "output", "rest"]


async def test_a_finish_is_no_output() -> None:
    call = Call([Finished(reason="stop")])
    await call.perform()
    assert call.clock.told == ["request", "rest"]


@pytest.mark.parametrize(("named_s", "waited_s"), [(0.0, 0.0), (7.5, 7.5), (60.0, 60.0), (61.0, 60.0), (1e9, 60.0)])
def test_a_named_wait_is_honoured_up_to_a_minute(named_s: float, waited_s: float) -> None:
    assert RETRY_AFTER_MAX_S == 60
    assert wait_s(1, named_s) == waited_s


def test_without_a_named_wait_it_doubles_with_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BACKOFF_S", 1.0)
    for attempt, about_s in ((1, 1), (2, 2), (3, 4), (9, retry.BACKOFF_MAX_S)):
        waits = {wait_s(attempt, None) for _ in range(50)}
        assert len(waits) > 1
        assert all(0.75 * about_s <= wait <= 1.25 * about_s for wait in waits)
