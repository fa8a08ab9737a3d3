"""An abort is one sticky decision, told synchronously and once."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.abort import Abort, AbortController, AbortReason, ExecutionAborted, TimeoutKind
from tests.waiting import READY_TIMEOUT_S

ABORTS = st.lists(st.sampled_from(AbortReason), min_size=1, max_size=6)


def test_an_abort_is_remembered_with_why_by_whom_and_from_where() -> None:
    controller = AbortController()
    assert controller.abort("timeout", by="ann", source="clock", timeout_kind=TimeoutKind.IDLE)
    abort = controller.signal.abort
    assert abort is not None
    assert (abort.reason, abort.by, abort.source) == (AbortReason.TIMEOUT, "ann", "clock")
    assert abort.timeout_kind is TimeoutKind.IDLE
    assert controller.signal.aborted
    assert controller.signal.reason is AbortReason.TIMEOUT


@given(ABORTS)
def test_the_first_reason_wins_and_only_its_call_decided(reasons: list[AbortReason]) -> None:
    controller = AbortController()
    assert [controller.abort(reason) for reason in reasons] == [True] + [False] * (len(reasons) - 1)
    assert controller.signal.reason is reasons[0]


def test_the_second_author_leaves_no_trace() -> None:
    controller = AbortController()
    controller.abort("session_stop", by="ann", source="web")
    first = controller.signal.abort
    controller.abort("panic_stop", by="bob", source="panic")
    assert controller.signal.abort is first


def test_an_abort_after_the_finish_is_silent() -> None:
    controller = AbortController()
    heard: list[Abort] = []
    controller.signal.listen(heard.append)
    controller.finish()
    assert not controller.abort("session_stop")
    assert controller.finished
    assert not controller.signal.aborted
    assert controller.signal.abort is controller.signal.reason is None
    assert heard == []
    controller.signal.raise_if_aborted()


def test_an_abort_stays_after_the_finish() -> None:
    controller = AbortController()
    controller.abort("session_stop")
    controller.finish()
    assert controller.signal.reason is AbortReason.SESSION_STOP


def test_an_unknown_reason_is_refused_and_decides_nothing() -> None:
    controller = AbortController()
    with pytest.raises(ValueError, match="boredom"):
        controller.abort("boredom")
    assert not controller.signal.aborted


def test_every_listener_has_been_told_when_abort_returns() -> None:
    controller = AbortController()
    heard: list[tuple[str, Abort]] = []
    controller.signal.listen(lambda abort: heard.append(("first", abort)))
    controller.signal.listen(lambda abort: heard.append(("second", abort)))
    controller.abort("session_stop")
    assert [name for name, _ in heard] == ["first", "second"]
    assert {abort for _, abort in heard} == {controller.signal.abort}


def test_a_listener_is_told_once() -> None:
    controller = AbortController()
    heard: list[Abort] = []
    controller.signal.listen(heard.append)
    controller.abort("session_stop")
    controller.abort("session_stop")
    assert len(heard) == 1


def test_a_listener_that_comes_late_is_told_at_once() -> None:
    controller = AbortController()
    controller.abort("session_stop")
    heard: list[Abort] = []
    forget = controller.signal.listen(heard.append)
    assert heard == [controller.signal.abort]
    forget()


def test_a_listener_that_was_forgotten_hears_nothing() -> None:
    controller = AbortController()
    heard: list[Abort] = []
    forget = controller.signal.listen(heard.append)
    forget()
    controller.abort("session_stop")
    forget()
    assert heard == []


def test_a_listener_may_forget_another_while_it_is_told() -> None:
    controller = AbortController()
    heard: list[str] = []
    forget_second = controller.signal.listen(lambda _: None)
    controller.signal.listen(lambda _: forget_second())
    controller.signal.listen(lambda _: heard.append("third"))
    controller.abort("session_stop")
    assert heard == ["third"]


def test_the_signal_raises_the_abort_itself() -> None:
    controller = AbortController()
    controller.signal.raise_if_aborted()
    controller.abort("deleted")
    with pytest.raises(ExecutionAborted, match="deleted") as caught:
        controller.signal.raise_if_aborted()
    assert caught.value.abort is controller.signal.abort


async def test_who_waits_for_the_signal_is_woken_with_the_abort() -> None:
    controller = AbortController()
    waiting = asyncio.create_task(controller.signal.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    controller.abort("disconnect")
    async with asyncio.timeout(READY_TIMEOUT_S):
        assert await waiting is controller.signal.abort
