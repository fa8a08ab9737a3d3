"""When the parts of an answer began, and how long its tools ran."""

import pytest

from chat.draft import Draft
from kernel.events import TextDelta, ToolFinished, ToolStarted, ToolState


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def draft(clock: Clock) -> Draft:
    return Draft(clock)


def started(text: str | None) -> ToolStarted:
    return ToolStarted(step=1, call_id="c", name="add", input=None if text is None else {"a": text})


def test_a_part_began_with_its_first_text(draft: Draft, clock: Clock) -> None:
    draft.add_text(TextDelta(step=1, kind="reasoning", text="hm"))
    clock.now_s += 1.5
    draft.add_text(TextDelta(step=1, kind="reasoning", text="m"))
    draft.add_text(TextDelta(step=1, kind="text", text="so"))
    assert [part["startedAt"] for part in draft.parts()] == [100_000, 101_500]


def test_a_call_runs_from_when_its_arguments_are_whole_to_its_end(draft: Draft, clock: Clock) -> None:
    draft.start_tool(started(None))
    assert (draft.parts()[0]["startedAt"], draft.parts()[0]["durationMs"]) == (None, None)
    clock.now_s += 2
    draft.start_tool(started("1"))
    assert (draft.parts()[0]["startedAt"], draft.parts()[0]["durationMs"]) == (102_000, None)
    clock.now_s += 0.25
    draft.finish_tool(ToolFinished(step=1, call_id="c", name="add", state=ToolState.COMPLETED, output="1"))
    assert draft.parts()[0]["durationMs"] == 250


def test_a_call_that_ended_before_it_ran_took_no_time_that_could_be_told(draft: Draft) -> None:
    draft.start_tool(started(None))
    draft.finish_tool(ToolFinished(step=1, call_id="c", name="add", state=ToolState.ABORTED, error="stopped"))
    assert draft.parts()[0]["durationMs"] is None


def test_a_clock_that_is_set_back_gives_no_negative_time(draft: Draft, clock: Clock) -> None:
    draft.start_tool(started("1"))
    clock.now_s -= 60
    draft.finish_tool(ToolFinished(step=1, call_id="c", name="add", state=ToolState.COMPLETED, output="1"))
    assert draft.parts()[0]["durationMs"] == 0
