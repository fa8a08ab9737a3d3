"""One tab of a person: a socket that comes back when it is lost, and what it shows of each session it follows.

What it shows is what the reference reducer makes of a snapshot and the events after it. A hole in the numbers makes it
subscribe again, as the contract says.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any

from websockets.exceptions import ConnectionClosed

from chaos.journal import Deed, Frame, Journal
from chaos.stage import Stage
from tests import reducer
from tests.client import EVENT_TYPES, StudioClient

# A reply that has not come by then is taken for lost, and the tab goes to another worker.
PATIENCE_S = 3.0
LOST = (ConnectionError, ConnectionClosed, TimeoutError)


class Tab:
    """Its `clients` are all the sockets that it had in this round, the last of them open."""

    def __init__(self, stage: Stage, journal: Journal, person: str, worker: int):
        self.person, self.worker = person, worker
        self.clients: list[StudioClient] = []
        self.operation = -1
        self._stage, self._journal = stage, journal
        self._follows: dict[str, str] = {}  # the request of the snapshot, by the session's key
        self._asked: list[str] = []
        self._opening = asyncio.Lock()

    @property
    def client(self) -> StudioClient:
        return self.clients[-1]

    @property
    def keys(self) -> list[str]:
        """The sessions that it follows."""
        return list(self._follows)

    async def open(self, worker: int | None = None) -> None:
        """Connect, to `worker` or the one before, and follow again what was followed."""
        client, self.worker = await self._stage.connect(self.person, self.worker if worker is None else worker)
        self.clients.append(client)
        self._asked.clear()
        followed, self._follows = self.keys, {}
        for key in followed:
            await self.follow(key)

    async def call(self, type_: str, key: str, **fields: Any) -> Deed:
        """Ask, and wait for the reply. A socket or a reply that is lost is replaced by a socket elsewhere."""
        client = self.client
        deed = await self._ask(type_, key, fields)
        if deed.reply is None:
            async with self._opening:
                if self.client is client:
                    client.vanish()
                    await self.open(self.worker + 1)
        return deed

    async def _ask(self, type_: str, key: str, fields: dict[str, Any]) -> Deed:
        deed = Deed(
            round=self._journal.round,
            operation=self.operation,
            person=self.person,
            type=type_,
            key=key,
            fields=fields,
            sent_s=time.time(),
        )
        self._journal.deeds.append(deed)
        named = {"sessionKey": key, **fields} if key else fields
        with suppress(*LOST):
            async with asyncio.timeout(PATIENCE_S):
                request = await self.client.post(type_, **named)
                self._asked.append(request)
                deed.reply = await self.client.reply(request)
                deed.replied_s = time.time()
        return deed

    async def follow(self, key: str) -> bool:
        """Show this session, from a snapshot on. False: there is none, or no answer came."""
        deed = await self._ask("studio_chat_subscribe", key, {})
        if deed.ok and deed.reply:
            self._follows[key] = deed.reply["requestId"]
        return deed.ok

    def forget(self, key: str) -> None:
        self._follows.pop(key, None)

    def shown(self, key: str) -> reducer.State:
        """What the tab shows. Raises `reducer.Resync` if it must subscribe again."""
        frames = self.client.frames
        request = self._follows[key]
        start = next(i for i, frame in enumerate(frames) if is_reply(frame) and frame.get("requestId") == request)
        after = (frame for frame in frames[start + 1 :] if not is_reply(frame))
        told = (frame for frame in after if frame.get("sessionKey") in (key, None))
        return reducer.comparable(reducer.apply(told, frames[start]))

    async def all_replied(self) -> None:
        """Wait until the open socket has answered everything it was asked. Raises `TimeoutError`."""
        for request in self._asked:
            await self.client.reply(request)

    def unanswered(self) -> list[str]:
        """What the open socket was asked and has not answered."""
        answered = {frame.get("requestId") for frame in self.client.frames if is_reply(frame)}
        return [request for request in self._asked if request not in answered]

    async def close(self) -> None:
        for client in self.clients:
            await client.close()


def is_reply(frame: Frame) -> bool:
    return frame["type"] not in EVENT_TYPES
