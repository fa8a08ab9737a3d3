"""Fixtures for the kernel's tests."""

import asyncio
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def litellm_closed() -> AsyncIterator[None]:
    """litellm keeps its clients for ever, and their connections alive; a test's loop does not live that long."""
    yield
    import litellm
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    await close_litellm_async_clients()
    litellm.in_memory_llm_clients_cache.flush_cache()
    await asyncio.sleep(0)  # the transports close in the loop's next turn
