"""What every `Model` promises, held alike by litellm's adapter, the scripted demo and the fake of the tests."""

import asyncio
import math
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from kernel.llm.demo import DemoModel
from kernel.llm.litellm_model import LitellmModel
from kernel.llm.model import CallDelta, Delta, Finished, Model, ModelError, ModelEvent, ModelRequest
from tests.fakes import Gate, ScriptedModel, words
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import READY_TIMEOUT_S

# Of litellm's types, at its first stream.
pytestmark = pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier:UserWarning")

ADD = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model, what it is asked for each scene, and how the test sees that it is silent and that it is closed."""

    model: Model
    texts: dict[str, str]
    silent: Callable[[], Awaitable[Any]]
    closed: Callable[[], Awaitable[Any]]
    asked: Callable[[], int]

    def request(self, scene: str) -> ModelRequest:
        return ModelRequest(model="fake-model", messages=[{"role": "user", "content": self.texts[scene]}], tools=[ADD])

    async def answer(self, scene: str) -> list[ModelEvent]:
        async with asyncio.timeout(READY_TIMEOUT_S):
            return [event async for event in self.model.stream(self.request(scene))]


def scripted(scene: str, _provider: Provider) -> Subject:
    gate = Gate()
    scripts: dict[str, list[Any]] = {
        "answer": words(3),
        "call": [
            CallDelta(index=0, call_id="c", name="add", arguments='{"a":'),
            CallDelta(index=0, arguments=" 1}"),
            Finished(reason="tool_calls"),
        ],
        "error": [*words(2)[:2], ModelError("broken", retryable=True)],
        "hang": [*words(2)[:2], gate],
    }
    model = ScriptedModel(scripts[scene])
    return Subject(
        model=model,
        texts=dict.fromkeys(scripts, "hello"),
        silent=gate.reached.wait,
        closed=model.closed.wait,
        asked=lambda: len(model.requests),
    )


def demo(_scene: str, _provider: Provider) -> Subject:
    silent, ended, requests = asyncio.Event(), asyncio.Event(), []

    async def pace(wait_s: float) -> None:
        if wait_s == math.inf:
            silent.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    class Counted(DemoModel):
        def stream(self, request: ModelRequest) -> Any:
            requests.append(request)
            return super().stream(request)

    return Subject(
        model=Counted(pace=pace),
        texts={"answer": "hello", "call": '/tool add {"a": 1}', "error": "/error", "hang": "/hang"},
        silent=silent.wait,
        closed=ended.wait,
        asked=lambda: len(requests),
    )


def directly(scene: str, provider: Provider) -> Subject:
    return litellm(scene, provider, fast=True)


def through_litellm(scene: str, provider: Provider) -> Subject:
    return litellm(scene, provider, fast=False)


def litellm(_scene: str, provider: Provider, fast: bool) -> Subject:
    name = uuid.uuid4().hex
    orders: dict[str, dict[str, Any]] = {
        "answer": {"n": 3},
        "call": {"call": [("add", {"a": 1})]},
        "error": {"status": 500},
        "hang": {"n": 9, "hang": 2},
    }
    return Subject(
        model=LitellmModel(name="openai/fake-model", api_base=provider.url, api_key="sk-test", fast=fast),
        texts={name_: directive(id=name, **order) for name_, order in orders.items()},
        silent=lambda: provider.wait_deltas(name, 2),
        closed=lambda: provider.wait_closed(name),
        asked=lambda: len(provider.of(name)),
    )


@pytest.fixture(params=[scripted, demo, directly, through_litellm], ids=lambda make: make.__name__)
def subject(request: pytest.FixtureRequest, provider: Provider) -> Callable[[str], Subject]:
    if request.param in (directly, through_litellm):
        request.getfixturevalue("litellm_closed")
    return lambda scene: request.param(scene, provider)


Make = Callable[[str], Subject]


@pytest.mark.parametrize("scene", ["answer", "call"])
async def test_a_stream_ends_with_exactly_one_finished(scene: str, subject: Make) -> None:
    events = await subject(scene).answer(scene)
    assert [event for event in events if isinstance(event, Finished)] == events[-1:]
    assert events[-1].reason == {"answer": "stop", "call": "tool_calls"}[scene]


async def test_deltas_are_never_empty(subject: Make) -> None:
    deltas = [event for event in await subject("answer").answer("answer") if isinstance(event, Delta)]
    assert deltas
    assert all(delta.text for delta in deltas)


async def test_a_call_comes_with_its_name_first_and_its_arguments_in_pieces(subject: Make) -> None:
    calls = [event for event in await subject("call").answer("call") if isinstance(event, CallDelta)]
    assert calls[0].name == "add"
    assert calls[0].call_id
    assert {call.index for call in calls} == {0}
    assert "".join(call.arguments for call in calls).replace(" ", "") == '{"a":1}'


async def test_a_failure_is_a_model_error_and_nothing_is_retried_inside(subject: Make) -> None:
    asked = subject("error")
    with pytest.raises(ModelError) as caught:
        await asked.answer("error")
    assert caught.value.message
    assert asked.asked() == 1


async def test_cancelling_the_task_that_iterates_closes_the_stream(subject: Make) -> None:
    asked = subject("hang")

    async def iterate() -> None:
        async with aclosing(asked.model.stream(asked.request("hang"))) as events:
            async for _ in events:
                pass

    async with asyncio.timeout(READY_TIMEOUT_S):
        iterating = asyncio.create_task(iterate())
        await asked.silent()
        iterating.cancel()
        await asked.closed()
        await asyncio.wait({iterating})
    assert iterating.cancelled()


async def test_leaving_the_stream_half_read_closes_it(subject: Make) -> None:
    asked = subject("hang")
    async with asyncio.timeout(READY_TIMEOUT_S):
        async with aclosing(asked.model.stream(asked.request("hang"))) as events:
            async for _ in events:
                break
        if not isinstance(asked.model, DemoModel):  # the demo holds nothing that could stay open
            await asked.closed()
