"""News inside this process: topics and their subscribers. Pure; touched only by the event loop's thread.

`publish` hands a frame to every subscriber in the caller's own stack, so the order of news is the order of what
happened. A frame is serialised once, however many sockets it goes to.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import orjson


class Frame:
    """One frame of the contract: `data` as a dict, `text` as JSON."""

    def __init__(self, data: dict[str, Any]):
        self.data = data

    @cached_property
    def text(self) -> str:
        return orjson.dumps(self.data).decode()


Deliver = Callable[[Frame], None]


class Hub:
    """Who in this process listens to what."""

    def __init__(self) -> None:
        self._topics: dict[str, set[Deliver]] = {}

    def subscribe(self, topic: str, deliver: Deliver) -> None:
        self._topics.setdefault(topic, set()).add(deliver)

    def unsubscribe(self, topic: str, deliver: Deliver) -> None:
        subscribers = self._topics.get(topic, set())
        subscribers.discard(deliver)
        if not subscribers:
            self._topics.pop(topic, None)

    def publish(self, topics: str | Iterable[str], data: dict[str, Any]) -> None:
        """Deliver one frame to everyone who listens to any of `topics`, once each."""
        names = [topics] if isinstance(topics, str) else topics
        subscribers = set().union(*(self._topics.get(name, ()) for name in names))
        if subscribers:
            frame = Frame(data)
            for deliver in subscribers:
                deliver(frame)

    def topics(self, prefix: str) -> list[str]:
        """The topics that somebody listens to and that begin with `prefix`."""
        return [topic for topic in self._topics if topic.startswith(prefix)]

    def listeners(self, topic: str) -> int:
        return len(self._topics.get(topic, ()))


hub = Hub()
