"""What operators watch, as the ledger tells of it: live rows, ends, sums by person and model, holds."""

from datetime import timedelta

import pytest
from django.utils import timezone

from kernel.models import ExecutionRecord, Hold
from kernel.runner import Outcome, Status
from studio import live_list
from tests.chat.rows import enqueue, make_user, start
from tests.kernel.rows import aborted, make_execution, make_worker

pytestmark = pytest.mark.django_db


def end(record: ExecutionRecord, outcome: Outcome) -> None:
    assert ExecutionRecord.objects.settle(str(record.pk), outcome, record.worker_id)


def test_a_run_that_was_shown_is_shown_with_its_end() -> None:
    stopped = make_execution(make_worker())
    failed = make_execution(make_worker())
    shown = frozenset({str(stopped.pk), str(failed.pk)})
    assert {row["id"] for row in live_list.read(shown)["executions"]} == shown
    end(stopped, aborted("timeout", why="too long", timeout_kind="idle"))
    end(failed, Outcome(status=Status.ERROR, error="the provider said no"))
    fields = live_list.read(shown)
    ends = {row["id"]: row for row in fields["ended"]}
    assert fields["executions"] == []
    told = ends[str(stopped.pk)]
    assert (told["abortReason"], told["timeoutKind"], told["reason"]) == ("timeout", "idle", "too long")
    assert ends[str(failed.pk)]["error"] == "the provider said no"


def test_an_end_that_nobody_saw_begin_is_not_shown() -> None:
    record = make_execution(make_worker())
    end(record, aborted())
    assert live_list.read()["ended"] == []


def test_an_end_is_shown_for_a_while_and_no_longer() -> None:
    record = make_execution(make_worker())
    end(record, aborted())
    shown = frozenset({str(record.pk)})
    assert len(live_list.read(shown)["ended"]) == 1
    long_ago = timezone.now() - live_list.ENDED_SHOWN - timedelta(seconds=1)
    ExecutionRecord.objects.filter(pk=record.pk).update(finished_at=long_ago)
    assert live_list.read(shown)["ended"] == []


def test_the_sums_are_whole_though_the_list_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_list, "SHOWN_MAX", 1)
    ann, worker = make_user("ann"), make_worker()
    for tokens in (3, 4):
        make_execution(worker, user=ann, model="m", output_tokens=tokens, input_tokens=10, cost_usd=0.5)
    make_execution(worker, user=None, model="m")
    fields = live_list.read()
    assert len(fields["executions"]) == 1
    sums = {"waiting": 0, "model": "m"}
    assert fields["groups"] == [
        {**sums, "user": None, "live": 1, "inputTokens": 0, "outputTokens": 0, "costUsd": None},
        {**sums, "user": "ann", "live": 2, "inputTokens": 20, "outputTokens": 7, "costUsd": 1.0},
    ]


def test_what_waits_is_counted_for_the_model_that_would_answer_it() -> None:
    start("first", key="s", model="m")
    enqueue("with the session's", key="s")
    enqueue("with its own", key="s", model="other")
    waiting = {(row["user"], row["model"]): (row["live"], row["waiting"]) for row in live_list.read()["groups"]}
    assert waiting == {("ann", "m"): (1, 1), ("ann", "other"): (0, 1)}


def test_every_active_hold_is_told_whomever_it_affects() -> None:
    Hold.objects.create(scope_user=make_user("bob"), reason="too loud", by="op")
    Hold.objects.create(by="op", released_at=timezone.now())
    [hold] = live_list.read()["holds"]
    assert (hold["scope"], hold["reason"], hold["by"]) == ({"user": "bob"}, "too loud", "op")


def test_drills_are_not_shown() -> None:
    make_execution(make_worker(), kind="drill")
    fields = live_list.read()
    assert (fields["executions"], fields["groups"]) == ([], [])
