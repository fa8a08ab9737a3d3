"""litellm's adapter against the scripted provider: what arrives, what is booked, and nothing left open."""

import asyncio
import gc
import random
import uuid
from contextlib import aclosing
from typing import Any

import pytest

from kernel import runner
from kernel.clocks import Limits
from kernel.events import Usage
from kernel.llm import library
from kernel.llm.connector import BookingConnector
from kernel.llm.litellm_model import LitellmModel
from kernel.llm.model import Delta, Finished, ModelError, ModelEvent, ModelRequest
from kernel.registry import Execution
from kernel.runner import Outcome
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import READY_TIMEOUT_S

pytestmark = [
    pytest.mark.usefixtures("litellm_closed"),
    pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier:UserWarning"),  # of litellm's types, at its first stream
]

SECRET = "sk-do-not-tell-anybody-0123456789"
FOREVER = Limits(total_s=3600, first_token_s=3600, idle_s=3600)
RUNS = 100


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


@pytest.fixture(params=[True, False], ids=["directly", "through_litellm"])
def fast(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def model(fast: bool, provider: Provider) -> LitellmModel:
    return LitellmModel(name="openai/fake-model", api_base=provider.url, api_key=SECRET, fast=fast)


def request_for(**orders: Any) -> ModelRequest:
    return ModelRequest(model="fake-model", messages=[{"role": "user", "content": directive(**orders)}])


async def answer(model: LitellmModel, **orders: Any) -> list[ModelEvent]:
    async with asyncio.timeout(READY_TIMEOUT_S):
        return [event async for event in model.stream(request_for(**orders))]


async def test_litellm_makes_its_connections_by_the_name_that_is_ours(model: LitellmModel, name: str) -> None:
    await answer(model, id=name)
    from litellm.llms.custom_httpx import aiohttp_transport, http_handler

    assert http_handler.TCPConnector is BookingConnector
    assert hasattr(aiohttp_transport, "LiteLLMAiohttpTransport")


async def test_text_and_reasoning_arrive_as_they_were_sent(model: LitellmModel, provider: Provider, name: str) -> None:
    events = await answer(model, id=name, n=5, reason=3)
    deltas = [event for event in events if isinstance(event, Delta)]
    record = provider.of(name)[0]
    assert [delta.text for delta in deltas] == record.sent
    assert [delta.kind for delta in deltas] == ["reasoning"] * 3 + ["text"] * 5


async def test_usage_is_the_providers(model: LitellmModel, name: str) -> None:
    events = await answer(model, id=name, n=5)
    assert events[-1] == Finished(reason="stop", usage=Usage(input_tokens=10, output_tokens=5))


async def test_usage_that_the_provider_never_sent_is_not_made_up(model: LitellmModel, name: str) -> None:
    events = await answer(model, id=name, n=5, usage=0)
    assert events[-1] == Finished(reason="stop", usage=None)


async def test_a_model_that_repeats_itself_is_left_to_the_person(model: LitellmModel, name: str) -> None:
    import litellm

    await answer(model, id=name)
    assert litellm.REPEATED_STREAMING_CHUNK_LIMIT > 10**6


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (401, False), (403, False), (404, False), (408, True), (429, True), (500, True), (503, True)],
)
async def test_a_refusal_keeps_its_status_and_says_whether_to_ask_again(
    status: int, retryable: bool, model: LitellmModel, name: str
) -> None:
    with pytest.raises(ModelError) as caught:
        await answer(model, id=name, status=status)
    error = caught.value
    assert (error.status, error.retryable) == (status, retryable)
    assert SECRET not in error.message
    assert "ordered by the test" in error.message, "the provider's own words are shown"
    assert "litellm" not in error.message


async def test_the_wait_that_the_provider_names_is_read(model: LitellmModel, name: str) -> None:
    with pytest.raises(ModelError) as caught:
        await answer(model, id=name, status=429, after="7")
    assert caught.value.retry_after_s == 7


@pytest.mark.parametrize("fault", ["reset", "cut", "eof", "error"])
async def test_an_answer_that_breaks_off_is_an_error_after_what_had_arrived(
    fault: str, model: LitellmModel, name: str
) -> None:
    events: list[ModelEvent] = []

    async def iterate() -> None:
        async for event in model.stream(request_for(id=name, n=9, **{fault: 3})):
            events.append(event)  # noqa: PERF401  what came before the error counts

    with pytest.raises(ModelError):
        await iterate()
    assert "".join(event.text for event in events) == "w0 w1 w2 "


async def test_a_provider_that_cannot_be_reached_is_told_so_and_may_be_asked_again() -> None:
    with pytest.raises(ModelError, match="cannot be reached") as caught:
        await answer(LitellmModel(name="openai/fake-model", api_base="http://127.0.0.1:9/v1", api_key=SECRET))
    assert caught.value.retryable


async def test_a_model_of_no_known_provider_is_told_so() -> None:
    with pytest.raises(ModelError, match="No provider is known for the model 'nobody-knows-me'") as caught:
        await answer(LitellmModel(name="nobody-knows-me"))
    assert not caught.value.retryable


def test_a_cost_is_known_only_for_a_priced_model() -> None:
    library._load()
    assert library.cost_usd("openai/gpt-4o", 1000, 1000) > 0
    assert library.cost_usd("openai/fake-model", 1000, 1000) is None


# Random cancels


def orders(number: int, name: str) -> dict[str, Any]:
    """A phase in which the request will be when it is cancelled, most likely."""
    phases: list[dict[str, Any]] = [
        {"hdr": "inf"},
        {"ttft": "inf"},
        {"n": 500, "hang": 3},
        {"n": 5000, "rate": 500},
        {"n": 50, "reason": 50},
        {"empty": 0.002},
    ]
    return {"id": f"{name}-{number}", **phases[number % len(phases)]}


async def turns_of_the_loop(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def nothing_left_open(provider: Provider, name: str) -> None:
    await provider.wait(lambda: not [r for r in provider.open_requests() if r.id.startswith(name)])


@pytest.mark.filterwarnings("ignore:coroutine '.*async_streaming' was never awaited:RuntimeWarning")
async def test_no_cancel_however_often_and_whenever_leaves_a_connection_open(
    model: LitellmModel, provider: Provider, name: str
) -> None:
    async def iterate(number: int) -> None:
        async with aclosing(model.stream(request_for(**orders(number, name)))) as events:
            async for _ in events:
                await asyncio.sleep(0)

    async def one(number: int) -> None:
        task = asyncio.create_task(iterate(number))
        await turns_of_the_loop(random.choice([0, 3, 10, 40, 150, 600]))
        for _ in range(random.randint(1, 3)):
            task.cancel()
            await turns_of_the_loop(random.randint(0, 3))
        await asyncio.wait({task})
        assert task.cancelled() or task.exception() is None or isinstance(task.exception(), ModelError)

    await library.load()
    for start in range(0, RUNS, 20):
        await asyncio.gather(*(one(number) for number in range(start, start + 20)))
    await nothing_left_open(provider, name)
    gc.collect()  # litellm drops a coroutine when it is cancelled before its request; the warning belongs to this test


@pytest.mark.filterwarnings("ignore:coroutine '.*async_streaming' was never awaited:RuntimeWarning")
async def test_no_abort_leaves_a_connection_open_and_each_says_when_it_was_closed(
    model: LitellmModel, provider: Provider, name: str
) -> None:
    outcomes: list[Outcome] = []

    async def settle(outcome: Outcome) -> bool:
        outcomes.append(outcome)
        return True

    async def iterate(number: int) -> None:
        async with aclosing(model.stream(request_for(**orders(number, name)))) as events:
            async for _ in events:
                # The hole: a cancel that lands here, while nobody reads the stream.
                await asyncio.sleep(random.choice([0, 0.001]))

    async def one(number: int) -> None:
        execution = Execution(id=str(number))
        runner.start(execution, lambda: iterate(number), settle, FOREVER)
        await turns_of_the_loop(random.choice([0, 3, 10, 40, 150, 600]))
        execution.controller.abort("session_stop")
        await execution.ended.wait()
        assert execution.book.open == 0

    await library.load()
    async with asyncio.timeout(READY_TIMEOUT_S):
        for start in range(0, RUNS, 20):
            await asyncio.gather(*(one(number) for number in range(start, start + 20)))
    await nothing_left_open(provider, name)
    aborted = [outcome for outcome in outcomes if outcome.abort is not None]
    assert aborted
    assert all(outcome.upstream_closed_ms is not None and not outcome.stuck for outcome in aborted)
    gc.collect()
