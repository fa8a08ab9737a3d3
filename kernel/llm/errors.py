"""A provider's failure as text for people: what happened, what to do next, and no secret. Knows no litellm."""

import email.utils
import json
import logging
import os
import re
import time
from typing import Any

from kernel.llm.model import ModelError
from kernel.llm.text import storable

logger = logging.getLogger(__name__)

# What a provider says of itself is shown, but not at any length.
QUOTED_MAX = 300
SECRETS = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|key)[-_][\w*.-]{8,}|\bAIza[\w-]{8,}|(?i:bearer)\s+\S+")
SECRET_NAMES = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
PREFIXES = re.compile(r"^(?:litellm\.\w+: ?|[A-Za-z]+ ?(?:Error|Exception): ?|[A-Za-z]+Exception - )+")
# What litellm says before it asks anybody; some of it comes as an error of the provider's that could be retried.
KEY_IS_MISSING = re.compile(r"Missing (?:[\w.-]+ )?(?:API key|credentials)|Unable to locate credentials", re.IGNORECASE)
KEY_NAME = re.compile(r"\b[A-Z][A-Z0-9_]*_API_KEY\b")

MESSAGE_NAMES = ("error", "message", "detail", "msg")

ADVICE = {
    400: "The provider refused the request.",
    401: "The provider refused the key for {model!r}. Check the provider's key in the server's environment.",
    403: "The provider does not allow this key to use {model!r}. Check the key's rights or choose another model.",
    404: "The provider does not know the model {model!r}. Choose another model, or correct STUDIO_MODEL.",
    408: "The provider did not answer in time. Send again.",
    413: "The conversation is too long for the model {model!r}. Start a new session, or send less.",
    429: "The provider is limiting requests to {model!r}. Wait a little and send again.",
}
UNREACHABLE = (
    "The provider of {model!r} cannot be reached. Check the network and the provider's address in the server's "
    "environment, then send again."
)
BROKEN_OFF = "The provider broke off its answer. What had arrived is kept; continue, or send again."
FAILED = "The provider of {model!r} failed. Send again in a moment."
OURS = "Something failed on our side ({kind}). Send again, or choose another model; the server's log has the details."
NO_KEY = (
    "No key is set for {model!r}. Set {key} in the server's environment and start it again, or choose another model."
)
UNKNOWN = (
    "No provider is known for the model {model!r}. Choose another model, or correct STUDIO_MODEL (provider/model)."
)


def model_error(error: Exception, model: str) -> ModelError:
    """Translate what the adapter raised."""
    if isinstance(error, ModelError):
        return error
    kinds = {kind.__name__ for kind in type(error).__mro__}
    text = str(error)
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else None
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    if "LLM Provider NOT provided" in text:
        return ModelError(UNKNOWN.format(model=model), status=400)
    if KEY_IS_MISSING.search(text):
        named = KEY_NAME.search(text)
        return ModelError(NO_KEY.format(model=model, key=named[0] if named else "the provider's key"), status=401)
    if "MidStreamFallbackError" in kinds:
        return broken_off(text, status)
    if _unreachable(kinds, text):
        return ModelError(UNREACHABLE.format(model=model), status=status, retryable=True)
    if "ContextWindowExceededError" in kinds:
        status = 413
    if status is None:
        # Not the provider's: a fault of the adapter or of ours, which asking again would not mend.
        logger.error("A model's adapter failed.", exc_info=error)
        return ModelError(OURS.format(kind=type(error).__name__))
    return refused(status, text, model, headers=headers)


def refused(status: int, said: str, model: str, *, headers: Any = None) -> ModelError:
    """The provider answered with an HTTP status that is no answer. `said` is its own words, or litellm's of them."""
    return ModelError(
        _with_quote(ADVICE.get(status, FAILED).format(model=model), said),
        status=status,
        retryable=status == 408 or status == 429 or status >= 500,
        retry_after_s=_retry_after_s(headers or {}),
    )


def broken_off(said: str, status: int | None = None) -> ModelError:
    """The provider's answer had begun, and broke off."""
    return ModelError(_with_quote(BROKEN_OFF, said), status=status, retryable=True)


def unfinished() -> ModelError:
    """The provider's stream ended well, and its answer did not."""
    return ModelError("The provider ended its answer without finishing it. Continue, or send again.", retryable=True)


def message_in(body: bytes) -> str:
    """What a provider says in the body of an error: its message, wherever it stands, else all of it."""
    text = body.decode(errors="replace")
    try:
        value = json.loads(text)
    except ValueError:
        return text
    while isinstance(value, dict | list) and value:
        inner = value[0] if isinstance(value, list) else next(filter(None, map(value.get, MESSAGE_NAMES)), None)
        if inner is None:
            break
        value = inner
    return value if isinstance(value, str) else text


def _unreachable(kinds: set[str], text: str) -> bool:
    return "ClientConnectionError" in kinds or "Connection error" in text or "Cannot connect to host" in text


def _with_quote(advice: str, text: str) -> str:
    """The advice, and what the provider itself said."""
    said = text.split("Original exception:")[0].split("\nTraceback")[0].strip()
    while (shorter := PREFIXES.sub("", said).strip()) != said:
        said = shorter
    said = storable(_without_secrets(said))
    return f"{advice} It said: {_shortened(said)}" if said else advice


def _shortened(said: str) -> str:
    """The first words of `said`, without a quotation of code that would not be closed."""
    if len(said) <= QUOTED_MAX:
        return said
    words = said[: QUOTED_MAX + 1].rsplit(maxsplit=1)[0][:QUOTED_MAX]
    if words.count("`") % 2:
        words = words.rpartition("`")[0]
    return f"{words.rstrip()} …"


def _without_secrets(text: str) -> str:
    """The text without what looks like a key, and without any key that this process was given."""
    for name, value in os.environ.items():
        if len(value) >= 8 and SECRET_NAMES.search(name):
            text = text.replace(value, "***")
    return SECRETS.sub("***", text)


def _retry_after_s(headers: Any) -> float | None:
    """`Retry-After` in seconds: a number, or an HTTP date (RFC 9110, 10.2.3)."""
    value = headers.get("retry-after")
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
