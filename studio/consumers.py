"""The WebSocket: who may open it, frames in the order sent, replies, and its end. No run ever lives in here.

A frame is read at once and put in line; an own task, which the end of the socket does not cut off, serves the line. A
stop strikes what this process owns while it is still being read, so that nothing in line can hold it up.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer

from chat.live import user_topic
from chat.people import Person
from chat.turns import turns_of
from kernel import control
from kernel.abort import AbortReason
from kernel.control import Target
from kernel.hub import Frame, hub
from kernel.models import Intent
from kernel.registry import Execution
from kernel.worker import this_worker
from studio import protocol
from studio.access import origin_allowed
from studio.commands.dispatch import perform
from studio.commands.permissions import with_permissions
from studio.commands.stop import strike_panic
from studio.commands.visit import Visit
from studio.lifecycle import SHUTDOWN_TOPIC
from studio.logins import login_topic
from studio.outbox import Outbox
from studio.protocol import AnyCommand, FrameError, Panic, StopSession
from studio.subscriptions import Subscriptions

logger = logging.getLogger(__name__)

# Characters that may wait in line; the number of frames is bounded by their rate.
INBOX_MAX_CHARS = 16 * 1024 * 1024
# More than this many frames, or characters, in `RATE_WINDOW_S` close the socket; stops and panics are not counted.
RATE_WINDOW_S = 10.0
RATE_MAX = 2000
RATE_MAX_CHARS = 32 * 1024 * 1024

GOING_AWAY, TOO_BIG, OUR_FAULT, OVERLOADED, NOT_LOGGED_IN, TOO_FAST = 1001, 1009, 1011, 1013, 4401, 4429


@dataclass(frozen=True, slots=True)
class Received:
    """One frame in line, and the executions that it struck while it was read."""

    frame: AnyCommand | FrameError
    size: int
    struck: Sequence[Execution] = ()


class StudioConsumer(AsyncConsumer):
    """One socket of `/ws/studio/`."""

    channel_layer_alias = "none"  # news comes through the hub; a channel per socket would cost a task and a queue each

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Without the base class's look at old connections: no database is used from here."""
        await getattr(self, message["type"].replace(".", "_"))(message)

    async def websocket_connect(self, _message: dict[str, Any]) -> None:
        self._visit: Visit | None = None
        if not origin_allowed(dict(self.scope["headers"]), self.scope.get("scheme", "ws")):
            await self.send({"type": "websocket.close"})
            raise StopConsumer
        await self.send({"type": "websocket.accept"})
        user = self.scope["user"]
        if not user.is_authenticated:
            await self.send({"type": "websocket.close", "code": NOT_LOGGED_IN})
            raise StopConsumer
        worker = this_worker()
        self._outbox = Outbox(self.scope.get("studio.send", self.send), lambda: self._close(OVERLOADED))
        self._inbox: asyncio.Queue[Received | None] = asyncio.Queue()
        self._inbox_chars = 0
        self._closing = False
        self._frames, self._chars, self._window_s = 0, 0, time.monotonic()
        person = Person(id=user.pk, name=user.get_username())
        self._visit = Visit(
            person=person,
            worker=worker,
            turns=turns_of(worker),
            outbox=self._outbox,
            subscriptions=Subscriptions(hub, self._outbox.put),
            on_news=self._on_news,
        )
        for topic in (user_topic(user.pk), login_topic(self.scope["session"]), SHUTDOWN_TOPIC):
            self._visit.watch(topic)
        visit = self._visit
        worker.spawn(self._outbox.run(), f"outbox:{id(self):x}")
        # What the person may do is known before the first frame is served.
        visit.person = await with_permissions(person)
        worker.spawn(self._serve(visit), f"socket:{id(self):x}")

    async def websocket_receive(self, message: dict[str, Any]) -> None:
        visit = self._visit
        if visit is None or self._closing:
            return
        text = message.get("text")
        size = len(text or message.get("bytes") or "")
        if size > protocol.MESSAGE_MAX_BYTES:
            self._close(TOO_BIG)
            return
        try:
            frame: AnyCommand | FrameError = protocol.parse(text)
        except FrameError as error:
            frame = error
        if isinstance(frame, StopSession | Panic):  # never refused, whatever else is in line
            struck = self._strike(visit, frame) if isinstance(frame, StopSession) else []
            self._inbox.put_nowait(Received(frame, size, struck))
            if isinstance(frame, Panic):
                visit.worker.spawn(strike_panic(visit, frame), f"panic:{id(frame):x}")
        elif self._too_fast(size):
            self._close(TOO_FAST)
        elif self._inbox_chars > INBOX_MAX_CHARS:
            self._close(OVERLOADED)
        else:
            self._inbox_chars += size
            self._inbox.put_nowait(Received(frame, size))

    async def websocket_disconnect(self, _message: dict[str, Any]) -> None:
        self._leave()
        raise StopConsumer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()  # Daphne cancels consumers without a disconnect when it shuts down

    # Serving

    async def _serve(self, visit: Visit) -> None:
        """Serve the frames in the order in which they came; what was received before the end is still served."""
        while (received := await self._inbox.get()) is not None:
            self._inbox_chars = max(0, self._inbox_chars - received.size)
            if isinstance(received.frame, FrameError):
                self._outbox.put_data(protocol.error_frame(received.frame))
            else:
                await perform(visit, received.frame, received.struck)

    def _strike(self, visit: Visit, frame: StopSession) -> list[Execution]:
        """Abort at once the person's own runs here that the frame means; the rest waits for its turn in line."""
        target = Target(session_key=frame.sessionKey, execution_id=frame.executionId, user_id=visit.person.id)
        intent = Intent(reason=AbortReason.SESSION_STOP, by=visit.person.name, source="web")
        return control.strike(visit.worker, target, intent)

    def _too_fast(self, size: int) -> bool:
        now_s = time.monotonic()
        if now_s - self._window_s > RATE_WINDOW_S:
            self._frames, self._chars, self._window_s = 0, 0, now_s
        self._frames += 1
        self._chars += size
        return self._frames > RATE_MAX or self._chars > RATE_MAX_CHARS

    # News of the person, the login, the process

    def _on_news(self, frame: Frame) -> None:
        match frame.data["type"]:
            case "logged_out":
                self._close(NOT_LOGGED_IN)
            case "shutdown":
                self._close(GOING_AWAY)
            case "studio_chat_session" if self._follows(frame.data):
                pass  # it comes by the session's own topic
            case _:
                self._outbox.put(frame)

    def _follows(self, data: dict[str, Any]) -> bool:
        return self._visit is not None and data["sessionKey"] in self._visit.subscriptions

    # The end

    def _close(self, code: int) -> None:
        """Close the socket after what waits for it."""
        if not self._closing:
            self._closing = True
            self._outbox.end(code)
            self._leave()

    def _leave(self) -> None:
        """Let go of everything that this socket holds. Runs are not its to hold."""
        visit, self._visit = getattr(self, "_visit", None), None
        if visit is None:
            return
        visit.subscriptions.close()
        if not visit.gone.done():
            visit.gone.set_result(None)
        for topic in visit.topics:
            hub.unsubscribe(topic, self._on_news)
        if not self._closing:
            self._outbox.drop()
        visit.worker.spawn(self._inbox.put(None), f"leave:{id(self):x}")
