"""What must hold of the text: it is what the provider sent and clients saw, and a crash costs half a second of it."""

from collections.abc import Iterator
from typing import Any

from chaos.evidence import Evidence, Execution
from tests.client import StudioClient

LOST_S = 0.5  # of text, at most, by the contract
FORGIVEN_S = 3.0  # to a busy machine, where the owner crashed or was cut off from its database


def text_is_what_the_provider_sent(evidence: Evidence) -> Iterator[str]:
    """Each part of an answer is the beginning of what one request brought, and all of it if the run completed."""
    for execution in evidence.executions:
        for part in _parts(execution):
            said = [_said(record, part["kind"]) for record in execution.requests]
            if not any(text.startswith(part["text"]) for text in said):
                yield f"the provider never sent {part['text'][:200]!r}: {execution}"
            elif execution.row["status"] == "completed" and part["text"] not in said:
                yield f"completed with part of what the provider sent, {part['text'][-80:]!r}: {execution}"


def text_is_all_that_was_seen(evidence: Evidence) -> Iterator[str]:
    """What a socket was shown is stored, at its place; after a crash, what it was shown long enough before."""
    stored = {
        str(execution.answer["id"]): (execution, _until_s(evidence, execution))
        for execution in evidence.executions
        if execution.answer is not None
    }
    for client in evidence.clients:
        for delta, arrived_s in _deltas(client):
            execution, until_s = stored.get(delta["messageId"], (None, None))
            if execution is None or (until_s is not None and arrived_s + evidence.offset_s > until_s):
                continue
            parts = (execution.answer or {})["parts"]
            part = parts[delta["part"]] if delta["part"] < len(parts) else {}
            kept = part.get("text", "")[delta["offset"] :]
            if part.get("kind") != delta["kind"] or not kept.startswith(delta["text"]):
                yield f"seen and not kept: {delta}; kept: {part}; {execution}"
                break


def _until_s(evidence: Evidence, execution: Execution) -> float | None:
    """What was seen before this must be kept; None: everything, since the owner itself wrote the end."""
    if execution.of_owner:
        return None
    began = [fault.began_s for fault in evidence.disturbed(execution)]
    # Without a fault: its owner was starved by the machine for as long as a lease, and nobody knows since when.
    return min(began, default=execution.began_s) - LOST_S - FORGIVEN_S - evidence.lag_s


def _parts(execution: Execution) -> Iterator[dict[str, Any]]:
    parts = execution.answer["parts"] if execution.answer else []
    return (part for part in parts if part["kind"] in ("text", "reasoning"))


def _said(record: Any, kind: str) -> str:
    if kind == "text":
        return record.text
    return "".join(record.sent[: record.script.reason])


def _deltas(client: StudioClient) -> Iterator[tuple[dict[str, Any], float]]:
    pairs = zip(client.frames, client.arrivals, strict=True)
    return ((frame, arrived_s) for frame, arrived_s in pairs if frame["type"] == "studio_chat_delta")
