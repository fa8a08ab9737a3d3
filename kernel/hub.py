"""News inside this process: topics and their subscribers. Pure; touched only by the event loop's thread.

`publish` hands a frame to every subscriber in the caller's own stack, so the order of news is the order of what
happened. A frame is serialised once, however many sockets it goes to.
"""

import logging
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from kernel.jsontext import dumps, loads

logger = logging.getLogger(__name__)


class Frame:
    """One frame of the contract: `data` as a dict, `text` as JSON."""

    def __init__(self, data: dict[str, Any]):
        self.data = data

    @classmethod
    def of_text(cls, text: str) -> "Frame":
        """A frame that comes as JSON already, from another worker."""
        frame = cls(loads(text))
        frame.text = text
        return frame

    @cached_property
    def text(self) -> str:
        return dumps(self.data)


Deliver = Callable[[Frame], None]


class Hub:
    """Who in this process listens to what.

    `on_publish` is told of every publication here, `on_interest` when the topics that anyone listens to have changed:
    how news reaches other processes (kernel.bus). `on_deliver` is told of all that listeners here are. Topics under
    `LOCAL` concern this process alone.
    """

    LOCAL = "process:"

    def __init__(self) -> None:
        self._topics: dict[str, set[Deliver]] = {}
        self.on_publish: Callable[[list[str], Frame], None] | None = None
        self.on_interest: Callable[[], None] | None = None
        self.on_deliver: Callable[[list[str], Frame], None] | None = None

    def subscribe(self, topic: str, deliver: Deliver) -> None:
        new = topic not in self._topics
        self._topics.setdefault(topic, set()).add(deliver)
        if new and self.on_interest and not topic.startswith(self.LOCAL):
            self.on_interest()

    def unsubscribe(self, topic: str, deliver: Deliver) -> None:
        """Interest that ends is not told: it is forgotten by itself, and costs a few frames until then."""
        subscribers = self._topics.get(topic, set())
        subscribers.discard(deliver)
        if not subscribers:
            self._topics.pop(topic, None)

    def publish(self, topics: str | Iterable[str], data: dict[str, Any]) -> None:
        """Deliver one frame to everyone who listens to any of `topics`, once each."""
        names = [topics] if isinstance(topics, str) else list(topics)
        frame = Frame(data)
        self.deliver(names, frame)
        if self.on_publish is not None:
            self.on_publish(names, frame)

    def publish_here(self, topic: str, data: dict[str, Any]) -> None:
        """Deliver one frame to the listeners of this process only."""
        self.deliver([topic], Frame(data))

    def deliver(self, topics: Iterable[str], frame: Frame) -> None:
        """Deliver a frame that is there already to the listeners of this process only."""
        names = list(topics)
        if self.on_deliver is not None:
            self.on_deliver(names, frame)
        for subscriber in set().union(*(self._topics.get(name, ()) for name in names)):
            try:
                subscriber(frame)
            except Exception:  # one broken reader must not hurt the others, or the run that tells
                logger.exception("A reader could not be told.", extra={"action": "hub"})

    def topics(self, prefix: str = "") -> list[str]:
        """The topics listened to that begin with `prefix`; without one, all that concern other processes too."""
        return [t for t in self._topics if t.startswith(prefix) and (prefix or not t.startswith(self.LOCAL))]

    def listeners(self, topic: str) -> int:
        return len(self._topics.get(topic, ()))


hub = Hub()
