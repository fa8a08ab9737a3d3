"""Database work off the loop: a function runs to its end whoever is cancelled, and its thread keeps its connection."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection

from kernel.lanes import Lane
from kernel.models import Worker
from tests.kernel.rows import make_worker
from tests.waiting import READY_TIMEOUT_S

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane("test", 1)
    yield lane
    lane.close()


async def test_what_the_function_returns_or_raises_is_the_callers(lane: Lane) -> None:
    def fail() -> None:
        raise KeyError("no")

    assert await lane.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(KeyError):
        await lane.run(fail)


async def test_it_runs_in_a_thread_of_the_lane(lane: Lane) -> None:
    assert (await lane.run(threading.current_thread)).name.startswith("test-db")


async def test_a_caller_that_is_cancelled_returns_at_once_and_its_write_still_happens(lane: Lane) -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def write() -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(READY_TIMEOUT_S)
        make_worker()

    writing = asyncio.create_task(lane.run(write))
    await begun.wait()
    writing.cancel()
    await asyncio.wait({writing}, timeout=READY_TIMEOUT_S)
    assert writing.cancelled()
    assert not go_on.is_set()
    go_on.set()
    assert await lane.run(Worker.objects.count) == 1


async def test_a_thread_keeps_its_connection(lane: Lane) -> None:
    def used() -> Any:
        connection.ensure_connection()
        return connection.connection

    assert await lane.run(used) is await lane.run(used)


async def test_a_connection_that_broke_is_replaced_and_one_that_works_is_kept(lane: Lane) -> None:
    def fail(usable: bool) -> None:
        connection.ensure_connection()
        connection.errors_occurred = True
        connection.is_usable = lambda: usable
        raise OperationalError("no")

    def used() -> Any:
        connection.ensure_connection()
        return connection.connection

    first = await lane.run(used)
    for usable in (True, False):
        with pytest.raises(OperationalError):
            await lane.run(fail, usable)
        assert (await lane.run(used) is first) is usable


async def test_closing_waits_for_what_runs_and_the_lane_opens_again(lane: Lane) -> None:
    writing = asyncio.ensure_future(lane.run(make_worker))
    await asyncio.sleep(0)
    lane.close()
    await writing
    assert await lane.run(Worker.objects.count) == 1


def test_a_lane_that_was_never_used_closes() -> None:
    Lane("unused", 2).close()
