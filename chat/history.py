"""What the model is shown of a conversation: stored messages in, messages of OpenAI's chat form out. Pure.

`to_model_messages` promises that the strictest provider accepts the result, whatever was stored: it begins with the
user and never ends with the assistant, the user's messages never follow one another or a tool's, every call is answered
directly after it, ids are unique, and nothing is empty. It keeps all content that it can, except reasoning, which no
provider takes back unsigned.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import Any

from kernel.events import ToolState
from kernel.tools import safe_name

Part = dict[str, Any]
ModelMessage = dict[str, Any]

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")  # what every provider takes back, also from another one

# Stand-ins, never stored: they keep the roles alternating where nothing was said.
EARLIER = "(Earlier messages are not shown.)"
CONTINUE = "(Continue your last answer where it ended.)"
NO_MESSAGE = "(empty message)"
NO_ANSWER = "(no answer)"
NO_OUTPUT = "(no output)"
NO_RESULT = "Error: It ended before it had a result; it may have had effects."


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredMessage:
    """A message as it was kept: `role` is `user` or `assistant`, `parts` are those of the wire contract."""

    role: str
    status: str = "completed"
    text: str = ""
    parts: Sequence[Part] = field(default_factory=list)

    @property
    def cut_short(self) -> bool:
        """Aborted, or about to be: a run that is being stopped may still read `streaming`."""
        return self.status in ("aborted", "streaming")

    @property
    def ended_uncleanly(self) -> bool:
        return self.cut_short or self.status == "error"

    @property
    def calls(self) -> list[Part]:
        """The tool calls whose arguments arrived whole. Of the others nothing can be said or answered."""
        return _calls(self.parts)


def to_model_messages(messages: Iterable[StoredMessage]) -> list[ModelMessage]:
    """The conversation as a provider may be sent it, without the system prompt, whatever the status of its messages."""
    conversation = _Conversation()
    for message in messages:
        if message.role == "user":
            conversation.user(message.text)
        else:
            for text, calls in _steps(message):
                conversation.assistant(text, calls)
    return conversation.to_be_answered()


def close_parts(parts: Iterable[Part], reason_text: str) -> list[Part]:
    """The parts of a message that ends uncleanly: what was running is aborted, with `reason_text` for its error."""
    return [
        {**part, "state": ToolState.ABORTED.value, "error": part.get("error") or reason_text}
        if part["kind"] == "tool" and part.get("state") == ToolState.RUNNING
        else part
        for part in parts
    ]


def _calls(parts: Iterable[Part]) -> list[Part]:
    return [part for part in parts if part["kind"] == "tool" and part.get("input") is not None]


def _steps(message: StoredMessage) -> list[tuple[str, list[Part]]]:
    """The text and the calls of each step; a message without parts is one step."""
    if not message.parts:
        return [(message.text, [])]
    steps = [list(parts) for _, parts in groupby(message.parts, key=lambda part: part.get("step"))]
    return [("".join(part["text"] for part in step if part["kind"] == "text"), _calls(step)) for step in steps]


class _Conversation:
    """The messages so far, each added in a way that keeps the promise."""

    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._ids: set[str] = set()

    def to_be_answered(self) -> list[ModelMessage]:
        if self._messages and self._last_role == "assistant":
            self.user(CONTINUE)
        return self._messages

    def user(self, text: str) -> None:
        if self._messages and self._last_role != "assistant":
            self._say(NO_ANSWER)
        self._messages.append({"role": "user", "content": text if text.strip() else NO_MESSAGE})

    def assistant(self, text: str, calls: Sequence[Part]) -> None:
        if not text.strip() and not calls:
            return
        if not self._messages:
            self.user(EARLIER)
        self._say(text)
        if calls:
            ids = [self._unique_id(call.get("callId")) for call in calls]
            self._messages[-1]["tool_calls"] = [_call(call, call_id) for call, call_id in zip(calls, ids, strict=True)]
            self._messages += [_result(call, call_id) for call, call_id in zip(calls, ids, strict=True)]

    def _say(self, text: str) -> None:
        """Add text of the assistant's, to what it has just said if it has."""
        content = text if text.strip() else None
        if self._last_role != "assistant":
            self._messages.append({"role": "assistant", "content": content})
        elif content is not None:
            self._messages[-1]["content"] += f"\n\n{content}"

    @property
    def _last_role(self) -> str:
        return self._messages[-1]["role"]

    def _unique_id(self, wanted: object) -> str:
        base = wanted if isinstance(wanted, str) and CALL_ID.fullmatch(wanted) else "call"
        candidates = (base if number == 1 else f"{base[:32]}_{number}" for number in count(1))
        call_id = next(each for each in candidates if each not in self._ids)
        self._ids.add(call_id)
        return call_id


def _call(call: Part, call_id: str) -> dict[str, Any]:
    given = call["input"] if isinstance(call["input"], dict) else {}
    function = {"name": safe_name(call["name"]), "arguments": json.dumps(given, ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}


def _result(call: Part, call_id: str) -> ModelMessage:
    if call.get("error"):
        content = f"Error: {call['error']}"
    elif call.get("output") is not None:
        content = call["output"] if call["output"].strip() else NO_OUTPUT
    else:
        content = NO_RESULT
    return {"role": "tool", "tool_call_id": call_id, "content": content}
