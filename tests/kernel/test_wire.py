"""Chunks as providers really send them, and what the kernel hears of them."""

from typing import Any

import orjson
import pytest

from kernel.llm.model import CallDelta, Delta, ModelEvent
from kernel.llm.wire import AnswerReader, StreamedError

TEXT = Delta(kind="text", text="t")
THOUGHT = Delta(kind="reasoning", text="r")


def chunk(delta: Any, reason: str | None = None, **more: Any) -> bytes:
    return orjson.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more})


def heard(*chunks: bytes) -> list[ModelEvent]:
    reader = AnswerReader()
    return [event for each in chunks for event in reader.read(each)]


@pytest.mark.parametrize(
    ("delta", "events"),
    [
        ({"content": "t"}, [TEXT]),
        ({"role": "assistant", "content": ""}, []),
        ({"content": None}, []),
        ({}, []),
        (None, []),
        ({"reasoning_content": "r"}, [THOUGHT]),
        ({"reasoning": "r"}, [THOUGHT]),
        ({"reasoning": "r", "reasoning_content": "r", "content": "t"}, [THOUGHT, TEXT]),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}]}, [THOUGHT]),
        ({"content": [{"type": "text", "text": "t"}]}, [TEXT]),
        ({"refusal": "t"}, [TEXT]),
        ({"content": "t", "refusal": None, "tool_calls": None}, [TEXT]),
    ],
)
def test_a_delta_is_heard_whichever_name_it_goes_by(delta: Any, events: list[ModelEvent]) -> None:
    assert heard(chunk(delta)) == events


def call(index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = "") -> Any:
    told: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    return told | ({} if index is None else {"index": index}) | ({} if call_id is None else {"id": call_id})


@pytest.mark.parametrize(
    "calls",
    [
        [call(0, "a", "add"), call(0, arguments="1"), call(1, "b", "sub"), call(1, arguments="2")],
        [call(0, "a", "add"), call(1, "b", "sub"), call(0, arguments="1"), call(1, arguments="2")],
        [call(None, "a", "add", "1"), call(None, "b", "sub", "2")],
        [call(None, "a", "add"), call(None, arguments="1"), call(None, "b", "sub"), call(None, arguments="2")],
        [call(None, None, "add", "1"), call(None, None, "sub", "2")],
        [call(0, "a", "add", "1"), call(0, "b", "sub", "2")],
        [call(0, "a", "add"), call(0, "a", "add", "1"), call(4, "b", "sub"), call(4, "b", None, "2")],
    ],
    ids=["by index", "woven", "whole without index", "without index", "without id", "one index", "repeated id"],
)
def test_each_call_keeps_its_pieces_however_the_provider_numbers_them(calls: list[Any]) -> None:
    deltas = [
        event for event in heard(*(chunk({"tool_calls": [each]}) for each in calls)) if isinstance(event, CallDelta)
    ]
    names = {delta.index: delta.name for delta in deltas if delta.name}
    arguments = {index: "".join(d.arguments for d in deltas if d.index == index) for index in names}
    assert {names[index]: arguments[index] for index in names} == {"add": "1", "sub": "2"}
    assert sorted(names) == [0, 1]


def test_arguments_that_come_as_an_object_are_written_as_json() -> None:
    [event] = heard(chunk({"tool_calls": [call(0, "a", "add", {"a": 1})]}))
    assert isinstance(event, CallDelta)
    assert event.arguments == '{"a": 1}'


def test_usage_is_kept_from_the_last_chunk_that_has_any() -> None:
    reader = AnswerReader()
    for data in (chunk({"content": "t"}, usage={"n": 1}), orjson.dumps({"choices": [], "usage": {"n": 2}})):
        list(reader.read(data))
    assert reader.counted is not None
    assert reader.counted["usage"] == {"n": 2}


def test_the_last_reason_counts_and_done_is_no_chunk() -> None:
    reader = AnswerReader()
    for data in (chunk({}, "length"), chunk({}), orjson.dumps({"choices": None}), b"[DONE]"):
        assert list(reader.read(data)) == []
    assert (reader.finish_reason, reader.done) == ("length", True)


def test_half_a_surrogate_pair_is_passed_on_for_its_other_half() -> None:
    halves = ["\\ud83d", "\\udc0d"]
    first, second = heard(*(b'{"choices":[{"delta":{"content":"%s"}}]}' % half.encode() for half in halves))
    assert (first.text, second.text) == ("\ud83d", "\udc0d")


@pytest.mark.parametrize(
    ("error", "said", "status"),
    [
        ({"message": "overloaded", "code": 503}, "overloaded", 503),
        ({"message": "slow down", "code": "429"}, "slow down", 429),
        ({"message": "no", "code": "context_length_exceeded"}, "no", 500),
        ({"type": "x"}, '{"type": "x"}', 500),
        ("broken", "broken", 500),
    ],
)
def test_an_error_in_the_stream_is_raised_with_its_words_and_status(error: Any, said: str, status: int) -> None:
    with pytest.raises(StreamedError) as caught:
        heard(orjson.dumps({"error": error}))
    assert (caught.value.said, caught.value.status) == (said, status)


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_a_reason_that_is_a_failure_is_one(reason: str) -> None:
    with pytest.raises(StreamedError):
        heard(chunk({}, reason))


@pytest.mark.parametrize("data", [b"{", b"7", b'{"choices":[7]}', b'{"choices":[{"delta":7}]}', b"\xff"])
def test_what_is_no_chunk_is_not_taken_for_one(data: bytes) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        heard(data)
