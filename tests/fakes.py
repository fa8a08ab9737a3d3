"""Fakes that a test drives: a model that says what it is told to, and a tool that waits for the test.

model = ScriptedModel([Delta(kind="text", text="a"), gate, Finished(reason="stop")])
...
await gate.reached.wait()      # the model is in the middle of its answer
gate.open()
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from kernel.llm.model import Delta, Finished, ModelError, ModelEvent, ModelRequest


class Gate:
    """A place in a script at which the fake waits. `reached` tells the test, `open()` lets the fake go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def wait(self) -> None:
        self.reached.set()
        await self._opened.wait()


Item = ModelEvent | Gate | Exception


def words(count: int, *, word: str = "w") -> list[Item]:
    """The script of an answer in `count` deltas that ends cleanly."""
    return [*(Delta(kind="text", text=f"{word}{i} ") for i in range(count)), Finished(reason="stop")]


class ScriptedModel:
    """A `Model`. Call number n plays script number n: events are yielded, errors raised, gates waited at.

    `requests` holds every request, `open` counts the streams that nobody has closed, `closed` is set while that is 0.
    A request beyond the scripts is a `ModelError`: a model that is asked too often is a bug of the caller.
    """

    def __init__(self, *scripts: Sequence[Item]):
        self.requests: list[ModelRequest] = []
        self.open = 0
        self.asked = asyncio.Event()
        self.closed = asyncio.Event()
        self.closed.set()
        self._scripts = list(scripts)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        number = len(self.requests)
        self.requests.append(request)
        self._opened()
        try:
            if number >= len(self._scripts):
                raise ModelError(f"no script for request {number}")
            for item in self._scripts[number]:
                if isinstance(item, Gate):
                    await item.wait()
                elif isinstance(item, Exception):
                    raise item
                else:
                    yield item
        finally:
            self._closed()

    def _opened(self) -> None:
        self.open += 1
        self.asked.set()
        self.closed.clear()

    def _closed(self) -> None:
        self.open -= 1
        if not self.open:
            self.closed.set()


class GatedTool:
    """An async tool that waits for the test. `calls` holds the arguments; `cancelled` tells of a cancel."""

    def __init__(self, name: str = "gated", *, output: str = "done"):
        self.name, self.output = name, output
        self.calls: list[dict[str, Any]] = []
        self.started = asyncio.Event()
        self.finished = asyncio.Event()
        self.cancelled = asyncio.Event()
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def __call__(self, **arguments: Any) -> str:
        self.calls.append(arguments)
        self.started.set()
        try:
            await self._released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        self.finished.set()
        return self.output
