"""How late this machine is: what is judged by time is forgiven as much, and no more."""

import asyncio
import time
from contextlib import suppress
from typing import Self

BEAT_S = 0.05


class Pulse:
    """While it is entered, `worst_s` is by how much a timer of this process has been late."""

    def __init__(self) -> None:
        self.worst_s = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._beat(), name="pulse")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _beat(self) -> None:
        while True:
            due_s = time.monotonic() + BEAT_S
            await asyncio.sleep(BEAT_S)
            self.worst_s = max(self.worst_s, time.monotonic() - due_s)
