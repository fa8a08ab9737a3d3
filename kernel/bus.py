"""Hints between workers, over the channel layer. The only module that names its channels and groups.

A hint may be lost: nothing is true because it was said here. The owner that is told *obey* reads its orders in the
ledger, and whoever needs to know an end reads it there too; a worker without a broker is slower (by the poll), never
wrong. With the in-memory layer there is nobody to talk to, and the bus stays closed.

Three things are said: *obey* (to an owner; answered when those executions have ended), *interest* (the topics that a
worker has readers for) and *frames* (news for those topics). `ask` puts a question to one worker.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from channels.layers import InMemoryChannelLayer, get_channel_layer
from redis.exceptions import RedisError

from kernel.hub import Frame, Hub
from kernel.registry import ExecutionRegistry

logger = logging.getLogger(__name__)

Message = dict[str, Any]
Answer = Callable[[Message], Message | None]

WORKERS = "workers"
SEND_S = 1.0
ASK_S = 0.3
# Frames for another worker wait this long for more.
BATCH_S = 0.01
# Interest is told anew this often, and forgotten when it was not told for three times as long.
INTEREST_S = 2.0
INTEREST_DELAY_S = 0.02
# More frames than this for one worker are not kept while the broker is slow: the hole makes its readers subscribe anew.
FRAMES_MAX = 2000
FAILURES = (OSError, RedisError, TimeoutError)

# Questions that other workers may ask, by name; answered on the event loop, at once.
answers: dict[str, Answer] = {}


class Member(Protocol):
    """What the bus needs of the worker that it speaks for."""

    registry: ExecutionRegistry

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start an owned task."""

    async def obey(self) -> None:
        """Read the orders in the ledger, and abort what they mean."""

    async def joined(self) -> None:
        """The channel is known: write it where others look for it."""


class Bus:
    """This worker's end of the bus."""

    def __init__(self, member: Member, hub: Hub):
        self._member = member
        self._hub = hub
        self._spawn = member.spawn
        self._layer: Any = None
        self.channel = ""
        self.heard_s: float | None = None
        self._down = False
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Message | None]] = {}
        self._interest: dict[str, dict[str, float]] = {}
        self._frames: dict[str, list[tuple[list[str], str]]] = {}
        self._batch: asyncio.TimerHandle | None = None
        self._sending = False
        self._interest_due: asyncio.TimerHandle | None = None
        self._interest_told_s = 0.0

    @property
    def is_open(self) -> bool:
        """Whether there is a broker at all."""
        return self._layer is not None

    @property
    def hears(self) -> bool:
        """Whether this worker's own words have come back lately: the proof that broker and listener work."""
        if self._down or self.heard_s is None:
            return False
        return time.monotonic() - self.heard_s < 3 * INTEREST_S

    def open(self) -> None:
        """Join the bus, if the channel layer reaches other processes."""
        layer = get_channel_layer()
        if layer is None or isinstance(layer, InMemoryChannelLayer):
            return
        self._layer = layer
        self._hub.on_publish = self._relay
        self._hub.on_interest = self._on_interest_here
        self._spawn(self._listen(), "bus:listen")

    def others_follow(self, topic: str) -> bool:
        """Whether another worker has said lately that it has readers for the topic."""
        return any(until_s > time.monotonic() for until_s in self._interest.get(topic, {}).values())

    def speak(self) -> None:
        """For a worker that never starts, as a command's: give hints, and listen to nothing."""
        layer = get_channel_layer()
        if self._layer is None and not isinstance(layer, InMemoryChannelLayer):
            self._layer = layer

    # Saying

    async def obey(self, channel: str, ids: list[str]) -> None:
        """Have the owner read its orders; return when it says that these have ended, or has not within `SEND_S`."""
        await self._ask(channel, {"verb": "obey", "ids": ids}, SEND_S)

    async def ask(self, channel: str, question: str, **fields: Any) -> Message | None:
        """Ask one worker; None if it does not answer within `ASK_S`.

        It learns this worker's interest first, so that no news falls between its answer and what follows.
        """
        return await self._ask(
            channel, {"verb": "ask", "question": question, "topics": self._hub.topics(), **fields}, ASK_S
        )

    async def _ask(self, channel: str, request: Message, timeout_s: float) -> Message | None:
        if not self.is_open or not channel:
            return None
        number = f"{self.channel}:{next(self._numbers)}"
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            if await self._send(channel, {**request, "from": self.channel, "number": number}):
                await asyncio.wait({future}, timeout=timeout_s)
            return future.result() if future.done() else None
        finally:
            del self._waiting[number]

    async def _send(self, channel: str, message: Message) -> bool:
        return await self._try(lambda: self._layer.send(channel, {"type": "bus", **message}))

    async def _send_all(self, message: Message) -> bool:
        return await self._try(lambda: self._layer.group_send(WORKERS, {"type": "bus", **message}))

    async def _try(self, operation: Callable[[], Awaitable[Any]]) -> bool:
        try:
            async with asyncio.timeout(SEND_S):
                await operation()
        except FAILURES as error:
            if not self._down:
                logger.warning("The broker cannot be reached (%s); the poll carries on.", type(error).__name__)
            self._down = True
            return False
        if self._down:
            logger.warning("The broker is reached again.")
        self._down = False
        return True

    # Relaying news

    def _relay(self, topics: list[str], frame: Frame) -> None:
        """Called by the hub for each publication: pass it to the workers that have readers for it."""
        now_s = time.monotonic()
        channels = {
            channel for topic in topics for channel, until_s in self._interest.get(topic, {}).items() if until_s > now_s
        }
        for channel in channels:
            frames = self._frames.setdefault(channel, [])
            if len(frames) < FRAMES_MAX:
                frames.append((topics, frame.text))
        if channels:
            self._send_soon()

    def _send_soon(self) -> None:
        if self._batch is None and not self._sending:
            self._batch = asyncio.get_running_loop().call_later(BATCH_S, self._send_batch)

    def _send_batch(self) -> None:
        self._batch = None
        batches, self._frames = self._frames, {}
        self._sending = True
        self._spawn(self._send_batches(batches), "bus:frames")

    async def _send_batches(self, batches: dict[str, list[tuple[list[str], str]]]) -> None:
        """One batch at a time, so that frames never overtake each other."""
        try:
            for channel, frames in batches.items():
                await self._send(channel, {"verb": "frames", "frames": frames})
        finally:
            self._sending = False
            if self._frames:
                self._send_soon()

    def _on_interest_here(self) -> None:
        """The first is told at once, what follows soon together: many sockets come back at once after a restart."""
        if self._interest_due is not None:
            return
        loop = asyncio.get_running_loop()
        due_s = max(loop.time(), self._interest_told_s + INTEREST_DELAY_S)
        self._interest_due = loop.call_at(due_s, self._spawn_interest)

    def _spawn_interest(self) -> None:
        self._interest_due = None
        self._interest_told_s = asyncio.get_running_loop().time()
        self._spawn(self._tell_interest(), "bus:interest")

    async def _tell_interest(self) -> None:
        await self._send_all({"verb": "interest", "from": self.channel, "topics": self._hub.topics()})

    # Listening

    async def _listen(self) -> None:
        while True:
            if await self._try(self._join):
                break
            await asyncio.sleep(INTEREST_S)
        await self._member.joined()
        self._spawn(self._keep_interest(), "bus:keep")
        while True:
            try:
                message = await self._layer.receive(self.channel)
                self._on_message(message)
            except FAILURES:
                await asyncio.sleep(SEND_S)
            except (KeyError, TypeError, ValueError, AttributeError):
                logger.exception("A message of another worker could not be understood.", extra={"action": "bus"})

    async def _join(self) -> None:
        self.channel = self.channel or await self._layer.new_channel("worker.")
        await self._layer.group_add(WORKERS, self.channel)

    async def _keep_interest(self) -> None:
        while True:
            await self._tell_interest()
            await asyncio.sleep(INTEREST_S)

    def _on_message(self, message: Message) -> None:
        match message.get("verb"):
            case "interest":
                self._on_interest(message["from"], message["topics"])
            case "frames":
                for topics, text in message["frames"]:
                    self._hub.deliver(topics, Frame.of_text(text))
            case "obey":
                self._spawn(self._on_obey(message), "bus:obey")
            case "ask":
                self._on_interest(message["from"], message["topics"])
                answer = answers.get(message["question"])
                self._spawn(self._tell(message, answer(message) if answer else None), "bus:told")
            case "told":
                future = self._waiting.get(message["number"])
                if future is not None and not future.done():
                    future.set_result(message.get("told"))

    def _on_interest(self, channel: str, topics: list[str]) -> None:
        if channel == self.channel:
            self.heard_s = time.monotonic()
            return
        until_s = time.monotonic() + 3 * INTEREST_S
        for topic in [topic for topic, channels in self._interest.items() if channel in channels]:
            del self._interest[topic][channel]
            if not self._interest[topic]:
                del self._interest[topic]
        for topic in topics:
            self._interest.setdefault(topic, {})[channel] = until_s

    async def _on_obey(self, message: Message) -> None:
        """Obey, and say when these have ended. What is not ours has ended, or was never here."""
        executions = [self._member.registry.get(execution_id) for execution_id in message["ids"]]
        await self._member.obey()
        for execution in executions:
            if execution is not None:
                await execution.ended.wait()
        await self._tell(message, {})

    async def _tell(self, question: Message, told: Message | None) -> None:
        if not question["from"]:  # whoever asked does not listen
            return
        await self._send(question["from"], {"verb": "told", "number": question["number"], "told": told})
