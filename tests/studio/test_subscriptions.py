"""The join of a snapshot with the events that follow it: nothing lost, nothing told twice."""

from typing import Any

import pytest

from kernel.hub import Frame, Hub
from studio.subscriptions import Subscriptions

ACTIVE = {"executionId": "e", "seq": 3}


class Socket:
    """A socket that follows sessions, and what it was told."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.told: list[dict[str, Any]] = []
        self.subscriptions = Subscriptions(self.hub, self.put)

    def put(self, frame: Frame) -> None:
        self.told.append(frame.data)

    def publish(self, kind: str, *, execution_id: str | None = "e", seq: int | None = None, topic: str = "t") -> None:
        data: dict[str, Any] = {"type": f"studio_chat_{kind}"}
        if execution_id is not None:
            data |= {"executionId": execution_id, "seq": seq}
        self.hub.publish(topic, data)

    @property
    def kinds(self) -> list[tuple[str, int | None]]:
        return [(data["type"].removeprefix("studio_chat_"), data.get("seq")) for data in self.told]


@pytest.fixture
def socket() -> Socket:
    return Socket()


def test_what_comes_before_the_snapshot_is_sent_waits_and_keeps_its_order(socket: Socket) -> None:
    subscription = socket.subscriptions.join("s", "t")
    for seq in (4, 5):
        socket.publish("delta", seq=seq)
    assert socket.told == []
    subscription.open(ACTIVE)
    socket.publish("delta", seq=6)
    assert socket.kinds == [("delta", 4), ("delta", 5), ("delta", 6)]


def test_what_the_snapshot_holds_already_is_not_told_again(socket: Socket) -> None:
    subscription = socket.subscriptions.join("s", "t")
    for seq in (2, 3, 4):
        socket.publish("delta", seq=seq)
    subscription.open(ACTIVE)
    assert socket.kinds == [("delta", 4)]


def test_of_a_turn_that_the_snapshot_shows_ended_only_its_end_is_told(socket: Socket) -> None:
    subscription = socket.subscriptions.join("s", "t")
    for seq, kind in enumerate(("delta", "progress", "tool", "message", "result"), 7):
        socket.publish(kind, seq=seq)
    subscription.open(None)
    assert socket.kinds == [("message", 10), ("result", 11)]


def test_what_has_no_number_is_told(socket: Socket) -> None:
    subscription = socket.subscriptions.join("s", "t")
    socket.publish("queue", execution_id=None)
    socket.publish("message", seq=None)
    subscription.open(ACTIVE)
    assert socket.kinds == [("queue", None), ("message", None)]


def test_a_result_is_the_last_of_its_execution_and_comes_once(socket: Socket) -> None:
    socket.subscriptions.join("s", "t").open(None)
    socket.publish("result", seq=None)
    socket.publish("result", seq=9)
    socket.publish("delta", seq=10)
    socket.publish("queue", execution_id=None)
    socket.publish("result", execution_id="another", seq=1)
    assert socket.kinds == [("result", None), ("queue", None), ("result", 1)]


def test_joining_again_begins_anew(socket: Socket) -> None:
    socket.subscriptions.join("s", "t").open(None)
    again = socket.subscriptions.join("s", "t")
    socket.publish("delta", seq=4)
    assert socket.told == []
    again.open(ACTIVE)
    assert socket.kinds == [("delta", 4)]
    assert socket.hub.listeners("t") == 1


def test_a_result_comes_once_to_a_socket_that_subscribes_again(socket: Socket) -> None:
    socket.subscriptions.join("s", "t").open(None)
    socket.publish("result", seq=9)
    socket.subscriptions.leave("s")
    socket.subscriptions.join("s", "t").open(None)
    socket.publish("result", seq=None)
    socket.publish("result", execution_id="another", seq=1)
    assert socket.kinds == [("result", 9), ("result", 1)]


def test_a_session_that_is_left_is_silent(socket: Socket) -> None:
    socket.subscriptions.join("s", "t").open(None)
    assert "s" in socket.subscriptions
    socket.subscriptions.leave("s")
    socket.subscriptions.leave("s")
    socket.publish("delta", seq=1)
    assert socket.told == []
    assert "s" not in socket.subscriptions


def test_a_closed_socket_leaves_nothing_behind_and_follows_nothing_any_more(socket: Socket) -> None:
    for key in ("a", "b"):
        socket.subscriptions.join(key, f"topic of {key}").open(None)
    socket.subscriptions.close()
    socket.subscriptions.join("c", "topic of c").open(None)
    assert socket.hub.topics("topic of") == []


def test_another_session_of_the_same_key_is_not_the_one_that_is_followed(socket: Socket) -> None:
    socket.subscriptions.join("s", "t")
    assert socket.subscriptions.follows("s", "t")
    assert not socket.subscriptions.follows("s", "t of its successor")
    assert not socket.subscriptions.follows("another", "t")
