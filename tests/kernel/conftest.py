"""Fixtures for the kernel's tests."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from pytest_django import Settings

from kernel import lanes
from kernel.llm import library
from kernel.llm.connector import close_session
from kernel.worker import ThisWorker


@pytest.fixture
async def litellm_closed() -> AsyncIterator[None]:
    """litellm keeps its clients for ever, and their connections alive; a test's loop does not live that long.

    It is imported before the test begins to wait for anything: that takes seconds, or many on a busy machine.
    """
    await library.load()
    yield
    await close_session()
    import litellm
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    await close_litellm_async_clients()
    litellm.in_memory_llm_clients_cache.flush_cache()
    await asyncio.sleep(0)  # the transports close in the loop's next turn


@pytest.fixture
async def worker(transactional_db: None, settings: Settings) -> AsyncIterator[ThisWorker]:
    """A worker with its row, beat and poll. What it left in the lanes is over before the tables are emptied."""
    settings.STUDIO_POLL_S = 0.01
    worker = await ThisWorker().ready()
    yield worker
    await worker.close()
    await asyncio.sleep(0)  # its tasks hear that they are cancelled
    for lane in (lanes.control, lanes.reads, lanes.searches, lanes.writes):
        lane.close()
