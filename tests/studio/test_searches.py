"""A search is slow where it must be: nobody who reads a list waits behind it."""

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kernel import lanes
from studio.commands.session import listing
from studio.protocol import Sessions
from tests.chat.rows import make_user
from tests.kernel.live import db
from tests.waiting import READY_TIMEOUT_S

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _lanes() -> Iterator[None]:
    yield
    for lane in (lanes.searches, lanes.reads, lanes.control):
        lane.close()


async def test_a_list_is_read_while_searches_wait_for_a_slow_one() -> None:
    replies: list[Any] = []
    person = SimpleNamespace(id=(await db(make_user)).pk)
    visit: Any = SimpleNamespace(person=person, reply=lambda command, fields: replies.append(command.query))
    go_on = threading.Event()
    slow = asyncio.create_task(lanes.searches.run(go_on.wait, READY_TIMEOUT_S))
    search = asyncio.create_task(listing(visit, Sessions(type="studio_chat_sessions", query="a")))
    await asyncio.wait_for(listing(visit, Sessions(type="studio_chat_sessions")), READY_TIMEOUT_S)
    assert replies == [None]
    go_on.set()
    await asyncio.wait_for(asyncio.gather(slow, search), READY_TIMEOUT_S)
    assert replies == [None, "a"]
