"""A person at a socket without a network: frames go through the product's own parser, dispatcher, outbox and joins."""

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

from chat.people import Person
from chat.turns import turns_of
from kernel import control
from kernel.hub import hub
from kernel.models import Intent
from kernel.worker import ThisWorker
from studio import protocol
from studio.commands.dispatch import perform
from studio.commands.visit import Visit
from studio.outbox import Outbox
from studio.protocol import StopSession
from studio.subscriptions import Subscriptions
from tests.client import EVENT_TYPES, Frame
from tests.reducer import STATE_FIELDS, apply, comparable
from tests.waiting import READY_TIMEOUT_S


class Seat:
    """One socket of `person`; `frames` holds every frame that came, in order."""

    def __init__(self, worker: ThisWorker, person: Person):
        self.frames: list[Frame] = []
        self._news = asyncio.Event()
        self._numbers = itertools.count(1)
        outbox = Outbox(self._deliver, lambda: None)
        self.visit = Visit(
            person=person,
            worker=worker,
            turns=turns_of(worker),
            outbox=outbox,
            subscriptions=Subscriptions(hub, outbox.put),
            on_news=outbox.put,
        )
        worker.spawn(outbox.run(), f"seat:{person.name}")

    async def call(self, name: str, **fields: Any) -> Frame:
        """Say one frame and wait for its reply."""
        request_id = f"q{next(self._numbers)}"
        command = protocol.parse(json.dumps({"type": f"studio_chat_{name}", "requestId": request_id, **fields}))
        struck = []
        if isinstance(command, StopSession):  # as the consumer does while it reads
            target = control.Target(session_key=command.sessionKey, user_id=self.visit.person.id)
            struck = control.strike(
                self.visit.worker, target, Intent(reason="session_stop", by=self.visit.person.name, source="web")
            )
        await perform(self.visit, command, struck)
        return await self.wait(lambda frame: frame.get("requestId") == request_id and frame["type"] not in EVENT_TYPES)

    async def wait(self, look: Callable[[Frame], Any], since: int = 0) -> Frame:
        """The first frame that `look` likes, of those from number `since` on and those that will come."""
        seen = since
        async with asyncio.timeout(READY_TIMEOUT_S):
            while True:
                for frame in self.frames[seen:]:
                    if look(frame):
                        return frame
                seen = len(self.frames)
                self._news.clear()
                await self._news.wait()

    async def assert_parity(self, snapshot: Frame) -> Frame:
        """What came since the snapshot, applied to it, is what a fresh one says. Return the fresh one."""
        key = snapshot["sessionKey"]
        fresh = await self.call("subscribe", sessionKey=key)
        came = self.frames[self.frames.index(snapshot) + 1 : self.frames.index(fresh)]
        events = [frame for frame in came if frame["type"] in EVENT_TYPES and frame.get("sessionKey") == key]
        ours, theirs = comparable(apply(events, snapshot)), comparable(fresh)
        for name in {*STATE_FIELDS} - {"holds"}:  # they are told to the person, not to the session
            assert ours[name] == theirs[name], name
        return fresh

    async def result(self, execution_id: str) -> Frame:
        return await self.wait(lambda f: f["type"] == "studio_chat_result" and f["executionId"] == execution_id)

    def leave(self) -> None:
        self.visit.subscriptions.close()
        self.visit.gone.set_result(None)
        self.visit.outbox.drop()

    async def _deliver(self, message: Frame) -> None:
        self.frames.append(json.loads(message["text"]))
        self._news.set()
