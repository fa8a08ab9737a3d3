"""Client frames: every good one becomes its command, every bad one is refused with the contract's code."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from studio import protocol
from studio.protocol import (
    FRAME_MAX_BYTES,
    REQUEST_ID_MAX,
    TYPES,
    FrameError,
    Panic,
    Ping,
    Send,
    StopSession,
    Subscribe,
    parse,
)

CODES = {"bad_json", "unknown_type", "bad_frame", "too_large"}
STOP = {"type": "studio_chat_stop_session", "sessionKey": "s"}
SEND = {"type": "studio_chat_send", "sessionKey": "s", "text": "hello"}


def refused(frame: Any) -> FrameError:
    with pytest.raises(FrameError) as caught:
        parse(frame if frame is None or isinstance(frame, str) else json.dumps(frame))
    return caught.value


def frame(**fields: Any) -> dict[str, Any]:
    return {**STOP, **fields}


# Good frames


def test_a_frame_becomes_its_command() -> None:
    command = parse(json.dumps({**STOP, "executionId": "e", "requestId": "r"}))
    assert command == StopSession(type="studio_chat_stop_session", sessionKey="s", executionId="e", requestId="r")


def test_what_may_be_left_out_has_its_default() -> None:
    send = parse(json.dumps(SEND))
    assert isinstance(send, Send)
    assert (send.whenBusy, send.interrupted, send.clientMessageId, send.requestId) == ("queue", False, None, None)
    subscribe = parse('{"type":"studio_chat_subscribe","sessionKey":"s"}')
    assert isinstance(subscribe, Subscribe)
    assert (subscribe.limit, subscribe.before) == (50, None)
    panic = parse('{"type":"studio_chat_panic"}')
    assert isinstance(panic, Panic)
    assert (panic.hold, panic.reason, panic.scope) == (False, "", None)


def test_null_is_the_same_as_left_out() -> None:
    nulls = dict.fromkeys(("requestId", "clientMessageId", "roleId", "model", "context"))
    assert parse(json.dumps({**SEND, **nulls})) == parse(json.dumps(SEND))


def test_fields_of_newer_clients_are_ignored() -> None:
    assert isinstance(parse('{"type":"studio_chat_ping","mood":"curious"}'), Ping)


def test_a_context_keeps_only_what_was_given() -> None:
    send = parse(json.dumps({**SEND, "context": {"title": "t", "text": ""}}))
    assert isinstance(send, Send)
    assert send.context is not None
    assert send.context.fields() == {"title": "t", "text": ""}


@pytest.mark.parametrize("key", ["a", "A_b-9", "x" * 64])
def test_a_key_of_a_session_is_taken(key: str) -> None:
    parse(json.dumps(frame(sessionKey=key)))


def test_a_command_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse('{"type":"studio_chat_ping"}').requestId = "x"


# Bad frames


@pytest.mark.parametrize(
    "text",
    ["", "{", "nonsense", '{"type":"studio_chat_ping"} x', '{"a":NaN}', '{"a":Infinity}', "[" * 100_000, "\ufeff{}"],
    ids=["empty", "half", "no JSON", "more after it", "NaN", "Infinity", "too deep", "a byte order mark"],
)
def test_what_is_no_json_is_bad_json(text: str) -> None:
    assert refused(text).code == "bad_json"


def test_a_binary_frame_is_bad_json() -> None:
    assert refused(None).code == "bad_json"


@pytest.mark.parametrize("value", [None, True, 1, "text", [], [STOP]], ids=repr)
def test_what_is_no_object_is_a_bad_frame(value: Any) -> None:
    assert refused(json.dumps(value)).code == "bad_frame"


@pytest.mark.parametrize("value", [{}, {"type": None}, {"type": 7}, {"type": []}], ids=repr)
def test_a_frame_without_a_type_is_a_bad_frame(value: Any) -> None:
    assert refused(value).code == "bad_frame"


@pytest.mark.parametrize(
    "kind", ["", "ping", "studio_chat_ping_ok", "studio_chat_result", "STUDIO_CHAT_PING", "x" * 999]
)
def test_an_unknown_type_is_named_and_not_at_length(kind: str) -> None:
    error = refused({"type": kind, "requestId": "r"})
    assert (error.code, error.request_id) == ("unknown_type", "r")
    assert len(str(error)) < 200


@pytest.mark.parametrize(
    "value",
    [
        {"type": STOP["type"]},
        frame(sessionKey=None),
        frame(sessionKey=7),
        frame(sessionKey=""),
        frame(sessionKey="x" * 65),
        frame(sessionKey="a b"),
        frame(sessionKey="a\n"),
        frame(sessionKey="../etc"),
        frame(sessionKey="ключ"),
        frame(executionId=7),
        frame(executionId=""),
        frame(executionId="x" * 129),
        frame(requestId=7),
        frame(requestId="x" * (REQUEST_ID_MAX + 1)),
        {**SEND, "text": 7},
        {**SEND, "interrupted": "yes"},
        {**SEND, "interrupted": 1},
        {**SEND, "whenBusy": "later"},
        {**SEND, "context": "page"},
        {**SEND, "context": {"title": 7}},
        {**SEND, "clientMessageId": ""},
        {**SEND, "clientMessageId": "x" * 129},
        {**SEND, "model": "x" * 256},
        {"type": "studio_chat_subscribe", "sessionKey": "s", "limit": 0},
        {"type": "studio_chat_subscribe", "sessionKey": "s", "limit": 201},
        {"type": "studio_chat_subscribe", "sessionKey": "s", "limit": 1.5},
        {"type": "studio_chat_subscribe", "sessionKey": "s", "limit": "50"},
        {"type": "studio_chat_subscribe", "sessionKey": "s", "limit": True},
        {"type": "studio_chat_queue_move", "sessionKey": "s", "queueId": "1", "position": -1},
        {"type": "studio_chat_queue_move", "sessionKey": "s", "queueId": "1", "position": 10**30},
        {"type": "studio_chat_queue_hold", "sessionKey": "s", "queueId": "1"},
        {"type": "studio_chat_panic", "hold": "true"},
        {"type": "studio_chat_panic", "reason": "x" * 2001},
        {"type": "studio_chat_panic", "scope": []},
        {"type": "studio_chat_release"},
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_a_missing_or_wrong_field_is_a_bad_frame(value: dict[str, Any]) -> None:
    error = refused(value)
    assert error.code == "bad_frame"
    assert "\n" not in str(error)


def test_the_field_that_is_wrong_is_named_and_its_value_is_not() -> None:
    error = refused({**SEND, "context": {"title": ["secret"]}})
    assert "context.title" in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize("dirt", ["\0", "\ud800", "a\udc00b"], ids=ascii)
@pytest.mark.parametrize(
    "place",
    [
        lambda dirt: {**SEND, "text": dirt},
        lambda dirt: {**SEND, "context": {"text": dirt}},
        lambda dirt: {**SEND, "unknown": {"deep": [1, {"er": dirt}]}},
        lambda dirt: {**SEND, dirt: 1},
        lambda dirt: {"type": dirt},
        lambda dirt: {**SEND, "requestId": dirt},
    ],
    ids=["text", "context", "an unknown field", "a name", "the type", "the request's id"],
)
def test_nul_and_half_characters_are_refused_wherever_they_stand(place: Any, dirt: str) -> None:
    error = refused(place(dirt))
    assert error.code == "bad_frame"
    str(error).encode()
    assert error.request_id is None


def test_a_whole_emoji_is_a_character() -> None:
    send = parse('{"type":"studio_chat_send","sessionKey":"s","text":"\\ud83d\\ude00"}')
    assert isinstance(send, Send)
    assert send.text == "😀"


@pytest.mark.parametrize("letter", ["x", "ж", "😀"])
def test_a_frame_over_the_limit_in_bytes_is_too_large(letter: str) -> None:
    empty = json.dumps({**SEND, "text": ""}, ensure_ascii=False)
    room = FRAME_MAX_BYTES - len(empty.encode())
    fits = letter * (room // len(letter.encode()))
    parse(json.dumps({**SEND, "text": fits}, ensure_ascii=False))
    assert refused(json.dumps({**SEND, "text": fits + letter}, ensure_ascii=False)).code == "too_large"


@pytest.mark.parametrize("request_id", ["r", "x" * REQUEST_ID_MAX, ""])
def test_the_requests_id_comes_back_with_the_refusal(request_id: str) -> None:
    assert refused({"type": "nobody", "requestId": request_id}).request_id == request_id
    assert refused(frame(sessionKey="", requestId=request_id)).request_id == request_id


@pytest.mark.parametrize("request_id", [7, None, ["r"], "x" * (REQUEST_ID_MAX + 1)], ids=str)
def test_an_id_that_is_none_does_not_come_back(request_id: Any) -> None:
    assert refused({"type": "nobody", "requestId": request_id}).request_id is None


# Whatever comes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted({name for kind in protocol.get_args(protocol.AnyCommand) for name in kind.model_fields})
VALUES = JSON | st.sampled_from(["s", "1", True, 50, {"user": "ann"}, {"text": "t"}])
FRAMES = st.fixed_dictionaries({"type": st.sampled_from(sorted(TYPES)) | JSON}).flatmap(
    lambda base: st.dictionaries(st.sampled_from([*FIELDS, "x"]), VALUES).map(lambda more: {**more, **base})
)


def judged(text: str) -> None:
    """Parsed into a command of this very type, or refused with a code; nothing else."""
    try:
        command = parse(text)
    except FrameError as error:
        answer = protocol.error_frame(error)
    else:
        assert isinstance(command, BaseModel)
        assert command.type == json.loads(text)["type"]
        return
    assert answer["code"] in CODES
    assert answer["error"]
    json.dumps(answer, ensure_ascii=False).encode()


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    judged(text)


@given(JSON)
def test_any_json_is_judged(value: Any) -> None:
    judged(json.dumps(value))


@given(FRAMES)
def test_any_frame_of_a_known_type_is_judged(value: dict[str, Any]) -> None:
    judged(json.dumps(value))


# Replies


def test_a_reply_has_what_every_reply_has() -> None:
    reply = protocol.reply("studio_chat_ping", None, {"more": 1})
    assert reply == {
        "type": "studio_chat_ping_ok",
        "ok": True,
        "requestId": None,
        "timestamp": reply["timestamp"],
        "more": 1,
    }
    assert isinstance(reply["timestamp"], int)


def test_a_refusal_is_a_reply_that_says_no() -> None:
    refusal = protocol.refusal("studio_chat_send", "r", "held", "On hold.", {"sessionKey": "s"})
    told = {name: refusal[name] for name in ("type", "ok", "requestId", "code", "error", "sessionKey")}
    assert told == {
        "type": "studio_chat_send_ok",
        "ok": False,
        "requestId": "r",
        "code": "held",
        "error": "On hold.",
        "sessionKey": "s",
    }


def test_a_frame_that_was_not_understood_is_answered_with_its_code() -> None:
    answer = protocol.error_frame(FrameError("bad_frame", "Wrong.", "r"))
    assert (answer["type"], answer["ok"], answer["code"], answer["requestId"]) == (
        "studio_chat_error",
        False,
        "bad_frame",
        "r",
    )
