"""A provider's failure in words for people: what happened, what to do, whether to ask again, and no secret."""

import email.utils
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.llm import errors
from kernel.llm.errors import QUOTED_MAX, model_error
from kernel.llm.model import ModelError

NOW_S = 1_800_000_000.0


def failure(text: str, status: Any = None, *, kind: str = "APIError", headers: dict[str, str] | None = None) -> Any:
    """What litellm raises: a class known by its name, a status, a response."""
    error = type(kind, (Exception,), {})(text)
    error.status_code = status
    error.response = SimpleNamespace(headers=headers or {})
    return error


@pytest.mark.parametrize(
    ("status", "advice", "retryable"),
    [
        (400, "refused the request", False),
        (401, "Check the provider's key", False),
        (403, "does not allow this key", False),
        (404, "does not know the model 'm'", False),
        (408, "did not answer in time", True),
        (413, "too long for the model", False),
        (422, "failed", False),
        (429, "limiting requests", True),
        (500, "failed", True),
        (529, "failed", True),
        (None, "failed on our side (APIError)", False),
        ("weird", "failed on our side (APIError)", False),
    ],
)
def test_each_status_says_what_happened_and_whether_to_ask_again(status: Any, advice: str, retryable: bool) -> None:
    error = model_error(failure("no", status), "m")
    assert advice in error.message
    assert error.retryable is retryable
    assert error.status == (status if isinstance(status, int) else None)


def test_a_model_error_stays_as_it_is() -> None:
    error = ModelError("as it is")
    assert model_error(error, "m") is error


def test_a_model_of_nobody_is_told_with_what_to_correct() -> None:
    error = model_error(failure("LLM Provider NOT provided. Pass …"), "m")
    assert "STUDIO_MODEL" in error.message
    assert not error.retryable


def test_a_broken_stream_may_be_asked_again_and_says_that_what_had_arrived_is_kept() -> None:
    error = model_error(failure("upstream reset", 500, kind="MidStreamFallbackError"), "m")
    assert "broke off its answer. What had arrived is kept" in error.message
    assert error.retryable


@pytest.mark.parametrize(
    "error",
    [
        failure("x", kind="ClientConnectionError"),
        failure("Connection error."),
        failure("Cannot connect to host 10.0.0.1:443"),
    ],
    ids=["its class", "its text", "aiohttp's text"],
)
def test_a_provider_that_is_not_there_is_told_apart(error: Exception) -> None:
    told = model_error(error, "m")
    assert "cannot be reached" in told.message
    assert "10.0.0.1" not in told.message
    assert told.retryable


def test_a_conversation_that_is_too_long_says_what_to_do() -> None:
    error = model_error(failure("too many tokens", 400, kind="ContextWindowExceededError"), "m")
    assert "Start a new session" in error.message
    assert not error.retryable


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefgh12345678",
        "sk-ant-api03-ABCDEFGHIJK_xyz",
        "gsk_abcdefgh12345678",
        "xai-abcdefgh12345678",
        "AIzaSyA1234567890abcdef",
        "Bearer abc.def",
        "sk-pr********************5678",
    ],
)
def test_no_secret_is_quoted(secret: str) -> None:
    error = model_error(failure(f"Incorrect API key provided: {secret}. You can find it …", 401), "m")
    assert secret not in error.message
    assert "***" in error.message
    assert "Incorrect API key provided" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "litellm.BadRequestError: OpenAIException - it is full",
        "litellm.Timeout: Timeout Error: OpenAIException - it is full",
        "litellm.InternalServerError: InternalServerError: OpenAIException - it is full",
        "APIConnectionError: it is full",
        "it is full\nTraceback (most recent call last): …",
        "it is full Original exception: a whole page",
    ],
)
def test_the_quote_is_the_providers_own_words_without_the_wrapping(text: str) -> None:
    assert model_error(failure(text, 500), "m").message.endswith("It said: it is full")


def test_a_long_quote_is_cut() -> None:
    message = model_error(failure("x" * 10_000, 500), "m").message
    assert len(message) < QUOTED_MAX + 200
    assert message.endswith("…")


def test_a_long_quote_is_cut_between_words_and_outside_of_code() -> None:
    begun = "Please set " * 26  # to just before the end of what is quoted
    message = model_error(failure(f"{begun}`A_LONG_NAME or ANOTHER` and so on", 500), "m").message
    assert message.endswith("Please set …")
    message = model_error(failure("word " * 100, 500), "m").message
    assert message.endswith("word word …")


@pytest.mark.parametrize(
    ("said", "key"),
    [
        (
            "litellm.AuthenticationError: Missing Anthropic API Key - A call is … set `ANTHROPIC_API_KEY` or",
            "ANTHROPIC_API_KEY",
        ),
        (
            "InternalServerError: OpenAIException - Missing credentials. Please pass `api_key` or `OPENAI_API_KEY`",
            "OPENAI_API_KEY",
        ),
        ("Missing Gemini API key. Set the GEMINI_API_KEY or GOOGLE_API_KEY environment variable.", "GEMINI_API_KEY"),
        ("BedrockException Invalid Authentication - Unable to locate credentials", "the provider's key"),
    ],
    ids=["anthropic", "openai", "gemini", "bedrock"],
)
def test_a_key_that_is_not_set_is_told_by_its_name_and_never_asked_again(said: str, key: str) -> None:
    error = model_error(failure(said, 500), "m")
    assert error.message.startswith(f"No key is set for 'm'. Set {key} in")
    assert (error.status, error.retryable) == (401, False)


def test_silence_is_not_quoted() -> None:
    assert "It said" not in model_error(failure("", 500), "m").message


@given(st.text(), st.sampled_from([None, 400, 401, 429, 500]))
def test_whatever_it_says_it_becomes_a_message(text: str, status: int | None) -> None:
    assert model_error(failure(text, status), "m").message


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("7", 7),
        ("0", 0),
        ("1.5", 1.5),
        ("-3", 0),
        (email.utils.formatdate(NOW_S + 30, usegmt=True), 30),
        (email.utils.formatdate(NOW_S - 30, usegmt=True), 0),
        ("soon", None),
        ("", None),
    ],
    ids=["seconds", "zero", "a fraction", "negative", "a date", "a date that has passed", "nonsense", "empty"],
)
def test_the_named_wait_is_read_in_either_form(
    value: str, wait_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "time", SimpleNamespace(time=lambda: NOW_S))
    assert model_error(failure("slow down", 429, headers={"retry-after": value}), "m").retry_after_s == wait_s


def test_a_failure_without_a_response_names_no_wait() -> None:
    assert model_error(RuntimeError("odd"), "m").retry_after_s is None
