"""litellm itself: imported once, kept on this machine, its connections booked; and what its tables know of models.

It takes seconds to import, so that happens on first use, in a thread, never by loading this module.
"""

import asyncio
import functools
import logging
import os
import warnings
from typing import Any

logger = logging.getLogger(__name__)

# Connections to one provider, and in all: every run has one, and none must wait for another's end.
CONNECTIONS = "100000"


async def load() -> Any:
    """litellm, imported once, configured to stay on this machine, and patched to book its connections."""
    if _load.cache_info().currsize:
        return _load()
    return await asyncio.get_running_loop().run_in_executor(None, _load)


async def close() -> None:
    """Close the connections that our own session keeps alive, if there is one."""
    if _load.cache_info().currsize:
        from kernel.llm.connector import close_session

        await close_session()


def cost_usd(name: str, input_tokens: int, output_tokens: int) -> float | None:
    """The cost by litellm's price list; None where it knows no price, or while litellm is not loaded."""
    if not _load.cache_info().currsize:
        return None
    prices = _prices(name)
    if prices is None or prices == (0, 0):
        return None
    return input_tokens * prices[0] + output_tokens * prices[1]


@functools.lru_cache(maxsize=256)
def calls_tools(name: str) -> bool:
    """Whether litellm's tables say that the model calls tools; False for a model that they do not know."""
    try:
        return bool(_load().supports_function_calling(model=name))
    except Exception:  # noqa: BLE001  litellm raises a bare Exception for a model that it does not know
        return False


@functools.lru_cache(maxsize=256)
def _prices(name: str) -> tuple[float, float] | None:
    try:
        return _load().cost_per_token(model=name, prompt_tokens=1, completion_tokens=1)
    except Exception:  # noqa: BLE001  litellm raises a bare Exception for a model without a price
        logger.info("No price is known for the model %r.", name)
        return None


@functools.cache
def _load() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_OFFLINE_MODE", "true")
    os.environ.setdefault("AIOHTTP_CONNECTOR_LIMIT", CONNECTIONS)
    os.environ.setdefault("AIOHTTP_CONNECTOR_LIMIT_PER_HOST", CONNECTIONS)
    import litellm
    from litellm.llms.custom_httpx import http_handler

    from kernel.llm.connector import BookingConnector

    # A run that is cancelled before its request leaves a coroutine of litellm's behind; no connection hangs on it.
    warnings.filterwarnings("ignore", r"coroutine '.*async_streaming' was never awaited", RuntimeWarning)
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    # Anthropic and Bedrock want tools where the conversation has calls; on the last step litellm adds a dummy for them.
    litellm.modify_params = True
    # The guard against a model that repeats itself is the person's Stop, not an error after 100 equal chunks.
    litellm.REPEATED_STREAMING_CHUNK_LIMIT = 10**9
    # Every aiohttp connector of litellm is made through this one name; `shared_session` reaches only some providers.
    if not hasattr(http_handler, "TCPConnector"):
        raise RuntimeError("This litellm makes its connections elsewhere: a stop could not be guaranteed with it.")
    http_handler.TCPConnector = BookingConnector
    return litellm
