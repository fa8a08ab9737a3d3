"""Which models are asked directly: found from litellm's own request, which is never sent."""

import asyncio
from typing import Any

import pytest

from kernel.llm import library, litellm_model, route
from kernel.llm.litellm_model import LitellmModel
from kernel.llm.model import ModelRequest
from kernel.llm.route import Route, Routes
from tests.waiting import READY_TIMEOUT_S

pytestmark = [
    pytest.mark.usefixtures("litellm_closed"),
    pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier:UserWarning"),  # of litellm's types, at its first stream
]

KEY = "sk-a-key-for-routes-0123456789"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("OPENAI", "GROQ", "MISTRAL", "DEEPSEEK", "OPENROUTER", "XAI", "ANTHROPIC", "GEMINI", "AZURE"):
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)
    monkeypatch.setenv("AZURE_API_BASE", "https://azure.test")
    monkeypatch.setenv("AZURE_API_VERSION", "1")
    monkeypatch.delenv("OPENAI_API_BASE", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def arguments(name: str, **more: Any) -> dict[str, Any]:
    request = ModelRequest(model=name, messages=[{"role": "user", "content": "hello"}], tools=more.pop("tools", []))
    return LitellmModel(name=name, **more)._arguments(name, request)


async def found(name: str, **more: Any) -> Route | None:
    async with asyncio.timeout(READY_TIMEOUT_S):
        return await Routes().find(await library.load(), arguments(name, **more))


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("openai/gpt-4o", "https://api.openai.com/v1/chat/completions"),
        ("openai/o3", "https://api.openai.com/v1/chat/completions"),
        ("groq/openai/gpt-oss-120b", "https://api.groq.com/openai/v1/chat/completions"),
        ("mistral/mistral-medium-latest", "https://api.mistral.ai/v1/chat/completions"),
        ("deepseek/deepseek-chat", "https://api.deepseek.com/beta/chat/completions"),
        ("openrouter/openrouter/auto", "https://openrouter.ai/api/v1/chat/completions"),
        ("xai/grok-4", "https://api.x.ai/v1/chat/completions"),
    ],
)
async def test_a_provider_that_speaks_openais_wire_is_asked_directly(name: str, url: str) -> None:
    route_ = await found(name)
    assert route_ is not None
    assert str(route_.url) == url
    assert f"Bearer {KEY}" in route_.headers.values()


async def test_a_server_of_ones_own_is_asked_at_its_own_address() -> None:
    route_ = await found("hosted_vllm/any", api_base="http://vllm.test:8000/v1")
    assert route_ is not None
    assert str(route_.url) == "http://vllm.test:8000/v1/chat/completions"
    assert KEY not in str(route_.headers)


@pytest.mark.parametrize(
    "name",
    [
        "anthropic/claude-haiku-4-5",
        "gemini/gemini-flash-latest",
        "azure/deployed",
        "cohere/command-r",
        "ollama_chat/llama3.2",
        "openai/gpt-5-codex",  # of another of OpenAI's interfaces
        "bedrock/anthropic.claude-3-haiku-20240307-v1:0",
        "nobody-knows-me",
    ],
)
async def test_all_others_are_left_to_litellm(name: str) -> None:
    assert await found(name) is None


async def test_the_request_is_litellms_with_what_was_asked() -> None:
    route_ = await found("openai/fake-model")
    assert route_ is not None
    asked = arguments("openai/fake-model", tools=[route.TOOL])
    body = route_.body(await library.load(), asked)
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert body["tools"] == [route.TOOL]
    assert (body["model"], body["stream"]) == ("fake-model", True)
    assert body["stream_options"] == {"include_usage": True}


async def test_what_is_asked_is_not_changed_by_asking() -> None:
    route_ = await found("mistral/mistral-medium-latest")
    assert route_ is not None
    asked = arguments("mistral/mistral-medium-latest") | {"messages": route.SAMPLE, "tools": [route.TOOL]}
    before = repr(asked)
    route_.body(await library.load(), asked)
    assert repr(asked) == before


async def test_what_only_one_server_knows_goes_along() -> None:
    route_ = await found("openai/fake-model", api_base="http://one.test/v1", extra_body={"return_progress": True})
    assert route_ is not None
    assert route_.body(await library.load(), arguments("openai/fake-model"))["return_progress"] is True


async def test_a_token_that_was_made_for_the_moment_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "_headers", lambda _request: {"authorization": "Bearer of-an-hour"})
    assert await found("openai/gpt-4o") is None


async def test_a_request_that_is_signed_anew_each_time_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    signatures = iter("ab")
    monkeypatch.setattr(route, "_headers", lambda _request: {"x-signature": next(signatures)})
    assert await found("openai/gpt-4o") is None


async def test_a_request_that_differs_from_litellms_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    body = Route.body
    monkeypatch.setattr(Route, "body", lambda *given: body(*given) | {"temperature": 1})
    assert await found("openai/gpt-4o") is None


async def test_many_that_ask_at_once_learn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = []

    async def learn(_litellm: Any, given: Any) -> None:
        learned.append(given["model"])
        await asyncio.sleep(0)

    monkeypatch.setattr(route, "_learned", learn)
    routes = Routes()
    await asyncio.gather(*(routes.find(None, arguments("openai/gpt-4o")) for _ in range(5)))
    await routes.find(None, arguments("openai/gpt-4o"))
    assert learned == ["openai/gpt-4o"]


async def test_who_is_cancelled_while_asking_takes_nothing_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    reached, gate = asyncio.Event(), asyncio.Event()

    async def learn(_litellm: Any, _given: Any) -> str:
        reached.set()
        await gate.wait()
        return "learned"

    monkeypatch.setattr(route, "_learned", learn)
    routes = Routes()
    first = asyncio.create_task(routes.find(None, arguments("openai/gpt-4o")))
    await reached.wait()
    second = asyncio.create_task(routes.find(None, arguments("openai/gpt-4o")))
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    async with asyncio.timeout(READY_TIMEOUT_S):
        assert await second == "learned"
        await asyncio.wait({first})
    assert first.cancelled()


@pytest.mark.parametrize("provider", ["openai", "deepseek", "hosted_vllm"])
async def test_no_key_is_told_with_it(provider: str, caplog: pytest.LogCaptureFixture) -> None:
    name = f"{provider}/a-model-of-ones-own"
    route_ = await found(name, api_base="http://127.0.0.1:1/v1?code=sesame", api_key=KEY)
    assert route_ is not None
    assert KEY not in repr(route_)
    assert "sesame" not in repr(route_)
    assert f"The model {name!r} is asked directly" in caplog.text
    assert "sesame" not in caplog.text


async def test_how_a_model_is_asked_can_be_told() -> None:
    assert await litellm_model.lane_of("openai/gpt-4o") == "directly"
    assert await litellm_model.lane_of("anthropic/claude-haiku-4-5") == "through litellm"
