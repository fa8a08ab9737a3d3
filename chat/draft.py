"""An answer as it grows: parts in the contract's form, kept in memory by the worker that owns the turn. Pure.

Text is kept as pieces and joined when it is read, so that a delta costs the same in a long answer as in a short one.
A part knows when it began, so that a reader sees how long the model thought and a tool took, later too.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from kernel.events import TextDelta, ToolFinished, ToolStarted, ToolState

Part = dict[str, Any]


class Draft:
    """Applies a run's events; `parts()` and `text()` are what a reader may see of it. `clock` tells the seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._parts: list[Part] = []
        self._pieces: dict[int, list[str]] = {}
        self._lengths: dict[int, int] = {}
        self._calls: dict[str, int] = {}

    def add_text(self, event: TextDelta) -> tuple[int, int]:
        """Append text; return the part's index and the offset in code points at which it begins."""
        last = len(self._parts) - 1
        if last < 0 or (self._parts[last]["kind"], self._parts[last]["step"]) != (event.kind, event.step):
            last += 1
            self._parts.append({"kind": event.kind, "step": event.step, "text": "", "startedAt": self._now_ms()})
            self._pieces[last], self._lengths[last] = [], 0
        offset = self._lengths[last]
        self._pieces[last].append(event.text)
        self._lengths[last] = offset + len(event.text)
        return last, offset

    def start_tool(self, event: ToolStarted) -> int:
        """Add the call, or complete its input; return the part's index."""
        index = self._calls.get(event.call_id)
        if index is None:
            index = self._calls[event.call_id] = len(self._parts)
            self._parts.append(
                {
                    "kind": "tool",
                    "step": event.step,
                    "callId": event.call_id,
                    "name": event.name,
                    "state": ToolState.RUNNING.value,
                    "input": None,
                    "output": None,
                    "error": None,
                    "startedAt": None,
                    "durationMs": None,
                }
            )
        if event.input is not None:  # its arguments are whole: now it runs
            self._parts[index] |= {"input": event.input, "startedAt": self._now_ms()}
        return index

    def finish_tool(self, event: ToolFinished) -> int:
        """Write how a call ended; return the part's index."""
        index = self._calls[event.call_id]
        part = self._parts[index]
        part |= {"state": event.state.value, "output": event.output, "error": event.error}
        if part["startedAt"] is not None:
            part["durationMs"] = max(0, self._now_ms() - part["startedAt"])
        return index

    def started_at(self, index: int) -> int | None:
        """When this part began, in milliseconds since the epoch; a call, when it began to run."""
        started: int | None = self._parts[index]["startedAt"]
        return started

    def part(self, index: int) -> Part:
        self._join(index)
        return dict(self._parts[index])

    def parts(self) -> list[Part]:
        return [self.part(index) for index in range(len(self._parts))]

    def text(self) -> str:
        """All text parts, joined as they are."""
        return "".join(self._texts())

    def _texts(self) -> Iterator[str]:
        for index, part in enumerate(self._parts):
            if part["kind"] == "text":
                self._join(index)
                yield part["text"]

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def _join(self, index: int) -> None:
        pieces = self._pieces.get(index)
        if pieces:
            self._parts[index]["text"] += "".join(pieces)
            pieces.clear()
