"""Every provider that litellm knows, as a `Model`, with its own retries off and its connections booked.

litellm takes seconds to import, so it is imported on first use, in a thread, never by loading this module.
"""

import asyncio
import functools
import logging
import os
import warnings
from collections.abc import AsyncGenerator
from typing import Any

from kernel.aio import finish
from kernel.events import Usage
from kernel.llm.errors import model_error
from kernel.llm.model import CallDelta, Delta, Finished, ModelError, ModelEvent, ModelRequest

logger = logging.getLogger(__name__)

# litellm's limit is per read; the run's own clocks are the ones that count, so this only has to be longer than they
# are.
READ_TIMEOUT_S = 24 * 3600.0


class LitellmModel:
    """One model by its litellm string.

    `api_base` and `api_key` override what litellm reads from the environment; `extra_body` goes into the request as it
    is, for what only one server knows. A model that takes no tools is offered none, as it would refuse the request.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        api_base: str | None = None,
        api_key: str | None = None,
        extra_body: dict[str, Any] | None = None,
        takes_tools: bool = True,
    ):
        self._name = name
        self._api_base = api_base
        self._api_key = api_key
        self._extra_body = extra_body
        self._takes_tools = takes_tools

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas as they arrive, then one `Finished`. Raises `ModelError`."""
        litellm = await load()
        name = self._name or request.model
        try:
            chunks = await litellm.acompletion(**self._arguments(name, request))
        except Exception as error:
            raise model_error(error, name) from error
        usage: Usage | None = None
        reason = ""
        try:
            # litellm would count the tokens of a whole answer itself, on this loop, where the provider sent no usage.
            chunks.send_stream_usage = False
            async for chunk in chunks:
                for event in _events(chunk):
                    yield event
                reason = _finish_reason(chunk) or reason
            usage = _usage(chunks, name)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            raise model_error(error, name) from error
        finally:
            # In this task, and out of reach of a second cancel: an iterator that is dropped never closes its
            # connection.
            await finish(chunks.aclose())
        if not reason:
            raise ModelError(
                "The provider ended its answer without finishing it. Continue, or send again.", retryable=True
            )
        yield Finished(reason=reason, usage=usage)

    def _arguments(self, name: str, request: ModelRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": name,
            "messages": request.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_retries": 0,
            "num_retries": 0,
            "timeout": READ_TIMEOUT_S,
            "drop_params": True,
        }
        if request.tools and self._takes_tools:
            arguments["tools"] = request.tools
        if request.max_output_tokens:
            arguments["max_tokens"] = request.max_output_tokens
        if self._api_base:
            arguments["api_base"] = self._api_base
        if self._api_key:
            arguments["api_key"] = self._api_key
        if self._extra_body:
            arguments["extra_body"] = self._extra_body
        return arguments


def _events(chunk: Any) -> list[ModelEvent]:
    if not chunk.choices:
        return []
    delta = chunk.choices[0].delta
    events: list[ModelEvent] = []
    if reasoning := getattr(delta, "reasoning_content", None):
        events.append(Delta(kind="reasoning", text=reasoning))
    if delta.content:
        events.append(Delta(kind="text", text=delta.content))
    events += [
        CallDelta(
            index=call.index or 0,
            call_id=call.id or "",
            name=call.function.name or "",
            arguments=call.function.arguments or "",
        )
        for call in delta.tool_calls or []
    ]
    return events


def _finish_reason(chunk: Any) -> str:
    return (chunk.choices and chunk.choices[0].finish_reason) or ""


def _usage(chunks: Any, name: str) -> Usage | None:
    """The usage that the provider sent, from the last chunk that has one; None if it never did."""
    for chunk in reversed(chunks.chunks):
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            tokens_in, tokens_out = usage.prompt_tokens or 0, usage.completion_tokens or 0
            cost = cost_usd(name, tokens_in, tokens_out)
            return Usage(input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost)
    return None


@functools.lru_cache(maxsize=256)
def _prices(name: str) -> tuple[float, float] | None:
    try:
        return _load().cost_per_token(model=name, prompt_tokens=1, completion_tokens=1)
    except Exception:  # noqa: BLE001  litellm raises a bare Exception for a model without a price
        logger.info("No price is known for the model %r.", name)
        return None


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


async def load() -> Any:
    """litellm, imported once, configured to stay on this machine, and patched to book its connections."""
    if _load.cache_info().currsize:
        return _load()
    return await asyncio.get_running_loop().run_in_executor(None, _load)


@functools.cache
def _load() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_OFFLINE_MODE", "true")
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


async def warm() -> None:
    """Pay for the first call now: litellm's first stream takes most of a second."""
    litellm = await load()
    chunks = await litellm.acompletion(
        model="openai/warm", messages=[{"role": "user", "content": "."}], stream=True, mock_response="ready"
    )
    async for _ in chunks:
        pass
