"""What must hold of ends, requests, messages and files, whatever broke. Each check yields what is wrong, in words."""

import json
from collections import Counter
from collections.abc import Iterator

from chaos.evidence import Evidence, Execution, names_in
from tests.client import Frame
from tests.provider import Record

# A request is booked when its provider gets round to it, which a busy machine delays; by then its client has gone.
LATE_S = 0.25
ABORTED = "aborted"


def ends_are_written_once_and_alike(evidence: Evidence) -> Iterator[str]:
    """Every execution has one end, and its answer the same."""
    sessions = {row["key"] for row in evidence.messages}
    answers = Counter(row["execution_id"] for row in evidence.messages if row["role"] == "assistant")
    for execution in evidence.executions:
        row, answer = execution.row, execution.answer
        if row["status"] == "running" or row["finished_at"] is None:
            yield f"not ended: {execution}"
        if (row["status"] == ABORTED) != bool(row["abort_reason"]):
            yield f"a reason without an abort, or an abort without a reason: {execution}"
        if answer is None and execution.key in sessions and execution.key not in evidence.journal.deleted:
            yield f"no answer of {execution}"
        if answer is not None and answer["status"] != row["status"]:
            yield f"its answer is {answer['status']}: {execution}"
        if answers[row["id"]] > 1:
            yield f"{answers[row['id']]} answers of {execution}"
    for row in evidence.messages:
        if (row["status"] == "streaming") or (row["role"] == "user" and row["status"] != "completed"):
            yield f"message {row['id']} of {row['key']} is {row['status']}"


def results_are_told_once_as_written(evidence: Evidence) -> Iterator[str]:
    """Each socket is told the result of an execution at most once, as its row has it, and no numbered event after."""
    executions = {execution.id: execution for execution in evidence.executions}
    for client in evidence.clients:
        ended: set[str] = set()
        for frame in client.frames:
            id_ = frame.get("executionId")
            if frame["type"] == "studio_chat_result":
                if id_ in ended:
                    yield f"told twice: {frame}"
                ended.add(id_)
                yield from _as_written(frame, executions.get(id_))
            elif id_ in ended and frame.get("seq") is not None and not frame["type"].endswith("_ok"):
                yield f"told after the result: {frame}"


def _as_written(frame: Frame, execution: Execution | None) -> Iterator[str]:
    if execution is None:  # of an earlier round: whoever subscribes may be told of what has just ended
        return
    row, answer = execution.row, execution.answer
    told = (frame["status"], frame.get("abortReason") or "")
    if told != (row["status"], row["abort_reason"]):
        yield f"told as {told}: {execution}"
    if answer is not None and frame["text"] != answer["text"]:
        yield f"told with {frame['text'][-80:]!r}, written with {answer['text'][-80:]!r}: {execution}"


def requests_belong_to_the_living(evidence: Evidence) -> Iterator[str]:
    """The provider is asked for a live execution only, and in a way that the strictest one accepts."""
    for record, key in evidence.records:
        arrived_s = record.arrived + evidence.offset_s
        if record.problems:
            yield f"the history of {record.id} would be refused: {record.problems}"
        lives = list(evidence.of_session(key))
        late_s = LATE_S + evidence.lag_s
        alive = any(e.began_s - late_s <= arrived_s <= (e.ended_s or arrived_s) + late_s for e in lives)
        if key and not alive and not was_gone(record):
            told = [str(execution) for execution in lives]
            yield f"request {record.id} at {arrived_s:.3f} ({record.end}) without a live execution: {told}"


def was_gone(record: Record) -> bool:
    """Whether the client had gone before the provider said anything."""
    return not record.sent and record.end in ("client_closed", "client_reset")


def messages_are_sent_once(evidence: Evidence) -> Iterator[str]:
    """Each message is in the history at most once, and nowhere lost: sent, queued, removed or refused."""
    named = Counter(name for row in evidence.messages if row["role"] == "user" for name in names_in(row["text"]))
    for name, times in named.items():
        if times > 1:
            yield f"message {name} is {times} times in the history"
    kept = Counter(row["client_message_id"] for row in (*evidence.messages, *evidence.queue))
    for sent in evidence.journal.sent.values():
        if sent.key in evidence.journal.deleted or not sent.settled:
            continue
        places = kept[sent.id]
        tries = [str(deed) for deed in sent.tries]
        if sent.accepted and not places and sent.id not in evidence.journal.removed:
            yield f"message {sent.id} was accepted and is lost: {tries}"
        if places > 1:
            yield f"message {sent.id} is in {places} places: {tries}"
        if sent.refused and places:
            yield f"message {sent.id} was refused and is kept: {tries}"


def requests_are_answered_once(evidence: Evidence) -> Iterator[str]:
    for client in evidence.clients:
        answered = Counter(f["requestId"] for f in client.frames if f["type"].endswith("_ok") and f.get("requestId"))
        for request, times in answered.items():
            if times > 1:
                yield f"request {request} was answered {times} times"


def transcripts_can_be_read(evidence: Evidence) -> Iterator[str]:
    for worker in evidence.workers:
        for path in worker.transcripts.glob("*.jsonl"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True), 1):
                try:
                    assert line.endswith("\n")
                    json.loads(line)["id"]
                except (AssertionError, ValueError, KeyError):
                    yield f"{path.name}:{number} is no message: {line[:200]!r}"
