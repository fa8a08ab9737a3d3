"""OpenAI's wire: the chunks of one streamed answer as the kernel's events. Pure.

It is lenient where providers differ: reasoning under two names, content in blocks, calls without an index or all under
the same one, usage with no choice or with every chunk, a refusal instead of content.
"""

import json
from collections.abc import Iterator
from typing import Any

import orjson

from kernel.llm.model import CallDelta, Delta, ModelEvent

DONE = b"[DONE]"
# What some providers say as a reason when they have failed.
FAILED = ("error", "abort")

Json = dict[str, Any]


class StreamedError(Exception):
    """The provider told of an error in the stream. `status` is what it would have been for a whole answer."""

    def __init__(self, said: str, status: int):
        super().__init__(said)
        self.said = said
        self.status = status


class AnswerReader:
    """Reads the chunks of one answer.

    `finish_reason` is empty until the provider gave one, `counted` is the last chunk that held usage, `done` says that
    nothing more will come.
    """

    def __init__(self) -> None:
        self.finish_reason = ""
        self.counted: Json | None = None
        self.done = False
        self._call_ids: dict[int, str] = {}  # by our index
        self._indices: dict[int, int] = {}  # the provider's index: ours

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield what one event's data holds. Raises `StreamedError`, and what Python does for what is no chunk."""
        self.done = self.done or data == DONE
        if self.done:
            return
        chunk = _parsed(data)
        if chunk.get("error"):
            raise _streamed_error(chunk["error"])
        if chunk.get("usage"):
            self.counted = chunk
        choices = chunk.get("choices")
        if not choices:
            return
        choice = choices[0]
        if delta := choice.get("delta"):
            yield from self._events(delta)
        if reason := choice.get("finish_reason"):
            if reason in FAILED:
                raise StreamedError("", 500)
            self.finish_reason = str(reason)

    def _events(self, delta: Json) -> Iterator[ModelEvent]:
        if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
            yield Delta(kind="reasoning", text=_text(reasoning))
        if content := delta.get("content"):
            if isinstance(content, str):
                yield Delta(kind="text", text=content)
            else:
                yield from _blocks(content)
        elif refusal := delta.get("refusal"):
            yield Delta(kind="text", text=_text(refusal))
        if calls := delta.get("tool_calls"):
            yield from map(self._call, calls)

    def _call(self, call: Json) -> CallDelta:
        function = call.get("function") or {}
        call_id, name = call.get("id") or "", function.get("name") or ""
        arguments = function.get("arguments") or ""
        return CallDelta(
            index=self._index(call.get("index"), call_id, name),
            call_id=call_id,
            name=name,
            arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
        )

    def _index(self, told: int | None, call_id: str, name: str) -> int:
        """Our index of a call: the next one for a new name under another id, whatever index the provider gives it."""
        last = len(self._call_ids) - 1
        index = self._indices.get(told, -1) if told is not None else last
        another = self._call_ids.get(index) != call_id if call_id else told is None
        if index < 0 or (name and another):
            index = last + 1
            self._call_ids[index] = call_id
        if told is not None:
            self._indices[told] = index
        return index


def _parsed(data: bytes) -> Json:
    try:
        chunk = orjson.loads(data)
    except orjson.JSONDecodeError:
        chunk = json.loads(data)  # half a surrogate pair, which the fast parser refuses
    if not isinstance(chunk, dict):
        raise TypeError("a chunk is an object")
    return chunk


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _blocks(content: list[Json]) -> Iterator[Delta]:
    """Content in blocks, as Mistral's reasoning models send it."""
    for block in content:
        thoughts = block.get("thinking")
        kind, texts = ("reasoning", thoughts) if thoughts else ("text", [block])
        if text := "".join(part.get("text") or "" for part in texts):
            yield Delta(kind=kind, text=text)


def _streamed_error(error: Any) -> StreamedError:
    if not isinstance(error, dict):
        return StreamedError(str(error), 500)
    code = str(error.get("code"))
    status = int(code) if code.isdecimal() and 400 <= int(code) < 600 else 500
    return StreamedError(_text(error.get("message") or error), status)
