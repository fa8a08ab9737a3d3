"""The operator's commands: one answer, clean JSON, honest exit codes. The database is real, the owners are rows."""

import io
import json
import os
import pwd
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import OperationalError

from kernel import control
from kernel.audit import AuditEntry
from kernel.management.commands.panic_all import Command as PanicAll
from kernel.models import ExecutionRecord, Hold
from tests.kernel.rows import COMPLETED, make_execution, make_worker

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
ME = pwd.getpwuid(os.getuid()).pw_name


def run(*arguments: str) -> tuple[int, Any]:
    """Run a command with --json; return its exit code and what it printed."""
    out = io.StringIO()
    code = 0
    try:
        call_command(*arguments, "--json", stdout=out)
    except CommandError as error:
        code = error.returncode
    return code, json.loads(out.getvalue())


def lost_execution(**fields: Any) -> ExecutionRecord:
    return make_execution(make_worker(lease_s=-1), **fields)


# panic_all


def test_panic_with_nothing_live_is_done() -> None:
    assert run("panic_all") == (
        0,
        {
            "ok": True,
            "abortedCount": 0,
            "activeCount": 0,
            "unconfirmedCount": 0,
            "alreadyFinishedCount": 0,
            "heldCount": 0,
            "hold": None,
        },
    )


def test_panic_settles_what_a_dead_worker_left_at_once() -> None:
    record = lost_execution()
    code, told = run("panic_all")
    record.refresh_from_db()
    assert (code, told["abortedCount"], told["activeCount"]) == (0, 1, 0)
    end = (record.status, record.abort_reason, record.requested_by, record.source)
    assert end == ("aborted", "panic_stop", ME, "command")


def test_panic_that_an_owner_does_not_confirm_exits_with_3_and_its_intent_stays() -> None:
    record = make_execution()
    code, told = run("panic_all", "--wait", "0.05")
    record.refresh_from_db()
    assert (code, told["abortedCount"], told["unconfirmedCount"], told["activeCount"]) == (3, 0, 1, 1)
    assert (record.status, record.intent, record.requested_by) == ("running", "panic_stop", ME)


def test_panic_leaves_drills_alone() -> None:
    lost_execution(kind="drill")
    assert run("panic_all")[1]["abortedCount"] == 0


def test_panic_of_one_user_leaves_the_others_running() -> None:
    ann, bob = (User.objects.create_user(name) for name in ("ann", "bob"))
    hers, his = lost_execution(user=ann), make_execution(user=bob)
    assert run("panic_all", "--user", "ann")[1]["abortedCount"] == 1
    hers.refresh_from_db()
    his.refresh_from_db()
    assert (hers.status, his.intent) == ("aborted", "")


def test_panic_of_one_model_leaves_the_others_running() -> None:
    for model in ("m/one", "m/two"):
        lost_execution(model=model)
    assert run("panic_all", "--model", "m/one")[1]["abortedCount"] == 1


def test_panic_of_an_unknown_user_is_an_error_and_stops_nobody() -> None:
    record = lost_execution()
    code, told = run("panic_all", "--user", "nobody")
    record.refresh_from_db()
    assert (code, told["ok"], record.intent) == (1, False, "")


def test_panic_with_hold_stores_the_hold_and_tells_it() -> None:
    ann = User.objects.create_user("ann")
    code, told = run("panic_all", "--hold", "--reason", "the bill", "--user", "ann", "--model", "m/one")
    hold = Hold.objects.get()
    assert code == 0
    assert told["hold"]["id"] == str(hold.pk)
    assert (told["hold"]["reason"], told["hold"]["by"]) == ("the bill", ME)
    assert told["hold"]["scope"] == {"user": "ann", "model": "m/one"}
    over = Hold.objects.over
    assert over(user_id=ann.pk, model="m/one").exists()
    assert not over(user_id=ann.pk, model="m/two").exists()
    assert not over(user_id=None, model="m/one").exists()


def test_panic_with_hold_tells_people_by_which_id_it_is_released() -> None:
    out = io.StringIO()
    call_command("panic_all", "--hold", stdout=out)
    assert f"panic_release {Hold.objects.get().pk}" in out.getvalue()


def test_a_dry_run_tells_what_would_be_hit_and_changes_nothing() -> None:
    record = lost_execution()
    code, told = run("panic_all", "--hold", "--dry-run")
    record.refresh_from_db()
    assert (code, told["dryRun"], told["wouldAbortCount"], told["abortedCount"]) == (0, True, 1, 0)
    assert (record.status, record.intent) == ("running", "")
    assert not Hold.objects.exists()
    assert not AuditEntry.objects.exists()


def test_panic_writes_who_ordered_it_and_why() -> None:
    lost_execution()
    run("panic_all", "--reason", "fire")
    entry = AuditEntry.objects.get()
    told = (entry.verb, entry.by, entry.source, entry.target, entry.reason, entry.executions)
    assert told == ("panic", ME, "command", "everything", "fire", 1)


def test_panic_without_a_database_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise OperationalError("the database is gone")

    monkeypatch.setattr(control, "_write_order", fail)
    code, told = run("panic_all")
    assert (code, told["ok"]) == (1, False)
    assert "database" in told["error"]
    assert caplog.records


def test_ctrl_c_ends_the_wait_and_not_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_execution()
    confirm = control.confirm

    async def interrupted_once(*arguments: Any, **options: Any) -> control.Counts:
        monkeypatch.setattr(control, "confirm", confirm)
        raise KeyboardInterrupt

    monkeypatch.setattr(control, "confirm", interrupted_once)
    code, told = run("panic_all", "--wait", "60")
    record.refresh_from_db()
    assert (code, told["unconfirmedCount"], record.intent) == (3, 1, "panic_stop")


def test_panic_runs_no_system_checks_and_never_loads_litellm() -> None:
    assert PanicAll.requires_system_checks == []
    script = """
import sys
from django.core.management import execute_from_command_line
try:
    execute_from_command_line(["manage.py", "panic_all", "--json"])
except SystemExit:
    pass
assert "kernel.control" in sys.modules
assert not {"litellm", "studio.urls", "studio.consumers"} & set(sys.modules)
"""
    broken = {
        "DJANGO_SETTINGS_MODULE": "studio.settings",
        "DATABASE_URL": "sqlite://:memory:",
        "STUDIO_MODEL": "no/such-model",
        "STUDIO_TOOLS": "no.such.module",
        "REDIS_URL": "redis://127.0.0.1:1/0",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **broken},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is False  # that database has no tables


# The others


def test_stop_session_stops_everything_of_the_session_and_nothing_else() -> None:
    hers, other = lost_execution(session_key="s"), make_execution(session_key="t")
    lost_execution(session_key="s", kind="title")
    code, told = run("stop_session", "s")
    hers.refresh_from_db()
    other.refresh_from_db()
    assert (code, told["sessionKey"], told["abortedCount"]) == (0, "s", 2)
    assert (hers.abort_reason, other.intent) == ("session_stop", "")


def test_stop_session_with_nothing_live_is_done() -> None:
    record = lost_execution(session_key="s")
    ExecutionRecord.objects.settle(str(record.pk), COMPLETED, None)
    code, told = run("stop_session", "s")
    assert (code, told["abortedCount"], told["alreadyFinishedCount"]) == (0, 0, 0)


def test_stop_session_of_a_key_that_nobody_used_is_an_error() -> None:
    assert run("stop_session", "nowhere")[0] == 1


def test_release_without_a_name_releases_every_active_hold() -> None:
    holds = [Hold.objects.create(reason=reason) for reason in ("one", "two")]
    assert run("panic_release") == (0, {"ok": True, "released": True, "releasedCount": 2, "activeHoldCount": 0})
    holds[0].refresh_from_db()
    assert (holds[0].released_by, holds[0].released_at is not None) == (ME, True)
    assert AuditEntry.objects.filter(verb="release", by=ME, source="command").count() == 2


def test_release_of_one_hold_leaves_the_other() -> None:
    one, two = (Hold.objects.create(reason=reason) for reason in ("one", "two"))
    assert run("panic_release", str(one.pk))[1]["activeHoldCount"] == 1
    assert Hold.objects.active().get() == two


def test_release_again_is_done_and_releases_nothing() -> None:
    hold = Hold.objects.create()
    run("panic_release", str(hold.pk))
    code, told = run("panic_release", str(hold.pk))
    assert (code, told["released"]) == (0, False)


def test_release_of_an_unknown_hold_is_an_error() -> None:
    assert run("panic_release", str(uuid.uuid4()))[0] == 1


def test_executions_tells_the_ledger_newest_first() -> None:
    ann = User.objects.create_user("ann")
    old = lost_execution(user=ann, model="m/one", session_key="s")
    run("panic_all")
    new = make_execution()
    code, told = run("executions")
    assert (code, [row["id"] for row in told]) == (0, [str(new.pk), str(old.pk)])
    assert list(told[1]) == [
        *("id", "kind", "sessionKey", "user", "worker", "model", "status", "abortReason", "requestedBy", "source"),
        *("startedAt", "finishedAt", "upstreamClosedMs", "steps", "usage"),
    ]
    expected = ("turn", "s", "ann", "elsewhere:1", "m/one", "aborted", "panic_stop", ME, "command")
    assert tuple(told[1].values())[1:10] == expected
    assert told[1]["usage"] == {"inputTokens": 0, "outputTokens": 0, "costUsd": None, "estimated": False}


def test_live_executions_are_those_that_have_not_ended() -> None:
    lost_execution()
    run("panic_all")
    live = make_execution()
    assert [row["id"] for row in run("executions", "--live")[1]] == [str(live.pk)]


def test_reap_settles_what_is_lost_and_leaves_the_living() -> None:
    lost, living = lost_execution(), make_execution()
    code, told = run("reap")
    lost.refresh_from_db()
    assert (code, told["settled"], told["activeCount"]) == (0, [str(lost.pk)], 1)
    assert (lost.status, lost.abort_reason) == ("aborted", "worker_lost")
    living.refresh_from_db()
    assert living.status == "running"


def test_without_json_people_read_a_sentence() -> None:
    lost_execution()
    out = io.StringIO()
    call_command("panic_all", stdout=out)
    assert out.getvalue().startswith("Stopped 1,")


@pytest.mark.parametrize(
    "arguments",
    [
        ("panic_all", "--wait", "soon"),
        ("panic_all", "--wait", "-1"),
        ("panic_all", "--no-such-option"),
        ("panic_release", "no-uuid"),
        ("stop_session",),
        ("stop_session", "a key"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage:" in done.stderr
