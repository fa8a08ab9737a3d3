"""A limit that is reached closes the provider's connection at once, on either lane, and asks for nothing more."""

import asyncio
import uuid

import pytest

from kernel import agent
from kernel.agent import Agent
from kernel.allowance import MAX_OUTPUT_TOKENS, Allowance, LimitReached
from kernel.clocks import Limits
from kernel.connections import booked
from kernel.llm import library
from kernel.llm.litellm_model import LitellmModel
from kernel.registry import Execution
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import READY_TIMEOUT_S

pytestmark = pytest.mark.usefixtures("litellm_closed")

FOREVER = Limits(total_s=3600, first_token_s=3600, idle_s=3600)


class Run:
    """One turn against the scripted provider, with `tokens` to use."""

    def __init__(
        self, provider: Provider, tokens: int, fast: bool, *, most_tokens: int | None = None, **orders: object
    ):
        self.name = uuid.uuid4().hex
        self.provider = provider
        self.execution = Execution(id="e")
        self.agent = Agent(
            model=LitellmModel(name="openai/fake-model", api_base=provider.url, api_key="sk-test", fast=fast),
            model_name="openai/fake-model",
            history=[{"role": "user", "content": directive(id=self.name, **orders)}],
            system=lambda _final: "rules",
            limits=FOREVER,
            checkpoint=self.checkpoint,
            allowance=Allowance(output_tokens=tokens),
            most_tokens=most_tokens,
        )

    async def checkpoint(self) -> None:
        """Nothing is ordered."""

    async def perform(self) -> str:
        with booked(self.execution.book):
            async with asyncio.timeout(READY_TIMEOUT_S):
                return await agent.run(self.agent, self.execution, lambda _event: None)


@pytest.fixture(params=[True, False], ids=["fast lane", "litellm's lane"])
async def fast(request: pytest.FixtureRequest) -> bool:
    await library.load()  # on a busy machine this alone takes longer than a run may
    return request.param


async def test_the_connection_is_closed_in_the_middle_of_the_answer(provider: Provider, fast: bool) -> None:
    run = Run(provider, 10, fast, n=100, hang=20)
    with pytest.raises(LimitReached) as reached:
        await run.perform()
    assert reached.value.finish_reason == MAX_OUTPUT_TOKENS
    record = await provider.wait_closed(run.name)
    assert record.end in ("client_closed", "client_reset")
    assert run.execution.book.open == 0
    assert len(provider.of(run.name)) == 1


async def test_the_provider_is_asked_to_keep_to_what_is_left(provider: Provider, fast: bool) -> None:
    run = Run(provider, 1000, fast, most_tokens=5000, n=1)
    await run.perform()
    [record] = provider.of(run.name)
    assert record.body.get("max_tokens", record.body.get("max_completion_tokens")) == 1000
