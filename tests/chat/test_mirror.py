"""The net under the bus: what other workers did and no frame told of is told from the rows."""

import math

import pytest

from chat import mirror
from chat.live import session_topic
from kernel.hub import Frame, hub
from tests.chat.live_studio import Studio
from tests.chat.rows import enqueue, settle, start
from tests.kernel.live import db


async def test_a_queue_and_a_state_whose_news_was_lost_are_told_though_the_broker_is_heard(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "NET_S", 0.0)
    studio.worker.bus.heard_s = math.inf
    elsewhere = await db(start)
    studio.follow(elsewhere.session)
    await db(lambda: enqueue("second"))
    studio.turns.mirror.poll()
    told = await studio.frame(lambda frame: frame["type"] == "studio_chat_queue")
    assert [item["text"] for item in told["queue"]] == ["second"]
    running = await studio.frame(lambda frame: frame["type"] == "studio_chat_session")
    assert (running["session"]["state"], running["session"]["queueLength"]) == ("running", 1)
    await db(lambda: settle(elsewhere))
    studio.turns.mirror.poll()
    await studio.frame(lambda frame: frame["type"] == "studio_chat_session" and frame["session"]["state"] == "idle")


async def test_a_state_that_a_late_frame_has_told_wrongly_is_told_again(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "NET_S", 0.0)
    studio.worker.bus.heard_s = math.inf
    elsewhere = await db(start)
    studio.follow(elsewhere.session)
    await db(lambda: settle(elsewhere))
    studio.turns.mirror.poll()
    idle = await studio.frame(lambda frame: frame["type"] == "studio_chat_session")
    late = {**idle, "session": {**idle["session"], "state": "running"}}
    hub.deliver([session_topic(elsewhere.session.pk)], Frame(late))
    studio.frames.clear()
    studio.turns.mirror.poll()
    await studio.frame(lambda frame: frame["type"] == "studio_chat_session" and frame["session"]["state"] == "idle")
