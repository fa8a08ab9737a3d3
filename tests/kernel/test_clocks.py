"""The clocks that end a run, on a loop whose time the test moves."""

import heapq
import itertools
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from kernel import clocks
from kernel.abort import AbortController, AbortReason, TimeoutKind
from kernel.clocks import Clock, Limits, ProviderClock


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Time:
    """What the clocks use of an event loop; `pass_s` lets time go by."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.timers: list[tuple[float, int, Timer, Callable[[], None]]] = []
        self._number = itertools.count()

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        timer = Timer()
        heapq.heappush(self.timers, (when_s, next(self._number), timer, callback))
        return timer

    def pass_s(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.timers and self.timers[0][0] <= end_s:
            self.now_s, _, timer, callback = heapq.heappop(self.timers)
            if not timer.cancelled:
                callback()
        self.now_s = end_s

    @property
    def waiting(self) -> int:
        return sum(not timer.cancelled for _, _, timer, _ in self.timers)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(clocks, "asyncio", SimpleNamespace(get_running_loop=lambda: time))
    return time


@pytest.fixture
def controller() -> AbortController:
    return AbortController()


@pytest.fixture
def provider_clock(controller: AbortController, time: Time) -> ProviderClock:
    return ProviderClock(controller, Limits(total_s=600, first_token_s=30, idle_s=10))


def test_a_clock_that_runs_out_aborts_as_a_timeout_of_its_kind(time: Time, controller: AbortController) -> None:
    Clock(controller, TimeoutKind.TOTAL, 5).start()
    time.pass_s(4.9)
    assert not controller.signal.aborted
    time.pass_s(0.2)
    abort = controller.signal.abort
    assert abort is not None
    assert (abort.reason, abort.timeout_kind, abort.source) == (AbortReason.TIMEOUT, TimeoutKind.TOTAL, "clock")


def test_a_clock_that_was_moved_fires_at_its_new_time(time: Time, controller: AbortController) -> None:
    clock = Clock(controller, TimeoutKind.IDLE, 5)
    for _ in range(4):
        clock.start()
        time.pass_s(4)
    assert not controller.signal.aborted
    time.pass_s(1.1)
    assert controller.signal.aborted


def test_moving_a_clock_makes_no_new_timer(time: Time, controller: AbortController) -> None:
    clock = Clock(controller, TimeoutKind.IDLE, 5)
    for _ in range(1000):
        clock.start()
    assert time.waiting == 1


def test_a_clock_that_was_stopped_is_silent_and_can_run_again(time: Time, controller: AbortController) -> None:
    clock = Clock(controller, TimeoutKind.TOTAL, 5)
    clock.stop()
    clock.start()
    clock.stop()
    time.pass_s(100)
    assert not controller.signal.aborted
    clock.start()
    time.pass_s(5)
    assert controller.signal.aborted


def test_a_clock_does_not_touch_a_finished_run(time: Time, controller: AbortController) -> None:
    Clock(controller, TimeoutKind.TOTAL, 5).start()
    controller.finish()
    time.pass_s(10)
    assert not controller.signal.aborted


def test_a_provider_that_says_nothing_runs_out_of_first_token(
    provider_clock: ProviderClock, time: Time, controller: AbortController
) -> None:
    provider_clock.request()
    time.pass_s(30)
    assert controller.signal.abort.timeout_kind is TimeoutKind.FIRST_TOKEN


def test_a_provider_that_falls_silent_runs_out_of_idle(
    provider_clock: ProviderClock, time: Time, controller: AbortController
) -> None:
    provider_clock.request()
    time.pass_s(29)
    for _ in range(5):
        provider_clock.output()
        time.pass_s(9)
    assert not controller.signal.aborted
    time.pass_s(1)
    assert controller.signal.abort.timeout_kind is TimeoutKind.IDLE


def test_a_new_request_waits_for_a_first_token_anew(
    provider_clock: ProviderClock, time: Time, controller: AbortController
) -> None:
    provider_clock.request()
    provider_clock.output()
    time.pass_s(9)
    provider_clock.request()
    time.pass_s(29)
    assert not controller.signal.aborted
    time.pass_s(1)
    assert controller.signal.abort.timeout_kind is TimeoutKind.FIRST_TOKEN


def test_no_clock_runs_while_the_provider_owes_nothing(
    provider_clock: ProviderClock, time: Time, controller: AbortController
) -> None:
    provider_clock.request()
    provider_clock.rest()
    provider_clock.request()
    provider_clock.output()
    provider_clock.rest()
    time.pass_s(10_000)
    assert not controller.signal.aborted
    assert time.waiting == 0
