"""Which sessions one socket follows, and the join of a snapshot with the events that follow it.

The topic is joined before the snapshot is read; events that come meanwhile wait, and those that the snapshot already
holds are dropped by their number.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from kernel.hub import Frame, Hub

# What a running turn is told in.
PIECES = {"studio_chat_progress", "studio_chat_delta", "studio_chat_tool"}
# Ends that a socket remembers of a session; an event that comes after so many later ends is beyond all delay.
ENDED_MAX = 64


class Subscription:
    """One session on one socket. Frames wait until `open()`."""

    def __init__(self, topic: str, put: Callable[[Frame], None], ended: deque[str]):
        self.topic = topic
        self._put = put
        self._waiting: list[Frame] | None = []
        self._ended = ended
        self._held: dict[str, Any] | None = None

    def deliver(self, frame: Frame) -> None:
        if self._waiting is None:
            self._pass(frame)
        else:
            self._waiting.append(frame)

    def open(self, active: dict[str, Any] | None) -> None:
        """The snapshot has been sent; `active` is its running turn. Send what it does not hold."""
        waiting, self._waiting = self._waiting or [], None
        self._held = active
        for frame in waiting:
            # Of a turn that has ended meanwhile only its end is news: the pieces are in the settled message.
            if _is_of(frame.data, active) or frame.data["type"] not in PIECES:
                self._pass(frame)

    def _pass(self, frame: Frame) -> None:
        """Once and in order: what the snapshot holds is no news, nor is what comes after a result."""
        execution_id = frame.data.get("executionId")
        seq = frame.data.get("seq")
        if self._held is not None and seq is not None and _is_of(frame.data, self._held) and seq <= self._held["seq"]:
            return
        if execution_id is not None:
            if execution_id in self._ended:
                return
            if frame.data["type"] == "studio_chat_result":
                self._ended.append(execution_id)
        self._put(frame)


def _is_of(event: dict[str, Any], active: dict[str, Any] | None) -> bool:
    return active is not None and event.get("executionId") == active["executionId"]


class Subscriptions:
    """The sessions that one socket follows, by key."""

    def __init__(self, hub: Hub, put: Callable[[Frame], None]):
        self._hub = hub
        self._put = put
        self._by_key: dict[str, Subscription] = {}
        # By topic, for as long as the socket: who subscribes again is not told a result twice.
        self._ended: dict[str, deque[str]] = {}
        self._closed = False

    def join(self, session_key: str, topic: str) -> Subscription:
        """Follow the session anew; its frames wait until the subscription is opened."""
        self.leave(session_key)
        subscription = Subscription(topic, self._put, self._ended.setdefault(topic, deque(maxlen=ENDED_MAX)))
        if not self._closed:  # a frame may still be served when its socket has gone
            self._by_key[session_key] = subscription
            self._hub.subscribe(topic, subscription.deliver)
        return subscription

    def follows(self, session_key: str, topic: str) -> bool:
        """Whether this very session is followed, not an earlier one of the same key."""
        subscription = self._by_key.get(session_key)
        return subscription is not None and subscription.topic == topic

    def __contains__(self, session_key: object) -> bool:
        return session_key in self._by_key

    def leave(self, session_key: str) -> None:
        subscription = self._by_key.pop(session_key, None)
        if subscription is not None:
            self._hub.unsubscribe(subscription.topic, subscription.deliver)

    def close(self) -> None:
        """Follow nothing any more."""
        self._closed = True
        for session_key in list(self._by_key):
            self.leave(session_key)
