"""A studio in one process for tests: a worker's turns, the model that answers them, and somebody who reads along."""

import asyncio
from collections.abc import Callable
from typing import Any

from chat.admission import Started
from chat.live import session_topic
from chat.models import ChatSession
from chat.queue import SentNow
from chat.turns import Turns, turns_of
from kernel.hub import Frame, hub
from kernel.llm.model import Delta
from kernel.registry import Execution
from kernel.worker import ThisWorker
from tests.chat.rows import make_user, outgoing
from tests.fakes import Gate, ScriptedModel
from tests.kernel.live import db
from tests.waiting import READY_TIMEOUT_S


class Studio:
    """The turns of one worker, the model that answers them, and a reader of the session `s`."""

    def __init__(self, worker: ThisWorker):
        self.worker = worker
        self.turns: Turns = turns_of(worker)
        self.frames: list[dict[str, Any]] = []
        self.model = ScriptedModel()
        self._news = asyncio.Event()
        self._topic = ""

    def answers(self, *scripts: Any) -> None:
        """What the model says to its requests, in order."""
        self.model = ScriptedModel(*scripts)

    async def send(self, text: str = "hello", *, when_busy: str = "queue", **more: Any) -> Any:
        admitted: list[Any] = []
        message = await db(lambda: outgoing(text, **more))
        await self.turns.send(message, when_busy, lambda how: (admitted.append(how), self.follow(how.session)))
        return admitted[0]

    async def send_now(self, item_id: int) -> SentNow:
        sent: list[SentNow] = []
        user = await db(make_user)
        await self.turns.send_now("s", user.pk, "ann", str(item_id), sent.append)
        return sent[0]

    def follow(self, session: ChatSession) -> None:
        if not self._topic and session.key == "s":
            self._topic = session_topic(session.pk)
            hub.subscribe(self._topic, self._deliver)

    def leave(self) -> None:
        hub.unsubscribe(self._topic, self._deliver)

    def _deliver(self, frame: Frame) -> None:
        self.frames.append(frame.data)
        self._news.set()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == f"studio_chat_{kind}"]

    async def frame(self, look: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first frame that `look` likes, now or later."""
        async with asyncio.timeout(READY_TIMEOUT_S):
            while True:
                if found := [frame for frame in self.frames if look(frame)]:
                    return found[0]
                self._news.clear()
                await self._news.wait()

    async def result(self, started: Started) -> dict[str, Any]:
        execution_id = str(started.record.pk)
        return await self.frame(lambda f: f["type"] == "studio_chat_result" and f["executionId"] == execution_id)

    def execution(self, started: Started) -> Execution:
        return self.worker.registry[str(started.record.pk)]


def hanging() -> tuple[list[Any], Gate]:
    """An answer that begins and then says nothing more."""
    gate = Gate()
    return [Delta(kind="text", text="some "), Delta(kind="text", text="words"), gate], gate
