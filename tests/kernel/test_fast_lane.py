"""The fast lane against a provider that answers byte for byte what a test says: odd ends, odd bodies, connections."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from kernel.connections import Book, booked
from kernel.events import Usage
from kernel.llm import fast_lane
from kernel.llm.litellm_model import LitellmModel
from kernel.llm.model import Delta, Finished, ModelError, ModelEvent, ModelRequest
from kernel.llm.route import routes
from tests.waiting import READY_TIMEOUT_S

pytestmark = [
    pytest.mark.usefixtures("litellm_closed"),
    pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier:UserWarning"),  # of litellm's types, at its first stream
]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def event(delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**head, "choices": [choice], **more}).encode() + b"\n\n"


def body(*events: bytes, end: bytes = END) -> bytes:
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in events) + end


def refusal(status: int, text: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} No", f"content-length: {len(text.encode())}", *headers]
    return "\r\n".join([*lines, "", text]).encode()


HELLO = event({"content": "hello"})
WHOLE = body(HELLO, event({}, "stop"), DONE)
HANGING = body(HELLO, end=b"")


class Server:
    """Answers each request with the next of `answers`; an empty answer closes the connection instead.

    `served` counts the requests of each connection; `gone` is set when one was closed. What follows `cut_at` in an
    answer is sent when `rest` is set.
    """

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.served: list[int] = []
        self.gone = asyncio.Event()
        self.cut_at = b""
        self.rest = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.served)
        self.served.append(0)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(size.split(b":")[1]))
                self.served[number] += 1
                if not (answer := self.answers.pop(0)):
                    break
                now, _, later = answer.partition(self.cut_at) if self.cut_at else (answer, b"", b"")
                writer.write(now)
                if later:
                    await self.rest.wait()
                    writer.write(self.cut_at + later)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # that is how a closed connection looks from here
        finally:
            writer.close()
            self.gone.set()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    async with await asyncio.start_server(server, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        yield server


@pytest.fixture
def model(server: Server) -> LitellmModel:
    return LitellmModel(name="openai/fake-model", api_base=server.url, api_key="sk-test")


REQUEST = ModelRequest(model="fake-model", messages=[{"role": "user", "content": "hello"}])


async def answer(model: LitellmModel) -> list[ModelEvent]:
    async with asyncio.timeout(READY_TIMEOUT_S):
        return [event async for event in model.stream(REQUEST)]


async def test_the_model_of_these_tests_is_asked_directly(model: LitellmModel, server: Server) -> None:
    server.answers = [WHOLE]
    await answer(model)
    route = await routes.find(None, model._arguments("openai/fake-model", REQUEST))
    assert route is not None
    assert str(route.url) == f"{server.url}/chat/completions"


@pytest.mark.parametrize(
    "events",
    [
        [HELLO, event({}, "stop"), DONE],
        [HELLO, event({}, "stop")],
        [event({"content": "hello"}, "stop"), DONE],
        [b": ping\n\n", HELLO, event({}, "stop"), b": pong\r\n\r\n", DONE],
        [HELLO[:20], HELLO[20:], event({}, "stop")[:-2]],
        [HELLO, event({}, "stop"), DONE, event({"content": "too late"})],
    ],
    ids=["done", "no done", "reason with text", "comments", "cut and no end", "more after done"],
)
async def test_an_answer_with_a_reason_is_whole(events: list[bytes], model: LitellmModel, server: Server) -> None:
    server.answers = [body(*events)]
    assert await answer(model) == [Delta(kind="text", text="hello"), Finished(reason="stop")]


@pytest.mark.parametrize("reason", ["length", "content_filter", "tool_calls", "a reason of its own"])
async def test_the_reason_is_the_providers(reason: str, model: LitellmModel, server: Server) -> None:
    server.answers = [body(HELLO, event({}, reason), DONE)]
    assert (await answer(model))[-1] == Finished(reason=reason)


@pytest.mark.parametrize("with_choice", [True, False])
async def test_usage_counts_with_and_without_a_choice(with_choice: bool, model: LitellmModel, server: Server) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    told = event({}, "stop", usage=usage) if with_choice else event({}, "stop") + event({}, choices=[], usage=usage)
    server.answers = [body(HELLO, told, DONE)]
    assert (await answer(model))[-1] == Finished(reason="stop", usage=Usage(input_tokens=7, output_tokens=3))


async def test_a_reason_that_is_no_text_is_told_as_text(model: LitellmModel, server: Server) -> None:
    server.answers = [body(HELLO, event({}, 1), DONE)]  # type: ignore[arg-type]  # as the provider would have it
    assert (await answer(model))[-1] == Finished(reason="1")


@pytest.mark.parametrize("usage", [5, "many", {"prompt_tokens": 1e30}, {"prompt_tokens": 1, "completion_tokens": 2.5}])
async def test_a_whole_answer_stays_whole_with_usage_that_cannot_be_read(
    usage: Any, model: LitellmModel, server: Server
) -> None:
    server.answers = [body(HELLO, event({}, "stop", usage=usage), DONE)]
    assert (await answer(model))[-1] == Finished(reason="stop", usage=None)


async def test_who_leaves_the_body_open_after_the_last_event_is_not_waited_for(
    model: LitellmModel, server: Server
) -> None:
    server.answers = [body(HELLO, event({}, "stop"), DONE, end=b"")]
    assert (await answer(model))[-1] == Finished(reason="stop")
    async with asyncio.timeout(READY_TIMEOUT_S):
        await server.gone.wait()


@pytest.mark.parametrize(
    "events",
    [
        [HELLO],
        [HELLO, DONE],
        [HELLO, b"data: {half\n\n"],
        [HELLO, b"data: 7\n\n"],
        [HELLO, event({}, "error")],
        [HELLO, b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'],
    ],
    ids=["no reason", "only done", "no json", "no object", "reason is an error", "error"],
)
async def test_an_answer_without_its_end_is_an_error(events: list[bytes], model: LitellmModel, server: Server) -> None:
    server.answers = [body(*events)]
    with pytest.raises(ModelError) as caught:
        await answer(model)
    assert caught.value.retryable


async def test_a_connection_that_closes_before_any_answer_may_be_asked_again(
    model: LitellmModel, server: Server
) -> None:
    server.answers = [b""]
    with pytest.raises(ModelError) as caught:
        await answer(model)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"error": {"message": "not today", "type": "x"}}', "not today"),
        ('{"error": "not today"}', "not today"),
        ('{"detail": [{"msg": "not today"}]}', "not today"),
        ('[{"error": {"message": "not today"}}]', "not today"),
        ("not today", "not today"),
        ("", "refused"),
    ],
)
async def test_a_refusal_is_told_in_the_providers_words(
    text: str, said: str, model: LitellmModel, server: Server
) -> None:
    server.answers = [refusal(422, text, "retry-after: 3")]
    with pytest.raises(ModelError) as caught:
        await answer(model)
    error = caught.value
    assert (error.status, error.retryable, error.retry_after_s) == (422, False, 3)
    assert said in error.message or not text
    assert "{" not in error.message


async def test_a_refusal_that_comes_in_pieces_is_told_whole(
    model: LitellmModel, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers = [refusal(422, '{"error": {"message": "not today"}}')]
    server.cut_at = b'"message"'
    read = fast_lane._refusal

    async def read_with_half_of_it_there(*args: Any) -> ModelError:
        server.rest.set()  # heard by the server when the client waits for more
        return await read(*args)

    monkeypatch.setattr(fast_lane, "_refusal", read_with_half_of_it_there)
    with pytest.raises(ModelError, match=r"It said: not today$"):
        await answer(model)


async def test_a_conversation_that_is_too_long_is_told_as_such(model: LitellmModel, server: Server) -> None:
    server.answers = [refusal(400, '{"error": {"message": "This model\'s maximum context length is 5 tokens."}}')]
    with pytest.raises(ModelError, match="too long for the model"):
        await answer(model)


async def test_a_whole_answer_leaves_its_connection_for_the_next(model: LitellmModel, server: Server) -> None:
    server.answers = [WHOLE, WHOLE]
    await answer(model)
    await answer(model)
    assert server.served == [2]


async def test_a_refusal_leaves_no_connection_half_read(model: LitellmModel, server: Server) -> None:
    server.answers = [refusal(400, "no"), WHOLE]
    with pytest.raises(ModelError):
        await answer(model)
    assert (await answer(model))[-1] == Finished(reason="stop")


@pytest.mark.parametrize("how", ["left", "book"])
async def test_an_answer_that_was_ended_half_way_takes_its_connection_along(
    how: str, model: LitellmModel, server: Server
) -> None:
    server.answers = [HANGING, WHOLE]
    book = Book()
    async with asyncio.timeout(READY_TIMEOUT_S):
        with booked(book):
            async with aclosing(model.stream(REQUEST)) as events:
                assert await anext(events) == Delta(kind="text", text="hello")
                if how == "book":
                    assert book.close() == 1
                    with pytest.raises(ModelError):
                        await anext(events)
        await server.gone.wait()
        assert book.open == 0
        await answer(model)
    assert server.served == [1, 1]
