"""The scripted demo: deterministic, labelled, and a `Model` like the others."""

import asyncio
import json
import math
from typing import Any

import pytest

from chat import history
from kernel.llm import demo
from kernel.llm.demo import COMMANDS, CONTINUE, DemoModel, tokens
from kernel.llm.model import CallDelta, Delta, Finished, ModelError, ModelEvent, ModelRequest
from tests.waiting import READY_TIMEOUT_S

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "note": {"type": "string"}},
            "required": ["a", "b"],
        },
    },
}


class Pace:
    """Waits for nothing, except for ever; remembers what it was asked to wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.silent = asyncio.Event()

    async def __call__(self, wait_s: float) -> None:
        if wait_s == math.inf:
            self.silent.set()
            await asyncio.Event().wait()
        self.waits.append(wait_s)


def request(text: str, *, system: str = "Be helpful.", before: list[dict[str, Any]] | None = None, **more: Any):
    messages = [{"role": "system", "content": system}, *(before or []), {"role": "user", "content": text}]
    return ModelRequest(model=demo.NAME, messages=messages, **more)


async def answer(asked: ModelRequest, pace: Pace | None = None) -> list[ModelEvent]:
    return [event async for event in DemoModel(pace=pace or Pace()).stream(asked)]


def text(events: list[ModelEvent], kind: str = "text") -> str:
    return "".join(event.text for event in events if isinstance(event, Delta) and event.kind == kind)


@pytest.mark.parametrize("said", ["hello", "", *sorted(COMMANDS.keys() - {"/hang", "/error"})])
async def test_every_answer_says_that_it_is_a_scripted_demo_and_ends_with_exactly_one_finish(said: str):
    events = await answer(request(said))
    assert "scripted demo" in text(events)
    assert [event for event in events if isinstance(event, Finished)] == events[-1:]


async def test_the_same_request_gives_the_same_answer():
    assert await answer(request("hello")) == await answer(request("hello"))


async def test_a_plain_message_is_answered_with_the_commands_and_the_way_to_a_real_model():
    said = text(await answer(request("hello")))
    assert "STUDIO_MODEL" in said
    assert all(f"`{command}`" in said for command in COMMANDS)


async def test_usage_counts_what_was_read_and_written():
    events = await answer(request("one two three", system="four five"))
    usage = events[-1].usage
    assert usage.input_tokens == 5
    assert usage.output_tokens == len(events) - 1
    assert not usage.estimated


async def test_an_output_limit_ends_the_answer_with_length():
    events = await answer(request("/long", max_output_tokens=7))
    assert len(events) == 8
    assert events[-1].reason == "length"


async def test_slow_takes_a_minute_at_two_tokens_a_second():
    pace = Pace()
    await answer(request("/slow"), pace)
    assert set(pace.waits) == {0.5}
    assert sum(pace.waits) == 60


async def test_hang_says_some_words_and_is_ended_by_a_cancel():
    pace, events = Pace(), []

    async def listen() -> None:
        events.extend([event async for event in DemoModel(pace=pace).stream(request("/hang"))])

    async with asyncio.timeout(READY_TIMEOUT_S):
        listening = asyncio.create_task(listen())
        await pace.silent.wait()
        listening.cancel()
        await asyncio.wait([listening])
    assert pace.waits
    assert listening.cancelled()


async def test_error_says_some_words_and_then_fails():
    pace = Pace()
    with pytest.raises(ModelError, match="/error"):
        await answer(request("/error"), pace)
    assert pace.waits


async def test_tool_calls_the_first_tool_with_its_required_arguments_in_pieces():
    events = await answer(request("/tool", tools=[ADD]))
    first, *pieces = [event for event in events if isinstance(event, CallDelta)]
    assert first.name == "add"
    assert first.call_id
    assert len(pieces) > 1
    assert json.loads("".join(piece.arguments for piece in pieces)) == {"a": 2, "b": 2}
    assert events[-1].reason == "tool_calls"


async def test_tool_takes_a_name_and_arguments_from_the_person():
    events = await answer(request('/tool add {"a": 40, "b": 2}', tools=[{"function": {"name": "other"}}, ADD]))
    calls = [event for event in events if isinstance(event, CallDelta)]
    assert calls[0].name == "add"
    assert json.loads("".join(call.arguments for call in calls)) == {"a": 40, "b": 2}


async def test_tool_answers_with_the_result_on_the_next_call():
    asked = request("/tool", tools=[ADD])
    asked.messages.extend([{"role": "assistant", "content": "", "tool_calls": []}, {"role": "tool", "content": "4"}])
    events = await answer(asked)
    assert text(events).endswith("4")
    assert events[-1].reason == "stop"


async def test_tool_without_tools_or_with_an_unknown_one_says_so():
    without = text(await answer(request("/tool")))
    assert all(told in without for told in ("no tool is offered", "STUDIO_TOOLS", "docs/tools.md"))
    assert "'subtract'" in text(await answer(request("/tool subtract", tools=[ADD])))


async def test_think_shows_reasoning_before_the_answer():
    kinds = [event.kind for event in await answer(request("/think")) if isinstance(event, Delta)]
    assert kinds == sorted(kinds)
    assert set(kinds) == {"reasoning", "text"}


async def test_markdown_has_a_table_a_list_and_code():
    said = text(await answer(request("/markdown")))
    assert "| --- |" in said
    assert "\n1. " in said
    assert "```python" in said


async def test_after_an_interruption_it_goes_on_from_its_partial_message():
    before = [{"role": "user", "content": "/long"}, {"role": "assistant", "content": "as far as the river"}]
    note = "Your last message was interrupted by the user and is partial."
    assert "interrupted and is partial" in text(await answer(request("go on", system=note, before=before)))
    assert "as far as the river" in text(await answer(request("go on", system=note, before=before)))
    assert "interrupted" not in text(await answer(request("go on", before=before)))


def asked_for_more(command: str, *partials: str) -> ModelRequest:
    """As the model is shown it: the parts of an answer joined, and the stand-in for a message."""
    before = [{"role": "user", "content": command}, {"role": "assistant", "content": "\n\n".join(partials)}]
    return request(CONTINUE, before=before)


def test_the_line_that_asks_for_more_is_the_one_of_the_history():
    assert CONTINUE == history.CONTINUE


@pytest.mark.parametrize("command", ["/slow", "/long", "/markdown", "/think", "hello"])
async def test_asked_for_more_it_goes_on_where_its_answer_ended(command: str):
    pieces = tokens(text(await answer(request(command))))
    first, second, rest = "".join(pieces[:4]), "".join(pieces[4:9]), "".join(pieces[9:])
    assert text(await answer(asked_for_more(command, first))) == second + rest
    assert text(await answer(asked_for_more(command, first, second))) == rest


async def test_asked_for_more_it_keeps_the_pace_and_thinks_no_second_time():
    pace = Pace()
    await answer(asked_for_more("/slow", "I am a"), pace)
    assert set(pace.waits) == {0.5}
    assert text(await answer(asked_for_more("/think", "I am a")), "reasoning") == ""


async def test_asked_for_more_it_hangs_and_fails_as_before():
    assert demo.script(asked_for_more("/hang", "I am"))[-1:] == [demo.Hang()]
    said = "".join(act.text for act in demo.script(request("/error")) if isinstance(act, demo.Say))
    assert [type(act) for act in demo.script(asked_for_more("/error", said))] == [demo.Fail]


@pytest.mark.parametrize(("partial", "told"), [(demo.MARKDOWN, "was complete"), ("of another", "do not know")])
async def test_asked_for_more_of_what_is_complete_or_not_its_own_it_says_so(partial: str, told: str):
    assert told in text(await answer(asked_for_more("/markdown", partial)))


def test_tokens_joined_are_the_text():
    for written in ("", " a  b\n\nc ", demo.MARKDOWN):
        assert "".join(tokens(written)) == written
