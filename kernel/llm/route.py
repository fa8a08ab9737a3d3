"""Where a model is asked and how, for models that can be asked without litellm in between.

litellm knows each provider's address, key, parameters and form of a request. It is asked once for each model: its own
request for a sample conversation is caught before it is sent. A model has a route if three things are true of it:

- the body that litellm's provider config gives us for the sample is the one in the caught request;
- its headers hold nothing that was made for the moment: no signature, no token but a key that we were given;
- litellm's reader for that provider reads OpenAI's chunks as OpenAI's.

Whatever else is special about a provider breaks one of them, and then litellm carries the stream too.
"""

import asyncio
import contextvars
import copy
import logging
import os
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from kernel.llm.connector import WATCHED

logger = logging.getLogger(__name__)

Json = dict[str, Any]

KNOWN_MAX = 256
# Made anew for each request.
OWN_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
SAMPLE = [
    {"role": "system", "content": "Add what you are told to."},
    {"role": "user", "content": "1, please."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "1"},
    {"role": "assistant", "content": "That makes 1."},
    {"role": "user", "content": "And one more."},
]
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add a number.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    },
}
SAMPLES: list[Json] = [{"messages": SAMPLE}, {"messages": SAMPLE, "tools": [TOOL], "max_tokens": 64}]


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """A provider's address, and litellm's config for the requests to one of its models."""

    url: Any = field(repr=False)  # it may hold a key, as the headers do
    headers: dict[str, str] = field(repr=False)
    proxy: Any = field(repr=False)
    ssl: Any
    model: str
    provider: str
    config: Any
    extra_body: Json = field(repr=False)

    def body(self, litellm: Any, arguments: Json) -> Json:
        """The body of a request, as litellm's config for the provider wants it. `arguments` are litellm's."""
        asked = {name: copy.deepcopy(arguments[name]) for name in ("tools", "max_tokens") if name in arguments}
        messages = [_without_nones(message) for message in copy.deepcopy(arguments["messages"])]
        parameters = litellm.utils.get_optional_params(
            model=self.model,
            custom_llm_provider=self.provider,
            messages=messages,
            stream=True,
            stream_options=arguments["stream_options"],
            drop_params=True,
            **asked,
        )
        extra = {**(parameters.pop("extra_body", None) or {}), **self.extra_body}
        body = self.config.transform_request(
            model=self.model,
            messages=messages,
            optional_params=parameters,
            litellm_params={"drop_params": True},
            headers={},
        )
        return {**body, "stream": True, **extra}

    def counted(self, chunk: Json) -> tuple[int, int] | None:
        """The tokens, in and out, that a chunk with usage tells of, as litellm counts this provider's."""
        usage = getattr(_reader(self.config).chunk_parser(chunk), "usage", None)
        return usage and (usage.prompt_tokens or 0, usage.completion_tokens or 0)


class Routes:
    """What has been learned of models, each once, for the life of the process."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Route | None] = {}
        self._learning: dict[Hashable, asyncio.Task[Route | None]] = {}

    async def find(self, litellm: Any, arguments: Json) -> Route | None:
        """The route of the model that `arguments` (of litellm's completion) name; None if there is none."""
        key = tuple(repr(arguments.get(name)) for name in ("model", "api_base", "api_key", "extra_body"))
        if key in self._known:
            return self._known[key]
        learning = self._learning.get(key)
        if learning is None or learning.get_loop() is not asyncio.get_running_loop():
            # In a context of its own: it belongs to no execution, whichever asks first, and none can cancel it.
            learning = asyncio.create_task(
                _learned(litellm, arguments), name=f"route:{arguments['model']}", context=contextvars.Context()
            )
            self._learning[key] = learning
        found = await asyncio.shield(learning)
        if self._learning.pop(key, None) is not None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = found
        return found


routes = Routes()


async def _learned(litellm: Any, arguments: Json) -> Route | None:
    model = arguments["model"]
    try:
        route = await _route(litellm, arguments)
    except Exception:  # litellm's own way is always there, and tells people what is wrong with a model
        logger.debug("litellm could not be asked how it would ask %r.", model, exc_info=True)
        route = None
    logger.info(
        "The model %r is asked %s.", model, "through litellm" if route is None else f"directly, at {route.url.host}"
    )
    return route


async def _route(litellm: Any, arguments: Json) -> Route | None:
    given = {name: arguments.get(name) for name in ("api_base", "api_key")}
    model, provider, key, _ = litellm.get_llm_provider(arguments["model"], **given)
    config = litellm.utils.ProviderConfigManager.get_provider_chat_config(model, litellm.LlmProviders(provider))
    if not (_is_compatible(litellm, provider, config) and _reads_openai(config)):
        return None
    requests = [await _caught(litellm, {**arguments, **sample}) for sample in SAMPLES]
    if None in requests:
        return None
    request, headers = requests[0], [_headers(each) for each in requests]
    if headers[0] != headers[1] or not _is_given(headers[0], key, given["api_key"]):
        return None
    route = Route(
        url=request.url,
        headers={**headers[0], "Accept-Encoding": "identity"},
        proxy=request.proxy,
        ssl=request.ssl,
        model=model,
        provider=provider,
        config=config,
        extra_body=arguments.get("extra_body") or {},
    )
    for sample, each in zip(SAMPLES, requests, strict=True):
        if orjson.loads(await each.body.as_bytes()) != route.body(litellm, {**arguments, **sample}):
            return None
    return route


def _is_compatible(litellm: Any, provider: str, config: Any) -> bool:
    """Whether litellm serves the provider as one of OpenAI's kind: by its table, or with a reader of its own.

    Others may be asked on ways that nobody watches, and litellm may have been told to leave the one that is watched.
    """
    watched = litellm.llms.custom_httpx.http_handler.AsyncHTTPHandler.should_use_aiohttp_transport()
    if not (watched and isinstance(config, litellm.OpenAIGPTConfig)):
        return False
    own_reader = type(config).get_model_response_iterator is not litellm.OpenAIGPTConfig.get_model_response_iterator
    return provider == "openai" or provider in litellm.openai_compatible_providers or own_reader


async def _caught(litellm: Any, arguments: Json) -> Any:
    """litellm's request, never sent; None if it made none."""
    caught: list[aiohttp.ClientRequest] = []
    WATCHED.set(caught.append)
    try:
        chunks = await litellm.acompletion(**arguments)
        await chunks.aclose()
    except Exception:  # of `NeverSent`, each provider makes an error of its own
        if not caught:
            logger.debug("litellm made no request for %r.", arguments["model"], exc_info=True)
    finally:
        WATCHED.set(None)
    return caught[0] if caught else None


def _headers(request: aiohttp.ClientRequest) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name.lower() not in OWN_HEADERS}


def _is_given(headers: dict[str, str], *keys: str | None) -> bool:
    """Whether what authorises is a key from the environment or from litellm's own table: nothing that runs out."""
    said = next((value for name, value in headers.items() if name.lower() == "authorization"), "Bearer ")
    scheme, _, token = said.partition(" ")
    return scheme == "Bearer" and (not token or token in keys or token in os.environ.values())


def _reads_openai(config: Any) -> bool:
    """Whether litellm's reader for the provider finds in OpenAI's chunks what OpenAI means by them."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    text, called, ended = (
        _reader(config).chunk_parser(chunk).choices[0]
        for chunk in (_chunk({"content": "t"}), _chunk({"tool_calls": [call]}), _chunk({}, "length"))
    )
    read = text.delta.content, called.delta.tool_calls[0].function.name, ended.finish_reason
    return read == ("t", "add", "length")


def _reader(config: Any) -> Any:
    return config.get_model_response_iterator(streaming_response=iter(()), sync_stream=True, json_mode=False)


def _chunk(delta: Json, reason: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _without_nones(message: Json) -> Json:
    return {name: value for name, value in message.items() if value is not None}
