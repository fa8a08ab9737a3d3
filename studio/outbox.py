"""What one socket is sent: bounded, in order, by one task.

The event loop never waits for a reader. A socket that does not take its frames is closed with 1013: its client comes
back and reads a fresh snapshot, which costs less than everything it has missed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from kernel.hub import Frame
from kernel.jsontext import dumps

OUTBOX_MAX_FRAMES = 4000
OUTBOX_MAX_CHARS = 32 * 1024 * 1024

SendMessage = Callable[[dict[str, Any]], Awaitable[None]]


class Outbox:
    """The frames that wait for one socket. `on_overflow` is called once, when there are too many."""

    def __init__(self, send: SendMessage, on_overflow: Callable[[], None]):
        self._send = send
        self._on_overflow = on_overflow
        self._waiting: deque[str] = deque()
        self._close_code: int | None = None
        self._chars = 0
        self._something = asyncio.Event()
        self._closed = False

    def put(self, frame: Frame) -> None:
        self._put(frame.text)

    def put_data(self, data: dict[str, Any]) -> None:
        """A frame for this socket alone."""
        self._put(dumps(data))

    def end(self, code: int) -> None:
        """Take nothing more; send what waits, then close the socket with `code`."""
        self._closed = True
        self._close_code = code
        self._something.set()

    def drop(self) -> None:
        """Take nothing more and send nothing more: the socket is gone, or hopeless."""
        self._closed = True
        self._waiting.clear()
        self._something.set()

    async def run(self) -> None:
        """Send what comes, until the end."""
        while True:
            while self._waiting:
                text = self._waiting.popleft()
                self._chars -= len(text)
                await self._send({"type": "websocket.send", "text": text})
            if self._closed:
                break
            await self._something.wait()
            self._something.clear()
        if self._close_code is not None:
            await self._send({"type": "websocket.close", "code": self._close_code})

    def _put(self, text: str) -> None:
        if self._closed:
            return
        # A frame of any size goes into an empty outbox: a snapshot may be large.
        if self._waiting and (len(self._waiting) >= OUTBOX_MAX_FRAMES or self._chars >= OUTBOX_MAX_CHARS):
            self.drop()
            self._on_overflow()
            return
        self._waiting.append(text)
        self._chars += len(text)
        self._something.set()
