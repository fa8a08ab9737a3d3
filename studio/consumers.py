"""The WebSocket: who may open it, frames in the order sent, replies, and its end. No run ever lives in here.

A frame is read at once and put in line; an own task, which the end of the socket does not cut off, serves the line. A
stop strikes what this process owns while it is still being read, so that nothing in line can hold it up.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer

from chat.live import user_topic
from chat.stopping import Person
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
from studio.commands.visit import Visit
from studio.lifecycle import SHUTDOWN_TOPIC
from studio.outbox import Outbox
from studio.protocol import AnyCommand, FrameError, Panic, StopSession
from studio.subscriptions import Subscriptions

logger = logging.getLogger(__name__)

INBOX_MAX = 1000
# More than this many frames in `RATE_WINDOW_S` close the socket; stops and panics are not counted.
RATE_WINDOW_S = 10.0
RATE_MAX = 2000

GOING_AWAY, TOO_BIG, OUR_FAULT, OVERLOADED, NOT_LOGGED_IN, TOO_FAST = 1001, 1009, 1011, 1013, 4401, 4429


def login_topic(session_id: str) -> str:
    """Where the sockets of one login hear that it has ended."""
    return f"login:{session_id}"


@dataclass(frozen=True, slots=True)
class Received:
    """One frame in line, and the executions that it struck while it was read."""

    frame: AnyCommand | FrameError
    struck: list[Execution]


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
        self._outbox = Outbox(self.send, lambda: self._close(OVERLOADED))
        self._inbox: asyncio.Queue[Received | None] = asyncio.Queue(INBOX_MAX)
        self._closing = False
        self._frames, self._window_s = 0, time.monotonic()
        self._visit = Visit(
            person=Person(id=user.pk, name=user.get_username()),
            worker=worker,
            turns=turns_of(worker),
            outbox=self._outbox,
            subscriptions=Subscriptions(hub, self._outbox.put),
        )
        self._topics = [user_topic(user.pk), login_topic(self.scope["session"].session_key or ""), SHUTDOWN_TOPIC]
        for topic in self._topics:
            hub.subscribe(topic, self._on_news)
        worker.spawn(self._outbox.run(), f"outbox:{id(self):x}")
        worker.spawn(self._serve(self._visit), f"socket:{id(self):x}")

    async def websocket_receive(self, message: dict[str, Any]) -> None:
        if self._visit is None or self._closing:
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
        struck: list[Execution] = []
        if isinstance(frame, StopSession):
            struck = self._strike(self._visit, frame)
        elif not isinstance(frame, Panic) and self._too_fast():
            self._close(TOO_FAST)
            return
        try:
            self._inbox.put_nowait(Received(frame, struck))
        except asyncio.QueueFull:
            self._close(OVERLOADED)

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
            if isinstance(received.frame, FrameError):
                self._outbox.put_data(protocol.error_frame(received.frame))
            else:
                await perform(visit, received.frame, received.struck)

    def _strike(self, visit: Visit, frame: StopSession) -> list[Execution]:
        """Abort at once the person's own runs here that the frame means; the rest waits for its turn in line."""
        target = Target(session_key=frame.sessionKey, execution_id=frame.executionId, user_id=visit.person.id)
        intent = Intent(reason=AbortReason.SESSION_STOP, by=visit.person.name, source="web")
        return control.strike(visit.worker, target, intent)

    def _too_fast(self) -> bool:
        now_s = time.monotonic()
        if now_s - self._window_s > RATE_WINDOW_S:
            self._frames, self._window_s = 0, now_s
        self._frames += 1
        return self._frames > RATE_MAX

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
        visit.subscriptions.leave_all()
        for topic in self._topics:
            hub.unsubscribe(topic, self._on_news)
        if not self._closing:
            self._outbox.drop()
        visit.worker.spawn(self._inbox.put(None), f"leave:{id(self):x}")
