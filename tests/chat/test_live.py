"""A running answer as its readers see it: whole, numbered without holes, and the same however often they look."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import live
from chat.draft import Draft
from chat.live import LiveTurn
from kernel.events import Phase, Progress, StepFinished, TextDelta, ToolFinished, ToolStarted, ToolState, Usage
from kernel.hub import Frame, hub
from kernel.registry import Execution
from tests.reducer import apply, comparable
from tests.waiting import READY_TIMEOUT_S

NEVER_S, AT_ONCE_S = 3600.0, -1.0
_numbers = itertools.count(1)


def said(text: str, *, kind: str = "text", step: int = 1) -> TextDelta:
    return TextDelta(step=step, kind=kind, text=text)


class Reader:
    """A turn, and somebody who follows it."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.changes: list[bool] = []
        self.turn = LiveTurn(
            Execution(id="e", session_key="s"),
            session_id=next(_numbers),
            message_id=7,
            max_steps=8,
            on_change=lambda _turn, now: self.changes.append(now),
        )

    def deliver(self, frame: Frame) -> None:
        self.frames.append(frame.data)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == f"studio_chat_{kind}"]

    def snapshot(self) -> dict[str, Any]:
        """What a subscribe would return now."""
        live = self.turn.snapshot()
        message = {"id": "7", "role": "assistant", "status": "streaming", "parts": live["parts"], "text": live["text"]}
        return {"session": {}, "messages": [message], "queue": [], "active": live["active"], "holds": []}


@contextmanager
def following(coalesce_s: float = NEVER_S) -> Iterator[Reader]:
    reader = Reader()
    hub.subscribe(reader.turn.topic, reader.deliver)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live, "COALESCE_S", coalesce_s)
        try:
            yield reader
        finally:
            reader.turn.close()
            hub.unsubscribe(reader.turn.topic, reader.deliver)


@pytest.fixture
def reader() -> Iterator[Reader]:
    with following() as reader:
        reader.turn.tell(said("first"))  # the first of a silence goes at once
        reader.turn.flush()
        reader.frames.clear()
        yield reader


# Deltas


async def test_the_first_text_of_a_silence_goes_at_once() -> None:
    with following(coalesce_s=0.04) as reader:
        reader.turn.tell(said("a"))
        assert [delta["text"] for delta in reader.of("delta")] == ["a"]


async def test_what_follows_waits_for_more_and_goes_together(reader: Reader) -> None:
    for text in ("a", "b", "c"):
        reader.turn.tell(said(text))
    assert reader.frames == []
    reader.turn.flush()
    [delta] = reader.of("delta")
    assert (delta["text"], delta["offset"], delta["part"], delta["kind"]) == ("abc", 5, 0, "text")
    assert (delta["sessionKey"], delta["executionId"], delta["messageId"]) == ("s", "e", "7")


async def test_what_waits_is_sent_by_itself_after_a_while() -> None:
    with following(coalesce_s=0.01) as reader:
        sent = asyncio.Event()
        reader.turn.tell(said("a"))
        reader.turn.tell(said("b"))
        hub.subscribe(reader.turn.topic, lambda _: sent.set())
        async with asyncio.timeout(READY_TIMEOUT_S):
            await sent.wait()
        assert [delta["text"] for delta in reader.of("delta")] == ["a", "b"]


async def test_offsets_count_code_points(reader: Reader) -> None:
    reader.turn.tell(said("👩‍🚀é"))
    reader.turn.flush()
    reader.turn.tell(said("x"))
    reader.turn.flush()
    assert [delta["offset"] for delta in reader.of("delta")] == [5, 5 + len("👩‍🚀é")]


async def test_another_kind_or_step_begins_another_part_with_its_own_offsets(reader: Reader) -> None:
    reader.turn.tell(said("hm", kind="reasoning"))
    reader.turn.tell(said("b"))
    reader.turn.tell(said("c", step=2))
    reader.turn.flush()
    deltas = [(delta["part"], delta["kind"], delta["offset"], delta["text"]) for delta in reader.of("delta")]
    assert deltas == [(1, "reasoning", 0, "hm"), (2, "text", 0, "b"), (3, "text", 0, "c")]


async def test_waiting_text_goes_before_any_other_event(reader: Reader) -> None:
    reader.turn.tell(said("a"))
    reader.turn.tell(ToolStarted(step=1, call_id="c", name="add", input=None))
    reader.turn.tell(said("b", step=2))
    reader.turn.publish("result", {"ok": True})
    assert [frame["type"].removeprefix("studio_chat_") for frame in reader.frames] == [
        "delta",
        "tool",
        "delta",
        "result",
    ]


async def test_nothing_is_told_after_the_close(reader: Reader) -> None:
    reader.turn.tell(said("a"))
    reader.turn.flush()
    reader.turn.close()
    before = list(reader.frames)
    reader.turn.tell(said("too late"))
    reader.turn.tell(Progress(phase=Phase.TOOL))
    reader.turn.stopping()
    reader.turn.flush()
    assert reader.frames == before
    assert reader.turn.draft.text() == "firsta"


# Tools and progress


async def test_a_tool_is_told_from_its_begin_to_its_end(reader: Reader) -> None:
    reader.turn.tell(ToolStarted(step=1, call_id="c", name="add", input=None))
    reader.turn.tell(ToolStarted(step=1, call_id="c", name="add", input={"a": 1}))
    reader.turn.tell(ToolFinished(step=1, call_id="c", name="add", state=ToolState.COMPLETED, output="1"))
    told = [(tool["part"], tool["state"], tool.get("input"), tool.get("output")) for tool in reader.of("tool")]
    assert told == [(1, "running", None, None), (1, "running", {"a": 1}, None), (1, "completed", {"a": 1}, "1")]


async def test_progress_tells_the_phase_and_only_what_there_is(reader: Reader) -> None:
    reader.turn.execution.usage = Usage(output_tokens=10)
    reader.turn.execution.pending = Usage(output_tokens=2)
    reader.turn.tell(Progress(phase=Phase.RETRYING, step=2, max_steps=8, attempt=3, retry_in_ms=1500))
    [progress] = reader.of("progress")
    assert (progress["phase"], progress["step"], progress["maxSteps"]) == ("retrying", 2, 8)
    assert (progress["attempt"], progress["retryInMs"]) == (3, 1500)
    assert "tool" not in progress
    assert progress["outputTokens"] == 12
    assert progress["elapsedMs"] >= 0


async def test_a_stop_is_shown_as_the_phase_it_is(reader: Reader) -> None:
    reader.turn.tell(Progress(phase=Phase.STREAMING, step=3, max_steps=8))
    reader.turn.stopping()
    assert [(each["phase"], each["step"]) for each in reader.of("progress")] == [("streaming", 3), ("stopping", 3)]


async def test_text_is_worth_keeping_soon_and_a_finished_step_or_tool_at_once(reader: Reader) -> None:
    reader.changes.clear()
    reader.turn.tell(said("a"))
    reader.turn.tell(ToolStarted(step=1, call_id="c", name="add", input=None))
    assert True not in reader.changes
    reader.turn.tell(ToolFinished(step=1, call_id="c", name="add", state=ToolState.ERROR, error="no"))
    assert reader.changes.pop() is True
    reader.turn.tell(StepFinished(step=1))
    assert reader.changes.pop() is True


# Whatever is told, whenever somebody looks

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
STEPS = st.lists(
    st.lists(
        st.one_of(
            st.tuples(st.just("text"), TEXT),
            st.tuples(st.just("reasoning"), TEXT),
            st.tuples(st.just("tool"), st.sampled_from(ToolState)),
            st.tuples(st.just("flush"), st.just("")),
        ),
        max_size=6,
    ),
    max_size=4,
)


def script(steps: list[list[tuple[str, str]]]) -> list[Any]:
    """The events of a run, with a None where what waits is sent."""
    events: list[Any] = []
    for number, step in enumerate(steps, 1):
        events.append(Progress(phase=Phase.WAITING, step=number, max_steps=8))
        for position, (kind, what) in enumerate(step):
            call = {"step": number, "call_id": f"c{number}-{position}", "name": "add"}
            match kind:
                case "tool":
                    events += [ToolStarted(**call, input=None), ToolStarted(**call, input={"a": position})]
                    events.append(ToolFinished(**call, state=ToolState(what), output="1"))
                case "flush":
                    events.append(None)
                case _:
                    events.append(said(what, kind=kind, step=number))
        events.append(StepFinished(step=number))
    return events


def play(reader: Reader, events: list[Any]) -> None:
    for event in events:
        if event is None:
            reader.turn.flush()
        else:
            reader.turn.tell(event)


@given(STEPS, st.sampled_from([NEVER_S, AT_ONCE_S]))
async def test_events_are_numbered_without_holes_and_their_text_is_what_is_kept(
    steps: list[list[tuple[str, str]]], coalesce_s: float
) -> None:
    with following(coalesce_s) as reader:
        play(reader, script(steps))
        reader.turn.flush()
        assert [frame["seq"] for frame in reader.frames] == list(range(1, len(reader.frames) + 1))
        joined: dict[int, str] = {}
        for delta in reader.of("delta"):
            assert delta["offset"] == len(joined.get(delta["part"], ""))
            joined[delta["part"]] = joined.get(delta["part"], "") + delta["text"]
        parts = reader.turn.draft.parts()
        assert joined == {index: part["text"] for index, part in enumerate(parts) if part["kind"] != "tool"}
        assert reader.turn.draft.text() == "".join(part["text"] for part in parts if part["kind"] == "text")


@given(STEPS, st.sampled_from([NEVER_S, AT_ONCE_S]), st.integers(0, 40))
async def test_the_events_after_a_snapshot_lead_to_the_next_snapshot(
    steps: list[list[tuple[str, str]]], coalesce_s: float, at: int
) -> None:
    with following(coalesce_s) as reader:
        reader.turn.tell(Progress(phase=Phase.STARTING, max_steps=8))
        events = script(steps)
        play(reader, events[:at])
        early = reader.snapshot()
        reader.frames.clear()
        play(reader, events[at:])
        late = reader.snapshot()
        assert comparable(apply(reader.frames, early)) == comparable(late)


# The draft


def test_reading_a_draft_does_not_change_it() -> None:
    draft = Draft()
    draft.add_text(said("a"))
    before = draft.parts()
    before[0]["text"] = "changed"
    draft.part(0)["text"] = "changed"
    draft.add_text(said("b"))
    assert draft.text() == "ab"
    [part] = draft.parts()
    assert part["text"] == "ab"


def test_reasoning_is_a_part_and_not_the_text() -> None:
    draft = Draft()
    draft.add_text(said("hm", kind="reasoning"))
    draft.add_text(said("a"))
    assert draft.text() == "a"
    assert [part["kind"] for part in draft.parts()] == ["reasoning", "text"]
