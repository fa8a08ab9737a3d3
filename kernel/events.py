"""What a run tells while it works: frozen values, in the order in which they happened. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """What an execution is doing right now, as shown to people."""

    STARTING = "starting"
    WAITING = "waiting"
    STREAMING = "streaming"
    TOOL = "tool"
    RETRYING = "retrying"
    STOPPING = "stopping"
    SETTLING = "settling"


class ToolState(StrEnum):
    """The state of one tool call. `unstoppable`: it goes on in a thread that nobody can end; its result is ignored."""

    RUNNING = "running"
    COMPLETED = "completed"
    ERROR = "error"
    ABORTED = "aborted"
    UNSTOPPABLE = "unstoppable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens and cost. `cost_usd` is None where no price is known; `estimated` where the provider never sent usage."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False

    def __add__(self, other: "Usage") -> "Usage":
        known = [c for c in (self.cost_usd, other.cost_usd) if c is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(known) if known else None,
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDelta:
    """New text of the current step; `kind` is `text` or `reasoning`."""

    step: int
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolStarted:
    """A call has begun. `input` is None while its arguments are still arriving; then it is told again, complete."""

    step: int
    call_id: str
    name: str
    input: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolFinished:
    """A call has ended. `output` is text for the model; `error` is text for the model and the reader."""

    step: int
    call_id: str
    name: str
    state: ToolState
    output: str | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFinished:
    """One model call and its tools are done; `step` counts from 1."""

    step: int
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """A change of phase."""

    phase: Phase
    step: int = 0
    max_steps: int = 0
    tool: str | None = None
    attempt: int | None = None
    retry_in_ms: int | None = None


Event = TextDelta | ToolStarted | ToolFinished | StepFinished | Progress
