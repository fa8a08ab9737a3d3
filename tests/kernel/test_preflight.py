"""What can be told of a model before it is asked."""

import pytest

from kernel.llm.preflight import complaint


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "OLLAMA_API_BASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("model", ["gpt5typo/nothing", "nothing"])
async def test_a_provider_that_nobody_knows_is_told(model: str) -> None:
    told = await complaint(model)
    assert f"No provider is known for the model {model!r}" in told
    assert "STUDIO_MODEL" in told


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("openai/my-model", "OPENAI_API_KEY"),
        ("groq/openai/gpt-oss-120b", "GROQ_API_KEY"),
        ("gemini/gemini-flash-latest", "GEMINI_API_KEY"),
    ],
)
async def test_a_key_that_is_not_set_is_told_by_its_name(model: str, key: str) -> None:
    assert f"{model!r} usually needs {key} in" in await complaint(model)


async def test_a_blank_key_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert "OPENAI_API_KEY" in await complaint("openai/my-model")


async def test_a_model_with_its_key_and_one_that_needs_none_are_nothing_to_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    assert await complaint("openai/my-model") == ""
    assert await complaint("ollama_chat/llama3.2") == ""
