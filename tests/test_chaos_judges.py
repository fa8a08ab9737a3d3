"""The judges of the campaign of faults: each is content with a clean round, and finds what is wrong in a bad one."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from chaos import invariants, orders, words
from chaos.campaign import CHECKS
from chaos.evidence import Evidence, Execution
from chaos.journal import Deed, Journal, Sent
from tests.provider import Record
from tests.provider_script import Script

START_S = 1000.0  # when the execution of the clean round began; it ended two seconds later
STOP = "studio_chat_stop_session"


def deed(type_: str, sent_s: float, reply: dict[str, Any] | None = None, **fields: Any) -> Deed:
    return Deed(
        round=(1, 0),
        operation=0,
        person="op" if type_ == "studio_chat_panic" else "ann",
        type=type_,
        key="ann-0",
        fields=fields,
        sent_s=sent_s,
        replied_s=sent_s + 0.5,
        reply=reply,
    )


def counted(**counts: int) -> dict[str, Any]:
    names = ("aborted", "unconfirmed", "alreadyFinished", "active")
    return {"ok": True, **{f"{name}Count": counts.get(name, 0) for name in names}}


@pytest.fixture
def evidence() -> Evidence:
    """One message, sent, answered with two words, and stopped."""
    journal = Journal(round=(1, 0))
    sent = deed("studio_chat_send", START_S - 0.1, {"ok": True, "queued": False})
    stop = deed(STOP, START_S + 1.8, counted(aborted=1))
    journal.deeds += [sent, stop]
    journal.sent["m"] = Sent(id="m", person="ann", key="ann-0", text="[[id=m]]", tries=[sent])
    row = {"id": "e", "session_key": "ann-0", "status": "aborted", "abort_reason": "session_stop", "user_id": 1}
    row |= {"finished_at": datetime.fromtimestamp(START_S + 2, UTC), "duration_ms": 2000.0, "pid": 7}
    row |= {"intent": "session_stop", "error": ""}
    parts = [{"kind": "text", "step": 1, "text": "w0 w1 "}]
    answer = {"id": 2, "execution_id": "e", "role": "assistant", "status": "aborted", "text": "w0 w1 ", "parts": parts}
    answer |= {"key": "ann-0", "client_message_id": ""}
    asked = {"id": 1, "execution_id": "e", "role": "user", "status": "completed", "text": "[[id=m]]", "key": "ann-0"}
    asked |= {"client_message_id": "m"}
    record = Record(id="m", attempt=0, body={"messages": []}, script=Script(), problems=[], arrived=START_S + 0.1)
    record.sent, record.text, record.end = ["w0 ", "w1 ", "w2 "], "w0 w1 w2 ", "client_closed"
    execution = Execution(
        row=row,
        answer=answer,
        requests=[record],
        began_s=START_S,
        known_s=START_S,
        ended_s=START_S + 2,
        told_s=START_S + 2,
    )
    delta = {"type": "studio_chat_delta", "executionId": "e", "messageId": "2", "part": 0, "kind": "text", "seq": 3}
    result = {"type": "studio_chat_result", "executionId": "e", "seq": 4, "status": "aborted", "text": "w0 w1 "}
    frames = [{**delta, "offset": 0, "text": "w0 w1 "}, {**result, "abortReason": "session_stop"}]
    client: Any = SimpleNamespace(frames=frames, arrivals=[START_S + 1, START_S + 2])
    audit = {"verb": "stop", "by": "ann", "target": "session ann-0", "at": datetime.fromtimestamp(START_S + 1.9, UTC)}
    return Evidence(
        journal=journal,
        executions=[execution],
        messages=[asked, answer],
        queue=[],
        audit=[audit],
        users={"ann": 1},
        records=[(record, "ann-0")],
        clients=[client],
        workers=[],
        offset_s=0.0,
        lag_s=0.0,
    )


def test_a_clean_round_is_found_clean(evidence: Evidence) -> None:
    assert [told for check in CHECKS for told in check(evidence)] == []


def answer_unlike(evidence: Evidence) -> None:
    evidence.messages[1]["status"] = "completed"  # type: ignore[index]


def result_twice(evidence: Evidence) -> None:
    evidence.clients[0].frames.append(evidence.clients[0].frames[-1])


def result_unlike(evidence: Evidence) -> None:
    evidence.clients[0].frames[-1]["abortReason"] = "panic_stop"


def asked_after_the_end(evidence: Evidence) -> None:
    evidence.records[0][0].arrived = START_S + 3


def asked_with_a_bad_history(evidence: Evidence) -> None:
    evidence.records[0][0].problems.append("call without a result")


def lost_message(evidence: Evidence) -> None:
    evidence.messages[0]["client_message_id"] = ""  # type: ignore[index]


def message_twice(evidence: Evidence) -> None:
    evidence.messages = [*evidence.messages, evidence.messages[0] | {"id": 3, "client_message_id": ""}]  # type: ignore[operator]


def refused_and_kept(evidence: Evidence) -> None:
    evidence.journal.sent["m"].tries[0].reply = {"ok": False, "code": "held"}


def words_never_sent(evidence: Evidence) -> None:
    evidence.records[0][0].text = "other"


def words_seen_and_not_kept(evidence: Evidence) -> None:
    evidence.clients[0].frames[0]["text"] = "w0 w1 w2 "


def counted_too_many(evidence: Evidence) -> None:
    evidence.journal.deeds[1].reply = counted(aborted=2)


def told_as_ended_and_lived_on(evidence: Evidence) -> None:
    evidence.journal.deeds.append(deed(STOP, START_S + 0.5, counted(active=1)))


def stopped_by_a_stranger(evidence: Evidence) -> None:
    evidence.journal.deeds[1].key = "bob-0"


def not_audited(evidence: Evidence) -> None:
    evidence.audit = []


def begun_under_a_hold(evidence: Evidence) -> None:
    reply = {**counted(), "hold": {"id": "h"}}
    evidence.journal.deeds.append(deed("studio_chat_panic", START_S - 1, reply, hold=True))
    evidence.audit = [*evidence.audit, {"verb": "panic", "by": "op", "target": "everything", "at": at(START_S - 0.9)}]


def at(moment_s: float) -> datetime:
    return datetime.fromtimestamp(moment_s, UTC)


Judge = Callable[[Evidence], Iterator[str]]


@pytest.mark.parametrize(
    ("spoil", "judge"),
    [
        (answer_unlike, invariants.ends_are_written_once_and_alike),
        (result_twice, invariants.results_are_told_once_as_written),
        (result_unlike, invariants.results_are_told_once_as_written),
        (asked_after_the_end, invariants.requests_belong_to_the_living),
        (asked_with_a_bad_history, invariants.requests_belong_to_the_living),
        (lost_message, invariants.messages_are_sent_once),
        (message_twice, invariants.messages_are_sent_once),
        (refused_and_kept, invariants.messages_are_sent_once),
        (words_never_sent, words.text_is_what_the_provider_sent),
        (words_seen_and_not_kept, words.text_is_all_that_was_seen),
        (counted_too_many, orders.counts_are_the_ledgers),
        (told_as_ended_and_lived_on, orders.counts_are_the_ledgers),
        (stopped_by_a_stranger, orders.strangers_stop_nothing),
        (not_audited, orders.orders_are_audited),
        (begun_under_a_hold, orders.nothing_starts_under_a_hold),
    ],
)
def test_what_is_wrong_is_found(evidence: Evidence, spoil: Callable[[Evidence], None], judge: Judge) -> None:
    spoil(evidence)
    assert list(judge(evidence)) != []
