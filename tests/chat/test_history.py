"""What the model is shown of stored messages: all that was said, in a form that the strictest provider accepts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.history import (
    CONTINUE,
    EARLIER,
    NO_ANSWER,
    NO_MESSAGE,
    NO_OUTPUT,
    NO_RESULT,
    StoredMessage,
    close_parts,
    to_model_messages,
)
from kernel.tools import safe_name


def said(text: str) -> StoredMessage:
    return StoredMessage(role="user", text=text)


def answered(*parts: dict[str, Any], status: str = "completed", text: str = "") -> StoredMessage:
    return StoredMessage(role="assistant", status=status, text=text, parts=list(parts))


def text(words: str, *, step: int = 1, kind: str = "text") -> dict[str, Any]:
    return {"kind": kind, "step": step, "text": words}


def call(call_id: str, *, step: int = 1, name: str = "search", state: str = "completed", **more: Any) -> dict[str, Any]:
    part = {"kind": "tool", "step": step, "callId": call_id, "name": name, "state": state}
    return {**part, "input": {}, "output": None, "error": None, **more}


def result_of(part: dict[str, Any]) -> str:
    """The text by which the model is told of a call's end."""
    [message] = [m for m in to_model_messages([said("q"), answered(part)]) if m["role"] == "tool"]
    return message["content"]


def test_each_step_is_an_answer_with_its_calls_and_then_their_results() -> None:
    answer = answered(
        text("Let me "),
        text("thinking", kind="reasoning"),
        text("look."),
        call("a", input={"q": "ü"}, output="found"),
        call("b", state="error", error="broken"),
        text("It is there.", step=2),
    )
    assert to_model_messages([said("Where?"), answer, said("Thanks")]) == [
        {"role": "user", "content": "Where?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "search", "arguments": '{"q": "ü"}'}},
                {"id": "b", "type": "function", "function": {"name": "search", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "found"},
        {"role": "tool", "tool_call_id": "b", "content": "Error: broken"},
        {"role": "assistant", "content": "It is there."},
        {"role": "user", "content": "Thanks"},
    ]


@pytest.mark.parametrize("status", ["streaming", "completed", "error", "aborted"])
def test_an_answer_is_shown_whatever_its_status(status: str) -> None:
    messages = to_model_messages([said("1"), answered(text("part"), status=status), said("2")])
    assert [m["content"] for m in messages] == ["1", "part", "2"]


def test_an_answer_without_parts_is_its_text() -> None:
    assert to_model_messages([said("1"), answered(text="old"), said("2")])[1]["content"] == "old"


def test_reasoning_is_never_shown() -> None:
    messages = to_model_messages([said("1"), answered(text("secret", kind="reasoning"), text("open")), said("2")])
    assert "secret" not in str(messages)


def test_a_call_whose_arguments_never_arrived_is_dropped() -> None:
    messages = to_model_messages([said("1"), answered(text("I "), call("a", state="aborted", input=None)), said("2")])
    assert messages[1] == {"role": "assistant", "content": "I "}


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (call("a", output="found"), "found"),
        (call("a", output=""), NO_OUTPUT),
        (call("a", state="error", error="broken"), "Error: broken"),
        (call("a", state="aborted", error="stopped"), "Error: stopped"),
        (call("a", state="unstoppable", error="goes on"), "Error: goes on"),
        (call("a", state="running"), NO_RESULT),
        (call("a", state="aborted"), NO_RESULT),
    ],
)
def test_every_call_has_a_result(part: dict[str, Any], content: str) -> None:
    assert result_of(part) == content


@pytest.mark.parametrize("answer", [answered(), answered(text(" \n")), answered(call("a", input=None))])
def test_an_answer_that_holds_nothing_is_a_stand_in_between_two_messages(answer: StoredMessage) -> None:
    contents = [m["content"] for m in to_model_messages([said("1"), answer, said("2")])]
    assert contents == ["1", NO_ANSWER, "2"]


def test_a_turn_that_ended_in_its_tools_has_a_stand_in_before_the_next_message() -> None:
    roles = [m["role"] for m in to_model_messages([said("1"), answered(call("a", output="x")), said("2")])]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


def test_a_window_that_begins_with_an_answer_keeps_it() -> None:
    contents = [m["content"] for m in to_model_messages([answered(text("cut off here")), said("2")])]
    assert contents == [EARLIER, "cut off here", "2"]


def test_two_answers_in_a_row_are_one() -> None:
    messages = to_model_messages([said("1"), answered(text("a")), answered(text("b"), call("c", output="x"))])
    assert messages[1]["content"] == "a\n\nb"
    assert [each["id"] for each in messages[1]["tool_calls"]] == ["c"]


def test_an_answer_at_the_end_is_asked_to_go_on() -> None:
    assert to_model_messages([said("1"), answered(text("half"))])[-1] == {"role": "user", "content": CONTINUE}


def test_an_empty_message_is_not_sent_empty() -> None:
    assert to_model_messages([said(" ")]) == [{"role": "user", "content": NO_MESSAGE}]


def test_ids_that_a_provider_would_refuse_are_replaced() -> None:
    calls = [call(call_id, output="x") for call_id in ("a", "a", "", "x" * 41, "a b")]
    messages = to_model_messages([said("1"), answered(*calls)])
    assert [each["id"] for each in messages[1]["tool_calls"]] == ["a", "a_2", "call", "call_2", "call_3"]


def test_a_name_that_no_provider_accepts_is_made_safe() -> None:
    assert [safe_name(name) for name in ("search", "rm -rf /", "", "x" * 99)] == [
        "search",
        "rm_-rf__",
        "unknown",
        "x" * 64,
    ]


def check_as_the_strictest_provider(messages: list[dict[str, Any]]) -> None:
    """What Anthropic, Mistral, OpenAI and the templates of local models together ask of a conversation."""
    assert messages[0]["role"] == "user"
    assert messages[-1]["role"] in ("user", "tool")
    ids: set[str] = set()
    owed: list[str] = []
    before = ""
    for message in messages:
        role, content, calls = message["role"], message["content"], message.get("tool_calls")
        assert calls or (isinstance(content, str) and content.strip())
        assert (role == "tool") == bool(owed)
        if role == "tool":
            assert message["tool_call_id"] == owed.pop(0)
        else:
            assert role in ("user", "assistant")
            assert before != role
            assert (role, before) != ("user", "tool")
        if calls is not None:
            assert role == "assistant"
            owed = [each["id"] for each in calls]
            assert owed
            assert ids.isdisjoint(owed)
            assert len(set(owed)) == len(owed)
            ids |= set(owed)
            for each in calls:
                assert isinstance(json.loads(each["function"]["arguments"]), dict)
                assert each["function"]["name"] == safe_name(each["function"]["name"])
        before = role
    assert not owed


texts = st.text(max_size=8)
steps = st.integers(1, 3)
json_objects = st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=2)
tool_parts = st.fixed_dictionaries(
    {
        "kind": st.just("tool"),
        "step": steps,
        "callId": st.sampled_from(["", "a", "b", "a_2", "call", "x" * 80]) | texts,
        "name": st.sampled_from(["search", ""]) | texts,
        "state": st.sampled_from(["running", "completed", "error", "aborted", "unstoppable"]),
        "input": st.none() | json_objects,
        "output": st.none() | texts,
        "error": st.none() | texts,
    }
)
text_parts = st.fixed_dictionaries({"kind": st.sampled_from(["text", "reasoning"]), "step": steps, "text": texts})
part_lists = st.lists(text_parts | tool_parts, max_size=6)
stored = st.builds(
    StoredMessage,
    role=st.sampled_from(["user", "assistant"]),
    status=st.sampled_from(["streaming", "completed", "error", "aborted"]),
    text=texts,
    parts=part_lists,
)


@given(st.lists(stored, min_size=1, max_size=6))
def test_whatever_was_stored_the_strictest_provider_accepts_it(messages: list[StoredMessage]) -> None:
    shown = to_model_messages([*messages, said("and now?")])
    check_as_the_strictest_provider(shown)
    if any(message.role == "user" or message.calls for message in messages):
        check_as_the_strictest_provider(to_model_messages(messages))


@given(st.lists(stored, max_size=6))
def test_nothing_that_was_said_is_lost(messages: list[StoredMessage]) -> None:
    shown = "\0".join(str(m["content"]) for m in to_model_messages(messages))
    for message in messages:
        spoken = [message.text] if message.role == "user" else [p["text"] for p in message.parts if p["kind"] == "text"]
        assert all(words in shown for words in spoken if words.strip())


@given(part_lists)
def test_closing_ends_what_runs_and_touches_nothing_else(parts: list[dict[str, Any]]) -> None:
    closed = close_parts(parts, "It ended.")
    assert len(closed) == len(parts)
    for before, after in zip(parts, closed, strict=True):
        if before.get("state") == "running":
            assert after == {**before, "state": "aborted", "error": before["error"] or "It ended."}
        else:
            assert after == before
    assert close_parts(closed, "It ended again.") == closed
