"""What the scripted provider is told to do with one request, and what a strict provider would find wrong with it. Pure.

A test writes its orders into the user's message, where they survive every history and prompt:

    directive(id="a", n=60, rate=20)   ->   "[[id=a n=60 rate=20]]"

The last directive of the last user message counts. A request without one gets a short default answer.
"""

import itertools
import json
import re
from dataclasses import dataclass, fields
from typing import Any

DIRECTIVE = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
NEVER = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """Orders for one request. Seconds may be `inf`. Positions count sent deltas, reasoning and text together."""

    id: str = ""  # the name under which the request is recorded
    n: int = 3  # deltas of text in the answer
    rate: float = 0  # deltas a second; 0 sends them all at once
    word: str = "w"  # delta number 7 is "w7 "
    pad: int = 0  # further characters in each delta
    reason: int = 0  # deltas of reasoning before the text
    hdr: float = 0  # seconds before the response headers
    ttft: float = 0  # seconds between the headers and the first delta
    empty: float = 0  # if set: from `emptyat` on empty deltas for ever, one each so many seconds
    emptyat: int = 0
    hold: int = NEVER  # at this position wait for `Provider.release(id)`
    hang: int = NEVER  # at this position send nothing more and keep the connection
    reset: int = NEVER  # at this position reset the connection (RST)
    cut: int = NEVER  # at this position close the connection in the middle of the HTTP body
    eof: int = NEVER  # at this position end the HTTP body cleanly: half an answer
    error: int = NEVER  # at this position send an error event and end the body
    garbage: int = NEVER  # at this position send what is no event, nor text, and close the connection
    status: int = 0  # if set: answer with this HTTP status instead …
    fails: int = 1_000_000  # … to the first so many requests of this id
    after: str = ""  # Retry-After of such an answer
    call: tuple[tuple[str, str], ...] = ()  # tool calls (name, JSON arguments), all in one step
    turns: int = 1  # steps answered with those calls before the answer in text
    pre: int = 0  # deltas of text before the calls
    hangargs: int = NEVER  # hang after so many pieces of the calls' arguments
    usage: int = 1  # 0: never tell usage, not even when asked
    strict: int = 0  # 1: refuse what `problems` finds with 400


_TYPES = {field.name: field.type for field in fields(Script)}


def directive(**orders: Any) -> str:
    """Write orders as the text of a message. `call` is a list of (name, arguments); arguments may be raw text."""
    words = []
    for key, value in orders.items():
        if key not in _TYPES:
            raise TypeError(f"the provider knows no order {key!r}")
        if key == "call":
            for name, arguments in value:
                raw = arguments if isinstance(arguments, str) else json.dumps(arguments, separators=(",", ":"))
                words.append(f"call={name}:{raw}")
        else:
            words.append(f"{key}={value}")
    return f"[[{' '.join(words)}]]"


def script_of(messages: list[dict[str, Any]]) -> Script:
    """Read the orders of the last user message that holds any."""
    for message in reversed(messages):
        if message.get("role") == "user":
            found = DIRECTIVE.findall(text_of(message.get("content")))
            return _parse(found[-1]) if found else Script()
    return Script()


def _parse(words: str) -> Script:
    values: dict[str, Any] = {}
    calls = []
    for word in words.split():
        key, _, value = word.partition("=")
        if key == "call":
            name, _, arguments = value.partition(":")
            calls.append((name, arguments))
        else:
            values[key] = _TYPES[key](value)  # type: ignore[operator]  # the fields' types are plain classes
    return Script(**values, call=tuple(calls))


def text_of(content: Any) -> str:
    """The text of a message's content, whether written as a string or as parts."""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or [])


def problems(messages: list[dict[str, Any]]) -> list[str]:
    """What the strictest provider would refuse: unpaired calls, half arguments, empty answers, roles out of turn."""
    return [*_unpaired(messages), *_unordered(messages)]


def _unpaired(messages: list[dict[str, Any]]) -> list[str]:
    found, open_calls = [], set[str]()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                found.append(f"result without a call: {message.get('tool_call_id')}")
            open_calls.discard(message.get("tool_call_id", ""))
            continue
        found += [f"call without a result: {call}" for call in sorted(open_calls)]
        open_calls = {call["id"] for call in message.get("tool_calls") or []}
        for call in message.get("tool_calls") or []:
            if not _is_object(call["function"]["arguments"]):
                found.append(f"arguments are no JSON object: {call['id']}")
    return found + [f"call without a result: {call}" for call in sorted(open_calls)]


def _is_object(raw: str) -> bool:
    try:
        return isinstance(json.loads(raw), dict)
    except ValueError:
        return False


def _unordered(messages: list[dict[str, Any]]) -> list[str]:
    found = []
    turns = [message for message in messages if message["role"] != "system"]
    roles = [message["role"] for message in turns]
    if roles[:1] != ["user"]:
        found.append("the first message is not the user's")
    if roles[-1:] not in (["user"], ["tool"]):
        found.append("the last message is neither the user's nor a result")
    found += [f"two {a} messages in a row" for a, b in itertools.pairwise(roles) if a == b != "tool"]
    for message in turns:
        if not text_of(message.get("content")).strip() and not message.get("tool_calls"):
            found.append(f"an empty {message['role']} message")
    return found
