"""A turn as its readers see it while it runs: numbered events, coalesced deltas, and the draft behind them.

Everything happens on the event loop without an await, so that the snapshot of a new reader and the numbers of the
events that follow it always agree.
"""

import asyncio
import time
from dataclasses import replace
from typing import Any, Protocol

from chat.draft import Draft
from kernel.events import Event, Phase, Progress, StepFinished, TextDelta, ToolFinished, ToolStarted, Usage
from kernel.hub import hub
from kernel.registry import Execution

# Text waits this long for more, except the first of a silence.
COALESCE_S = 0.04
# While text flows, seconds and tokens are told anew this often.
PROGRESS_S = 1.0
USAGE_S = 2.0


SESSION_TOPIC = "session:"
USER_TOPIC = "user:"


def session_topic(session_id: int) -> str:
    """Where the news of a session is published. By its id, since a key may be used again by somebody else."""
    return f"{SESSION_TOPIC}{session_id}"


def user_topic(user_id: int) -> str:
    """Where the news of a person's sessions is published."""
    return f"{USER_TOPIC}{user_id}"


# A running turn at one moment, as JSON: `active` (of the contract), and its answer's `parts` and `text` so far.
Live = dict[str, Any]


class OnChange(Protocol):
    """Called when a turn has something worth keeping: soon, or `now`."""

    def __call__(self, turn: "LiveTurn", *, now: bool) -> None: ...


class LiveTurn:
    """One running turn of this process."""

    def __init__(
        self,
        execution: Execution,
        *,
        session_id: int,
        message_id: int,
        max_steps: int,
        on_change: "OnChange",
    ):
        self.execution = execution
        self.topic = session_topic(session_id)
        self.message_id = str(message_id)
        self.draft = Draft()
        self.seq = 0
        self._on_change = on_change
        self._progress = Progress(phase=Phase.STARTING, max_steps=max_steps)
        self._waiting: list[dict[str, Any]] = []
        self._last_flush_s = 0.0
        self._last_progress_s = 0.0
        self._kept_usage: Usage | None = None
        self._kept_usage_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # What the run tells

    def tell(self, event: Event) -> None:
        """Apply one event of the run and publish it. Work that outlives its end is not listened to."""
        if self._closed:
            return
        match event:
            case TextDelta():
                self._on_text(event)
            case ToolStarted():
                self._publish_tool(self.draft.start_tool(event))
            case ToolFinished():
                self._publish_tool(self.draft.finish_tool(event))
            case StepFinished():
                self._on_change(self, now=True)
            case Progress():
                self._progress = event
                self.flush()
                self._send_progress()

    def stopping(self) -> None:
        """It was told to stop; the end comes when it is true."""
        self.tell(replace(self._progress, phase=Phase.STOPPING))

    def publish(self, kind: str, fields: dict[str, Any]) -> None:
        """Send one numbered event, after the deltas that came before it."""
        self.flush()
        self._send(kind, fields)

    def flush(self) -> None:
        """Send the deltas that are waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for delta in waiting:
            self._send("delta", {"messageId": self.message_id, **delta, "text": "".join(delta["text"])})
        if waiting:
            self._last_flush_s = time.monotonic()
            if self._last_flush_s - self._last_progress_s > PROGRESS_S:
                self._send_progress()

    def close(self) -> None:
        """The end is told; nothing is applied after this."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def usage(self) -> Usage:
        """What was used so far: as counted for finished model calls, estimated for the one that runs."""
        return self.execution.usage + self.execution.pending

    def usage_is_due(self) -> bool:
        """Whether the ledger should have the usage anew: after each model call, else every `USAGE_S`."""
        now_s = time.monotonic()
        if self._kept_usage == self.execution.usage and now_s - self._kept_usage_s < USAGE_S:
            return False
        self._kept_usage, self._kept_usage_s = self.execution.usage, now_s
        return True

    # What a new reader gets

    def progress(self) -> dict[str, Any]:
        """The fields of `studio_chat_progress`, with the times of now."""
        progress = self._progress
        told: dict[str, Any] = {
            "phase": progress.phase.value,
            "step": progress.step,
            "maxSteps": progress.max_steps,
            "elapsedMs": round((time.monotonic() - self.execution.started_s) * 1000),
            "outputTokens": self.usage().output_tokens,
        }
        optional = {"tool": progress.tool, "attempt": progress.attempt, "retryInMs": progress.retry_in_ms}
        return told | {name: value for name, value in optional.items() if value is not None}

    def snapshot(self) -> Live:
        """All that a new reader needs, at one moment."""
        return {"active": self.active(), "parts": self.draft.parts(), "text": self.draft.text()}

    def active(self) -> dict[str, Any]:
        """The `active` object of a snapshot. Waiting deltas go first, so that `seq` stands for all of the draft."""
        self.flush()
        return {
            "executionId": self.execution.id,
            "messageId": self.message_id,
            "seq": self.seq,
            "progress": self.progress(),
        }

    # Inside

    def _on_text(self, event: TextDelta) -> None:
        part, offset = self.draft.add_text(event)
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last["part"] == part:
            last["text"].append(event.text)
        else:
            begins = {} if offset else {"startedAt": self.draft.started_at(part)}
            self._waiting.append({"part": part, "kind": event.kind, "offset": offset, "text": [event.text], **begins})
        self._on_change(self, now=False)
        if self._timer is None:
            wait_s = self._last_flush_s + COALESCE_S - time.monotonic()
            if wait_s <= 0:
                self.flush()
            else:
                self._timer = asyncio.get_running_loop().call_later(wait_s, self.flush)

    def _send_progress(self) -> None:
        self._last_progress_s = time.monotonic()
        self._send("progress", self.progress())

    def _publish_tool(self, part: int) -> None:
        shown = self.draft.part(part)
        told = {name: value for name, value in shown.items() if name != "kind" and value is not None}
        self.publish("tool", {"messageId": self.message_id, "part": part, **told})
        self._on_change(self, now=shown["state"] != "running")

    def _send(self, kind: str, fields: dict[str, Any]) -> None:
        self.seq += 1
        execution = self.execution
        hub.publish(
            self.topic,
            {
                "type": f"studio_chat_{kind}",
                "sessionKey": execution.session_key,
                "executionId": execution.id,
                "seq": self.seq,
                **fields,
            },
        )
