"""The model as the kernel sees it: one request in, one stream of deltas out. Pure.

A `Model` promises three things, held by one contract test for every implementation: the stream ends with exactly one
`Finished`, or raises `ModelError`; cancelling the task that iterates closes the provider's connection; and nothing is
retried inside.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kernel.errors import ToldError
from kernel.events import Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRequest:
    """One call. `messages` and `tools` are in the form of OpenAI's chat completions, which every adapter translates."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    max_output_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Delta:
    """New output; `kind` is `text` or `reasoning`. Never empty."""

    kind: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CallDelta:
    """A piece of the tool call at `index`: `call_id` and `name` come with the first, `arguments` is raw JSON text."""

    index: int
    call_id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The provider said that it is done: `reason` is `stop`, `length`, `tool_calls`, `content_filter` …"""

    reason: str
    usage: Usage | None = None


ModelEvent = Delta | CallDelta | Finished


class ModelError(ToldError):
    """The model could not answer.

    `message` tells a person what happened and what to do; it holds no secret. `retryable` for 429, 5xx and broken
    connections; `retry_after_s` where the provider named a wait, in seconds.
    """

    def __init__(
        self, message: str, *, status: int | None = None, retryable: bool = False, retry_after_s: float | None = None
    ):
        super().__init__(message)
        self.status = status
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class Model(Protocol):
    """Anything that streams an answer."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas as they arrive, then one `Finished`. Raises `ModelError`."""
        ...
