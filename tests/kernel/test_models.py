"""The ledger: one end per execution, by whoever may write it, and times in the database's clock."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from kernel.abort import AbortReason, TimeoutKind
from kernel.events import Usage
from kernel.models import ExecutionRecord, Hold, Intent, Worker, execution_settled, usage_fields
from kernel.runner import Outcome, Status
from tests.kernel.rows import COMPLETED, aborted, expire, make_execution, make_worker

pytestmark = pytest.mark.django_db

STOP = Intent(reason=AbortReason.SESSION_STOP, by="ann", source="web")


@contextmanager
def heard() -> Iterator[list[dict[str, Any]]]:
    """What `execution_settled` tells."""
    told: list[dict[str, Any]] = []

    def hear(record: ExecutionRecord, work: Any, **_: Any) -> None:
        told.append({"status": record.status, "work": work, "stored": ExecutionRecord.objects.get(pk=record.pk).status})

    execution_settled.connect(hear, sender=ExecutionRecord)
    try:
        yield told
    finally:
        execution_settled.disconnect(hear, sender=ExecutionRecord)


def fresh(record: ExecutionRecord) -> ExecutionRecord:
    return ExecutionRecord.objects.get(pk=record.pk)


# What the database itself refuses


def test_a_session_has_one_running_turn_at_most() -> None:
    first = make_execution(session_key="s")
    with pytest.raises(IntegrityError), transaction.atomic():
        make_execution(session_key="s")
    make_execution(session_key="s", kind="title")
    make_execution(session_key="t")
    ExecutionRecord.objects.settle(str(first.pk), COMPLETED, first.worker_id)
    make_execution(session_key="s")


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "aborted", "abort_reason": "", "finished_at": timezone.now()},
        {"status": "completed", "abort_reason": "session_stop", "finished_at": timezone.now()},
        {"status": "running", "abort_reason": "session_stop"},
        {"status": "completed", "finished_at": None},
        {"status": "running", "finished_at": timezone.now()},
    ],
    ids=[
        "aborted for no reason",
        "completed with a reason to abort",
        "running with a reason to abort",
        "ended at no time",
        "running and ended",
    ],
)
def test_an_end_that_contradicts_itself_cannot_be_stored(fields: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        make_execution(**fields)


# The end


def test_the_first_end_is_written_and_the_second_is_refused() -> None:
    record = make_execution()
    with heard() as told:
        assert ExecutionRecord.objects.settle(str(record.pk), COMPLETED, record.worker_id, "work", steps=3)
        assert not ExecutionRecord.objects.settle(str(record.pk), aborted(), record.worker_id, steps=9)
    end = fresh(record)
    assert (end.status, end.abort_reason, end.steps) == ("completed", "", 3)
    assert end.finished_at is not None
    assert told == [{"status": "completed", "work": "work", "stored": "completed"}]


def test_only_the_owner_may_write_the_end() -> None:
    record = make_execution()
    with heard() as told:
        assert not ExecutionRecord.objects.settle(str(record.pk), COMPLETED, make_worker().pk)
    assert fresh(record).status == "running"
    assert told == []


def test_an_end_whose_meaning_cannot_be_written_is_not_written() -> None:
    record = make_execution()

    def refuse(**_: Any) -> None:
        raise ConnectionError("half-way")

    execution_settled.connect(refuse, sender=ExecutionRecord)
    try:
        with pytest.raises(ConnectionError):
            ExecutionRecord.objects.settle(str(record.pk), COMPLETED, record.worker_id)
    finally:
        execution_settled.disconnect(refuse, sender=ExecutionRecord)
    assert fresh(record).status == "running"


def test_an_abort_is_stored_with_reason_clock_author_door_and_the_time_until_the_close() -> None:
    record = make_execution()
    outcome = Outcome(
        status=Status.ABORTED,
        abort=aborted("timeout", by="", source="clock", timeout_kind=TimeoutKind.IDLE, at=1_800_000_000.25).abort,
        upstream_closed_ms=1.23456,
    )
    assert ExecutionRecord.objects.settle(str(record.pk), outcome, record.worker_id)
    end = fresh(record)
    assert (end.status, end.abort_reason, end.intent, end.timeout_kind) == ("aborted", "timeout", "timeout", "idle")
    assert (end.requested_by, end.source, end.upstream_closed_ms) == ("", "clock", 1.235)
    assert end.requested_at.timestamp() == 1_800_000_000.25


def test_the_time_of_a_written_order_is_kept_by_the_end() -> None:
    record = make_execution()
    ExecutionRecord.objects.order(STOP)
    ordered_at = fresh(record).requested_at
    assert ordered_at is not None
    ExecutionRecord.objects.settle(str(record.pk), aborted(by="ann", at=1.0), record.worker_id)
    assert fresh(record).requested_at == ordered_at


def test_an_error_is_stored_with_its_text() -> None:
    record = make_execution()
    outcome = Outcome(status=Status.ERROR, error="The provider failed.")
    ExecutionRecord.objects.settle(str(record.pk), outcome, record.worker_id)
    assert (fresh(record).status, fresh(record).error) == ("error", "The provider failed.")


# Orders


def test_an_order_is_written_once_and_only_on_what_runs() -> None:
    running, ended = make_execution(), make_execution()
    ExecutionRecord.objects.settle(str(ended.pk), COMPLETED, ended.worker_id)
    assert ExecutionRecord.objects.order(STOP) == 1
    assert ExecutionRecord.objects.order(Intent(reason=AbortReason.PANIC_STOP, by="bob", source="panic")) == 0
    order = fresh(running)
    assert (order.intent, order.requested_by, order.source) == ("session_stop", "ann", "web")
    assert fresh(ended).intent == ""


def test_drills_are_live_but_nobody_means_them() -> None:
    drill = make_execution(kind="drill")
    turn = make_execution()
    assert set(ExecutionRecord.objects.live()) == {drill, turn}
    assert list(ExecutionRecord.objects.stoppable()) == [turn]
    assert list(ExecutionRecord.objects.turns()) == [turn]
    assert list(ExecutionRecord.objects.of_session(drill.session_key)) == [drill]


# Orphans


def test_what_a_lost_worker_ran_is_lost_and_what_a_living_one_runs_is_not() -> None:
    lost, alone, alive = make_execution(make_worker(lease_s=-1)), make_execution(), make_execution()
    Worker.objects.filter(pk=alone.worker_id).delete()
    with heard() as told:
        assert set(ExecutionRecord.objects.settle_orphans()) == {str(lost.pk), str(alone.pk)}
    for end in (fresh(lost), fresh(alone)):
        assert (end.status, end.abort_reason, end.source) == ("aborted", "worker_lost", "recovery")
    assert fresh(alive).status == "running"
    assert [each["work"] for each in told] == [None, None]


def test_a_stop_that_was_ordered_beats_the_loss() -> None:
    record = make_execution(make_worker(lease_s=-1))
    ExecutionRecord.objects.order(STOP)
    ExecutionRecord.objects.settle_orphans()
    end = fresh(record)
    assert (end.abort_reason, end.requested_by, end.source) == ("session_stop", "ann", "web")


def test_an_orphan_is_ended_once() -> None:
    record = make_execution(make_worker(lease_s=-1))
    assert ExecutionRecord.objects.settle_orphans() == [str(record.pk)]
    assert ExecutionRecord.objects.settle_orphans() == []


def test_nobody_takes_a_run_whose_owner_came_back_in_time() -> None:
    record = make_execution()
    assert not ExecutionRecord.objects.settle(str(record.pk), aborted("worker_lost"), None)
    assert fresh(record).status == "running"


def test_a_slow_owner_may_still_write_the_end_that_nobody_else_wrote() -> None:
    record = make_execution()
    expire(record.worker_id)
    assert ExecutionRecord.objects.settle(str(record.pk), COMPLETED, record.worker_id)
    assert ExecutionRecord.objects.settle_orphans() == []


# Leases


def test_a_lease_is_renewed_from_the_databases_now() -> None:
    worker = make_worker(lease_s=1)
    Worker.objects.filter(pk=worker.pk).update(heartbeat_at=Now() - timedelta(hours=1))
    assert Worker.objects.renew(worker.pk, 3600)
    assert not Worker.objects.filter(lease_until__lt=Now() + timedelta(seconds=3500)).exists()
    assert Worker.objects.filter(heartbeat_at__gt=Now() - timedelta(minutes=1)).exists()


def test_a_lease_that_has_run_out_is_not_renewed() -> None:
    worker = make_worker(lease_s=-1)
    assert not Worker.objects.renew(worker.pk, 60)


def test_a_worker_whose_row_is_gone_renews_nothing() -> None:
    assert not Worker.objects.renew(uuid.uuid4(), 60)


# Holds


@pytest.mark.parametrize(
    ("scope", "covers_ann", "covers_bob", "covers_other_model"),
    [
        ({}, True, True, True),
        ({"user": "ann"}, True, False, True),
        ({"model": "m"}, True, True, False),
        ({"user": "ann", "model": "m"}, True, False, False),
    ],
    ids=["everything", "a user", "a model", "a user's runs of a model"],
)
def test_a_hold_covers_its_scope_and_nothing_else(
    scope: dict[str, str], covers_ann: bool, covers_bob: bool, covers_other_model: bool
) -> None:
    ann, bob = User.objects.create_user("ann"), User.objects.create_user("bob")
    Hold.objects.create(scope_user=ann if "user" in scope else None, scope_model=scope.get("model", ""))
    assert Hold.objects.over(user_id=ann.pk, model="m").exists() is covers_ann
    assert Hold.objects.over(user_id=bob.pk, model="m").exists() is covers_bob
    assert Hold.objects.over(user_id=ann.pk, model="other").exists() is covers_other_model


def test_a_released_hold_covers_nothing() -> None:
    Hold.objects.create(released_at=timezone.now())
    assert not Hold.objects.over(user_id=None, model="m").exists()
    assert not Hold.objects.active().exists()


def test_a_run_of_nobody_is_covered_by_no_users_hold() -> None:
    Hold.objects.create(scope_user=User.objects.create_user("ann"))
    assert not Hold.objects.over(user_id=None, model="m").exists()


# Usage


def test_usage_is_summed_for_the_row_and_read_back() -> None:
    usages = [Usage(input_tokens=1, output_tokens=2), Usage(input_tokens=3, cost_usd=0.5, estimated=True)]
    record = make_execution(**usage_fields(usages))
    assert fresh(record).usage == Usage(input_tokens=4, output_tokens=2, cost_usd=0.5, estimated=True)
