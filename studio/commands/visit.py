"""One open socket, who sits at it, and how its commands are answered."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from chat.errors import ChatError
from chat.live import session_topic
from chat.models import ChatSession
from chat.people import Person
from chat.turns import Turns
from kernel.control import Counts
from kernel.hub import Frame, hub
from kernel.objects import counts
from kernel.worker import ThisWorker
from studio import protocol
from studio.outbox import Outbox
from studio.protocol import AnyCommand, Panic, StopSession
from studio.subscriptions import Subscriptions

logger = logging.getLogger(__name__)

Fields = dict[str, Any]


@dataclass(kw_only=True)
class Visit:
    """One open socket and who sits at it.

    `on_news` hears the `topics` that are not sessions. `editing` is the queue items (session key, id) that are in its
    hand; `gone` is done when it has left.
    """

    person: Person
    worker: ThisWorker
    turns: Turns
    outbox: Outbox
    subscriptions: Subscriptions
    on_news: Callable[[Frame], None]
    topics: list[str] = field(default_factory=list)
    editing: dict[tuple[str, str], "asyncio.Task[None]"] = field(default_factory=dict)
    gone: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def reply(self, command: AnyCommand, fields: Fields) -> None:
        self.outbox.put_data(protocol.reply(command.type, command.requestId, fields))

    def refuse(self, command: AnyCommand, code: str, error: str, fields: Fields | None = None) -> None:
        self.outbox.put_data(
            protocol.refusal(command.type, command.requestId, code, error, {**_zero(command), **(fields or {})})
        )

    def watch(self, topic: str) -> None:
        """Let this socket hear a topic that is not a session's, until it has gone."""
        if not self.gone.done() and topic not in self.topics:
            self.topics.append(topic)
            hub.subscribe(topic, self.on_news)

    def unwatch(self, topic: str) -> None:
        if topic in self.topics:
            self.topics.remove(topic)
            hub.unsubscribe(topic, self.on_news)

    def follow(self, session: ChatSession) -> None:
        """Let this socket hear the session's news from now on."""
        topic = session_topic(session.pk)
        if not self.subscriptions.follows(session.key, topic):
            self.subscriptions.join(session.key, topic).open(None)


class Answered:
    """Turns a failure of a command into its reply."""

    def __init__(self, visit: Visit, command: AnyCommand):
        self._visit = visit
        self._command = command

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        if isinstance(error, ChatError):
            self._visit.refuse(self._command, error.code, str(error))
            return True
        if isinstance(error, Exception):
            logger.error("The command %s failed.", self._command.type, exc_info=error)
            text = "Something failed on our side; nothing was lost. Try again; the server's log has the details."
            self._visit.refuse(self._command, "internal", text)
            return True
        return False


def later(visit: Visit, command: AnyCommand, coroutine: Coroutine[Any, Any, None]) -> None:
    """Answer from a task of its own."""

    async def answered() -> None:
        with Answered(visit, command):
            await coroutine

    visit.worker.spawn(answered(), f"{command.type}:{id(command):x}")


def _zero(command: AnyCommand) -> Fields:
    """The counts that the reply of a refused stop or panic still has."""
    match command:
        case StopSession():
            return {"sessionKey": command.sessionKey, **counts(Counts())}
        case Panic():
            return {**counts(Counts()), "heldCount": 0}
        case _:
            return {"sessionKey": command.sessionKey} if hasattr(command, "sessionKey") else {}
