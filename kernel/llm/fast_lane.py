"""A stream along a route: our own request to the provider, and its answer read as it comes.

What litellm would keep and copy of each chunk is most of a token's cost. Here a token is read once, parsed once, and
forgotten; litellm has said where and how to ask (`kernel.llm.route`), and counts at the end.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import aiohttp

from kernel.events import Usage
from kernel.jsontext import dumps
from kernel.llm import library
from kernel.llm.connector import booked_session
from kernel.llm.errors import broken_off, message_in, model_error, refused, unfinished
from kernel.llm.model import Finished, ModelError, ModelEvent
from kernel.llm.route import Json, Route
from kernel.llm.sse import Events
from kernel.llm.wire import AnswerReader, StreamedError

logger = logging.getLogger(__name__)

# An error's body is read so far and no longer.
REFUSAL_MAX_BYTES = 64 * 1024
# What a connection must still give after the last event, to be used again.
LINGER_S = 0.1

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError)
BROKEN = (aiohttp.ClientError, OSError)


async def stream(litellm: Any, route: Route, arguments: Json, name: str) -> AsyncGenerator[ModelEvent, None]:
    """Yield deltas as they arrive, then one `Finished`. Raises `ModelError`. `name` is what people call the model."""
    response = await _post(litellm, route, arguments, name)
    try:
        if response.status != 200:
            raise await _refusal(litellm, response, name)
        reader = AnswerReader()
        events = Events()
        try:
            async for data in response.content.iter_any():
                for event in _read(reader, events.feed(data)):
                    yield event
                if reader.done:
                    await _linger(response)
                    break
            for event in _read(reader, events.end()):
                yield event
        except StreamedError as error:
            raise broken_off(error.said, error.status) from error
        except BROKEN as error:
            raise broken_off(str(error)) from error
        except UNREADABLE as error:
            raise broken_off("something that is no answer") from error
        if not reader.finish_reason:
            raise unfinished()
        yield Finished(reason=reader.finish_reason, usage=_usage(route, reader, name))
    finally:
        # It takes no await, so no second cancel can come between. After a whole answer the connection is back in the
        # pool already, and this does nothing.
        response.close()


async def _post(litellm: Any, route: Route, arguments: Json, name: str) -> aiohttp.ClientResponse:
    try:
        body = dumps(route.body(litellm, arguments)).encode()
        return await booked_session().post(
            route.url, data=body, headers=route.headers, proxy=route.proxy, ssl=route.ssl
        )
    except Exception as error:  # of litellm's config, or of the connection
        raise model_error(error, name) from error


def _read(reader: AnswerReader, events: Iterator[bytes]) -> Iterator[ModelEvent]:
    for data in events:
        yield from reader.read(data)


async def _linger(response: aiohttp.ClientResponse) -> None:
    """Read the end of the body, which the last event comes with or just before."""
    with contextlib.suppress(TimeoutError, *BROKEN):  # the answer is whole; the connection is closed instead
        async with asyncio.timeout(LINGER_S):
            while not response.content.at_eof():
                await response.content.readany()


async def _refusal(litellm: Any, response: aiohttp.ClientResponse, name: str) -> ModelError:
    try:
        said = message_in(await _beginning(response))
    except BROKEN as error:
        return broken_off(str(error))
    status = response.status
    if litellm.litellm_core_utils.exception_mapping_utils.ExceptionCheckers.is_error_str_context_window_exceeded(said):
        status = 413
    return refused(status, said, name, headers=response.headers)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for data in response.content.iter_any():
        body += data
        if len(body) >= REFUSAL_MAX_BYTES:
            break
    return bytes(body[:REFUSAL_MAX_BYTES])


def _usage(route: Route, reader: AnswerReader, name: str) -> Usage | None:
    """The usage that the provider sent; None if it never did, or nothing that can be read."""
    try:
        counted = route.counted(reader.counted) if reader.counted else None
    except UNREADABLE:  # the answer itself is whole
        logger.info("The usage that the provider of %r sent cannot be read.", name)
        counted = None
    if counted is None:
        return None
    return Usage(input_tokens=counted[0], output_tokens=counted[1], cost_usd=library.cost_usd(name, *counted))
