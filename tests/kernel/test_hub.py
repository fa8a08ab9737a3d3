"""News inside a process: in order, once to each, serialised once."""

from typing import Any

import pytest

from kernel import hub as hub_module
from kernel.hub import Frame, Hub


class Reader:
    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def __call__(self, frame: Frame) -> None:
        self.frames.append(frame)

    @property
    def told(self) -> list[Any]:
        return [frame.data for frame in self.frames]


@pytest.fixture
def hub() -> Hub:
    return Hub()


def test_a_frame_reaches_who_listens_to_its_topic_in_the_publishers_own_stack(hub: Hub) -> None:
    ann, bob = Reader(), Reader()
    hub.subscribe("a", ann)
    hub.subscribe("b", bob)
    for number in range(3):
        hub.publish("a", {"n": number})
    assert ann.told == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert bob.told == []


def test_who_listens_to_several_topics_of_a_frame_is_told_once(hub: Hub) -> None:
    ann = Reader()
    for topic in ("a", "b"):
        hub.subscribe(topic, ann)
    hub.publish(["a", "b", "c"], {"n": 1})
    assert ann.told == [{"n": 1}]


def test_a_frame_is_serialised_once_for_all_its_readers(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps, times = hub_module.dumps, []
    monkeypatch.setattr(hub_module, "dumps", lambda data: times.append(1) or dumps(data))
    readers = [Reader() for _ in range(5)]
    for reader in readers:
        hub.subscribe("a", reader)
    hub.publish("a", {"n": 1})
    assert {reader.frames[0].text for reader in readers} == {'{"n":1}'}
    assert len(times) == 1


def test_who_left_is_not_told_and_the_topic_is_gone_with_the_last(hub: Hub) -> None:
    ann, bob = Reader(), Reader()
    hub.subscribe("a", ann)
    hub.subscribe("a", bob)
    hub.unsubscribe("a", ann)
    hub.unsubscribe("a", ann)
    hub.unsubscribe("nobody's", ann)
    hub.publish("a", {"n": 1})
    assert (ann.told, bob.told) == ([], [{"n": 1}])
    assert hub.listeners("a") == 1
    hub.unsubscribe("a", bob)
    assert hub.topics() == []


def test_a_reader_may_leave_or_bring_another_while_it_is_told(hub: Hub) -> None:
    late = Reader()

    def once(_frame: Frame) -> None:
        hub.unsubscribe("a", once)
        hub.subscribe("a", late)

    hub.subscribe("a", once)
    hub.publish("a", {"n": 1})
    hub.publish("a", {"n": 2})
    assert late.told == [{"n": 2}]


def test_topics_are_found_by_their_beginning_and_local_ones_are_nobody_elses(hub: Hub) -> None:
    for topic in ("session:1", "session:2", "user:1", f"{Hub.LOCAL}shutdown"):
        hub.subscribe(topic, Reader())
    assert sorted(hub.topics("session:")) == ["session:1", "session:2"]
    assert sorted(hub.topics()) == ["session:1", "session:2", "user:1"]
    assert hub.topics(Hub.LOCAL) == [f"{Hub.LOCAL}shutdown"]


def test_what_is_published_is_passed_on_and_what_came_from_elsewhere_is_not(hub: Hub) -> None:
    ann, passed = Reader(), []
    hub.subscribe("a", ann)
    hub.on_publish = lambda topics, frame: passed.append((topics, frame.data))
    hub.publish("a", {"n": 1})
    hub.publish_here("a", {"n": 2})
    hub.deliver(["a"], Frame.of_text('{"n":3}'))
    assert passed == [(["a"], {"n": 1})]
    assert ann.told == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert ann.frames[2].text == '{"n":3}'


def test_new_interest_is_told_once_and_never_of_local_topics(hub: Hub) -> None:
    told: list[str] = []
    hub.on_interest = lambda: told.append("interest")
    hub.subscribe("a", Reader())
    hub.subscribe("a", Reader())
    hub.subscribe(f"{Hub.LOCAL}shutdown", Reader())
    assert told == ["interest"]
