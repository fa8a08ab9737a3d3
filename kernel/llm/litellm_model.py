"""Every provider that litellm knows, as a `Model`, with its own retries off and its connections booked.

There are two lanes. Models that have a route (`kernel.llm.route`) are asked by `kernel.llm.fast_lane`; litellm carries
the streams of all others. Neither is imported before a model is asked for: what they need takes long to load.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from kernel.aio import finish
from kernel.events import Usage
from kernel.llm import library
from kernel.llm.errors import model_error, unfinished
from kernel.llm.model import CallDelta, Delta, Finished, ModelEvent, ModelRequest

if TYPE_CHECKING:
    from kernel.llm.route import Route

# litellm's limit is per read; the run's own clocks are the ones that count, so this only has to be longer than they
# are.
READ_TIMEOUT_S = 24 * 3600.0


class LitellmModel:
    """One model by its litellm string.

    `api_base` and `api_key` override what litellm reads from the environment; `extra_body` goes into the request as it
    is, for what only one server knows. A model that takes no tools is offered none, as it would refuse the request.
    Without `fast`, litellm carries the stream whatever the model is.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        api_base: str | None = None,
        api_key: str | None = None,
        extra_body: dict[str, Any] | None = None,
        takes_tools: bool = True,
        fast: bool = True,
    ):
        self._name = name
        self._api_base = api_base
        self._api_key = api_key
        self._extra_body = extra_body
        self._takes_tools = takes_tools
        self._fast = fast

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas as they arrive, then one `Finished`. Raises `ModelError`."""
        litellm = await library.load()
        from kernel.llm import fast_lane

        name = self._name or request.model
        arguments = self._arguments(name, request)
        route = await self.find_route(request)
        lane = fast_lane.stream(litellm, route, arguments, name) if route else _by_litellm(litellm, arguments, name)
        async with aclosing(lane) as events:
            async for event in events:
                yield event

    async def find_route(self, request: ModelRequest | None = None) -> "Route | None":
        """How it is asked directly, None if through litellm. Found by the first call, which takes a moment."""
        litellm = await library.load()
        if not self._fast:
            return None
        from kernel.llm.route import routes

        request = request or ModelRequest(model="", messages=[])
        return await routes.find(litellm, self._arguments(self._name or request.model, request))

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


async def _by_litellm(litellm: Any, arguments: dict[str, Any], name: str) -> AsyncGenerator[ModelEvent, None]:
    try:
        chunks = await litellm.acompletion(**arguments)
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
        # In this task, and out of reach of a second cancel: an iterator that is dropped never closes its connection.
        await finish(chunks.aclose())
    if not reason:
        raise unfinished()
    yield Finished(reason=reason, usage=usage)


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
            cost = library.cost_usd(name, tokens_in, tokens_out)
            return Usage(input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost)
    return None


async def warm(name: str = "") -> None:
    """Pay for the first call now: litellm's first stream takes most of a second. Learn the model's route, too."""
    litellm = await library.load()
    chunks = await litellm.acompletion(
        model="openai/warm", messages=[{"role": "user", "content": "."}], stream=True, mock_response="ready"
    )
    async for _ in chunks:
        pass
    if name:
        await lane_of(name)


async def lane_of(name: str) -> str:
    """How the model is asked: `directly`, or `through litellm`."""
    return "directly" if await LitellmModel(name=name).find_route() else "through litellm"
