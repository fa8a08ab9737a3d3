"""A message ends with its execution, in the same transaction, whoever ends it; and an order takes promises back."""

from dataclasses import replace
from typing import Any

import pytest

from chat import partials, queue
from chat.models import ChatMessage, QueuedMessage
from chat.partials import Partial
from kernel.control import Target, abort_ordered
from kernel.models import ExecutionRecord
from kernel.runner import Outcome, Status
from tests.chat.rows import enqueue, make_user, owner, settle, start
from tests.kernel.rows import COMPLETED, aborted, expire

pytestmark = pytest.mark.django_db

FAILED = Outcome(status=Status.ERROR, error="no")
SOME = [{"kind": "text", "step": 1, "text": "some"}]
RUNNING_TOOL = {
    "kind": "tool",
    "step": 1,
    "callId": "c",
    "name": "add",
    "state": "running",
    "input": {},
    "output": None,
    "error": None,
}


def work(started: Any, parts: list[dict[str, Any]] = SOME) -> Partial:
    """What the owner has in memory."""
    return Partial(
        message_id=started.answer.pk,
        execution_id=str(started.record.pk),
        worker_id=started.record.worker_id,
        text="".join(part.get("text", "") for part in parts),
        parts=parts,
        record={},
    )


def answer_of(started: Any) -> ChatMessage:
    return ChatMessage.objects.get(pk=started.answer.pk)


@pytest.mark.parametrize("outcome", [COMPLETED, FAILED, aborted()], ids=lambda outcome: outcome.status.value)
def test_the_message_ends_as_its_execution_with_what_the_owner_had(outcome: Outcome) -> None:
    started = start()
    settle(started, outcome, work(started))
    end = answer_of(started)
    assert end.status == outcome.status.value == ExecutionRecord.objects.get().status
    assert (end.text, end.parts) == ("some", SOME)
    assert end.finished_at is not None


def test_the_persons_own_message_stays_as_it_is() -> None:
    started = start()
    settle(started, aborted(), work(started))
    assert started.user_message is not None
    assert ChatMessage.objects.get(pk=started.user_message.pk).status == "completed"


def test_what_a_lost_worker_had_kept_is_what_its_message_ends_with() -> None:
    started = start()
    ChatMessage.objects.filter(pk=started.answer.pk).update(text="some", parts=[*SOME, RUNNING_TOOL])
    expire(started.record.worker_id)
    ExecutionRecord.objects.settle_orphans()
    end = answer_of(started)
    assert (end.status, end.text) == ("aborted", "some")
    assert end.parts[0] == SOME[0]
    assert end.parts[1]["state"] != "running"
    assert end.parts[1]["error"]


def test_a_stop_before_any_output_leaves_a_visible_row() -> None:
    started = start()
    settle(started, aborted(), work(started, []))
    end = answer_of(started)
    assert (end.status, end.text, end.parts) == ("aborted", "", [])


def test_only_the_first_end_reaches_the_message() -> None:
    started = start()
    settle(started, COMPLETED, work(started))
    record = started.record
    assert not ExecutionRecord.objects.settle(str(record.pk), aborted(), record.worker_id, work(started, []))
    assert (answer_of(started).status, answer_of(started).text) == ("completed", "some")


def test_an_execution_whose_session_is_gone_brings_nothing_back() -> None:
    started = start()
    kept = work(started)
    started.session.delete()
    settle(started, aborted("deleted"), kept)
    assert not ChatMessage.objects.exists()
    assert ExecutionRecord.objects.get().abort_reason == "deleted"


# Partials


def test_a_partial_is_kept_with_what_its_execution_has_used() -> None:
    started = start()
    kept = replace(work(started), record={"steps": 2, "output_tokens": 7})
    assert partials._save([kept]) == []
    assert (answer_of(started).text, answer_of(started).status) == ("some", "streaming")
    record = ExecutionRecord.objects.get()
    assert (record.steps, record.output_tokens) == (2, 7)


def test_a_partial_of_what_has_ended_or_belongs_to_another_is_refused() -> None:
    ended, taken = start(), start(key="t")
    settle(ended, COMPLETED, work(ended))
    ExecutionRecord.objects.filter(pk=taken.record.pk).update(worker_id=owner().worker_id)
    late = [work(ended, []), work(taken)]
    assert partials._save(late) == [str(ended.record.pk), str(taken.record.pk)]
    assert answer_of(ended).text == "some"
    assert answer_of(taken).text == ""


# Orders


@pytest.mark.parametrize(
    ("target", "withdrawn"),
    [(Target(session_key="s"), True), (Target(session_key="t"), False), (Target(), True), (Target(model="m"), False)],
    ids=["its session", "another session", "everything", "another model"],
)
def test_an_order_takes_back_the_promises_of_its_target(target: Target, withdrawn: bool) -> None:
    start()
    item = enqueue("now")
    queue.send_now("s", make_user().pk, "ann", str(item.pk), owner())
    abort_ordered.send(sender=Target, target=target)
    assert QueuedMessage.objects.get().promoted is not withdrawn
