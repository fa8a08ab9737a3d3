"""The ledger in the admin: who may see it and order, what an order tells, and that nothing can be edited."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from kernel import control, lanes
from kernel.audit import AuditEntry
from kernel.models import AbortedRun, ExecutionRecord, Hold, Worker
from tests.kernel.rows import COMPLETED, make_execution, make_worker

pytestmark = pytest.mark.django_db(transaction=True)

EXECUTIONS = reverse("admin:kernel_executionrecord_changelist")
PANIC = reverse("admin:kernel_panic")
HOLDS = reverse("admin:kernel_hold_changelist")
ABORTED = reverse("admin:kernel_abortedrun_changelist")
MODELS = (ExecutionRecord, AbortedRun, Worker, Hold, AuditEntry)
LEDGER = [reverse(f"admin:kernel_{model._meta.model_name}_changelist") for model in MODELS]


def browser(*permissions: str, superuser: bool = False, name: str = "op") -> Client:
    """A browser in which a staff member with these permissions has logged in."""
    user = User.objects.create_user(name, is_staff=True, is_superuser=superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client(headers={"X-Forwarded-Proto": "https"})
    client.force_login(user)
    return client


@pytest.fixture
def op() -> Client:
    return browser(superuser=True)


@pytest.fixture(autouse=True)
def short_wait(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The owners of these tests are rows: no answer of theirs is missed. Nothing is left in the lane afterwards."""
    monkeypatch.setattr(control, "CONFIRM_S", 0.05)
    yield
    lanes.control.close()


def lost_execution(**fields: Any) -> ExecutionRecord:
    return make_execution(make_worker(lease_s=-1), **fields)


def stop_selected(client: Client, *records: ExecutionRecord) -> Any:
    chosen = {"action": "stop_selected", "_selected_action": [str(record.pk) for record in records]}
    return client.post(EXECUTIONS, chosen, follow=True)


def told(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


def status(record: ExecutionRecord) -> tuple[str, str, str, str]:
    record.refresh_from_db()
    return record.status, record.abort_reason, record.requested_by, record.source


# Who may


@pytest.mark.parametrize("page", [*LEDGER, PANIC])
def test_staff_without_rights_sees_nothing(page: str) -> None:
    assert browser().get(page).status_code == 403


def test_staff_without_rights_cannot_tell_an_execution_from_none() -> None:
    client = browser()
    pages = [reverse("admin:kernel_executionrecord_change", args=[pk]) for pk in (make_execution().pk, uuid.uuid4())]
    assert [client.get(page).status_code for page in pages] == [403, 403]
    assert "Kernel" not in client.get(reverse("admin:index")).text


def test_staff_without_rights_stops_nothing() -> None:
    record = make_execution()
    client = browser()
    assert stop_selected(client, record).status_code == 403
    assert client.post(PANIC, {"confirmed": "on"}).status_code == 403
    record.refresh_from_db()
    assert record.intent == ""


def test_whoever_may_only_view_can_neither_stop_nor_panic() -> None:
    record = make_execution()
    client = browser("view_executionrecord")
    page = client.get(EXECUTIONS)
    assert page.status_code == 200
    assert "stop_selected" not in page.text
    assert PANIC not in page.text
    stop_selected(client, record)
    assert client.post(PANIC, {"confirmed": "on"}).status_code == 403
    record.refresh_from_db()
    assert record.intent == ""


def test_whoever_may_stop_may_not_panic() -> None:
    client = browser("stop_any_execution")
    assert "stop_selected" in client.get(EXECUTIONS).text
    assert client.get(PANIC).status_code == 403
    assert client.get(HOLDS).status_code == 403


def test_whoever_may_panic_finds_it_from_the_first_page_on() -> None:
    client = browser("panic")
    for page in (reverse("admin:index"), EXECUTIONS):
        assert PANIC in client.get(page).text
    assert client.get(PANIC).status_code == 200


def test_whoever_may_not_release_cannot() -> None:
    hold = Hold.objects.create()
    chosen = {"action": "release_selected", "_selected_action": [str(hold.pk)]}
    browser("view_hold").post(HOLDS, chosen)
    hold.refresh_from_db()
    assert hold.released_at is None


def test_a_stranger_is_sent_to_the_login() -> None:
    response = Client(headers={"X-Forwarded-Proto": "https"}).post(PANIC, {"confirmed": "on"})
    assert (response.status_code, "login" in response["Location"]) == (302, True)


@pytest.mark.parametrize("model", MODELS)
def test_nothing_is_added_changed_or_deleted_even_by_a_superuser(model: Any, op: Client) -> None:
    name = f"admin:kernel_{model._meta.model_name}"
    rows = {
        ExecutionRecord: make_execution,
        AbortedRun: aborted_run,
        Worker: make_worker,
        Hold: Hold.objects.create,
        AuditEntry: lambda: AuditEntry.objects.create(verb="stop", target="x"),
    }
    row = rows[model]()
    assert op.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200
    assert op.post(reverse(f"{name}_change", args=[row.pk]), {}).status_code == 403
    assert op.post(reverse(f"{name}_add"), {}).status_code == 403
    assert op.post(reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    assert "delete_selected" not in op.get(reverse(f"{name}_changelist")).text


# Stop selected


def test_stop_selected_tells_confirmed_unconfirmed_and_finished_apart(op: Client) -> None:
    finished = lost_execution()
    ExecutionRecord.objects.settle(str(finished.pk), COMPLETED, None)
    lost, living, other = lost_execution(), make_execution(), make_execution()
    page = stop_selected(op, finished, lost, living)
    assert "Stopped: 1. Not confirmed: 1. Already finished: 1." in told(page)
    assert status(lost) == ("aborted", "session_stop", "op", "admin")
    living.refresh_from_db()
    other.refresh_from_db()
    assert (living.intent, living.status, other.intent) == ("session_stop", "running", "")
    assert status(finished) == ("completed", "", "", "")


def test_stop_selected_spares_the_other_runs_of_the_session(op: Client) -> None:
    turn, title = make_execution(session_key="s"), make_execution(session_key="s", kind="title")
    stop_selected(op, title)
    turn.refresh_from_db()
    title.refresh_from_db()
    assert (turn.intent, title.intent) == ("", "session_stop")


def test_each_stop_is_written_to_the_audit(op: Client) -> None:
    records = [make_execution(), make_execution()]
    stop_selected(op, *records)
    entries = AuditEntry.objects.filter(verb="stop", by="op", source="admin")
    assert {entry.target.partition(",")[0] for entry in entries} == {f"execution {record.pk}" for record in records}


# Panic


def test_the_panic_page_tells_what_it_would_hit_and_hits_nothing(op: Client) -> None:
    ann = User.objects.create_user("ann")
    record = make_execution(user=ann, model="m/one")
    make_execution(model="m/two")
    make_execution(kind="drill")
    assert op.get(PANIC).context["live"] == 2
    assert op.get(PANIC, {"user": "ann"}).context["live"] == 1
    assert op.get(PANIC, {"model": "m/two"}).context["live"] == 1
    record.refresh_from_db()
    assert (record.intent, AuditEntry.objects.count()) == ("", 0)


def test_panic_without_its_confirmation_stops_nothing(op: Client) -> None:
    record = make_execution()
    page = op.post(PANIC, {"reason": "fire", "hold": "on"})
    record.refresh_from_db()
    assert (page.status_code, record.intent, Hold.objects.count()) == (200, "", 0)
    assert "Confirm that you mean it." in page.text


def test_panic_stops_everything_and_tells_the_counts(op: Client) -> None:
    lost, living = lost_execution(), make_execution()
    page = op.post(PANIC, {"confirmed": "on", "reason": "fire"}, follow=True)
    assert "Stopped: 1. Not confirmed: 1." in told(page)
    assert status(lost) == ("aborted", "panic_stop", "op", "admin")
    living.refresh_from_db()
    assert living.intent == "panic_stop"
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.by, entry.reason, entry.executions) == ("panic", "op", "fire", 2)
    assert not Hold.objects.exists()


def test_panic_of_one_user_with_hold_holds_only_them(op: Client) -> None:
    ann = User.objects.create_user("ann")
    hers, other = make_execution(user=ann), make_execution()
    page = op.post(PANIC, {"confirmed": "on", "hold": "on", "user": "ann", "reason": "bill"}, follow=True)
    hers.refresh_from_db()
    other.refresh_from_db()
    hold = Hold.objects.get()
    assert (hers.intent, other.intent) == ("panic_stop", "")
    assert (hold.scope_user, hold.by, hold.reason) == (ann, "op", "bill")
    assert "New runs are on hold" in told(page)


def test_panic_of_an_unknown_user_stops_nobody(op: Client) -> None:
    record = make_execution()
    page = op.post(PANIC, {"confirmed": "on", "user": "nobody"})
    record.refresh_from_db()
    assert (page.status_code, record.intent) == (200, "")
    assert "There is no user with this name." in page.text


def test_panic_needs_the_page_it_was_shown_on(op: Client) -> None:
    strict = Client(enforce_csrf_checks=True, headers={"X-Forwarded-Proto": "https"})
    strict.cookies = op.cookies
    assert strict.post(PANIC, {"confirmed": "on"}).status_code == 403


# Holds, workers, aborted runs


def test_release_selected_releases_what_is_active(op: Client) -> None:
    hold, other = Hold.objects.create(reason="one"), Hold.objects.create(reason="two")
    chosen = {"action": "release_selected", "_selected_action": [str(hold.pk)]}
    page = op.post(HOLDS, chosen, follow=True)
    hold.refresh_from_db()
    assert ("Released: 1." in told(page), hold.released_by) == (True, "op")
    assert Hold.objects.active().get() == other
    assert AuditEntry.objects.get().verb == "release"


def test_holds_are_found_by_whether_they_are_active(op: Client) -> None:
    active, released = Hold.objects.create(), Hold.objects.create(released_at=timezone.now())
    assert list(op.get(HOLDS, {"active": "1"}).context["cl"].queryset) == [active]
    assert list(op.get(HOLDS, {"active": "0"}).context["cl"].queryset) == [released]


def test_workers_tell_whether_they_live(op: Client) -> None:
    make_execution(make_worker())
    make_worker(lease_s=-5)
    make_worker(lease_s=-5, draining=True)
    make_worker(draining=True)
    page = op.get(reverse("admin:kernel_worker_changelist")).text
    for state in ("alive", "lost", "gone", "draining"):
        assert f'<td class="field-state">{state}</td>' in page


def test_an_execution_is_found_by_its_id_its_session_and_its_user(op: Client) -> None:
    record = make_execution(session_key="abc-1", user=User.objects.create_user("ann"))
    make_execution()
    for term in (str(record.pk), record.pk.hex, "abc-1", "ann"):
        assert list(op.get(EXECUTIONS, {"q": term}).context["cl"].queryset) == [record]


def aborted_run(**fields: Any) -> ExecutionRecord:
    now = timezone.now()
    ended = {
        "status": "aborted",
        "abort_reason": "session_stop",
        "requested_by": "ann",
        "source": "web",
        "requested_at": now,
        "finished_at": now,
    }
    return make_execution(**{**ended, **fields})


def test_aborted_runs_are_a_view_of_their_own(op: Client) -> None:
    run = aborted_run()
    make_execution()
    assert [row.pk for row in op.get(ABORTED).context["cl"].queryset] == [run.pk]


def test_an_aborted_run_tells_why_who_and_how_long_it_took_and_marks_what_is_estimated(op: Client) -> None:
    aborted_run(
        upstream_closed_ms=2.5, settled_ms=11.0, input_tokens=10, output_tokens=20, cost_usd=0.00123, estimated=True
    )
    page = op.get(ABORTED).text
    for cell in ("session_stop", "ann, web", "2.5 ms → 11.0 ms", "~ 10 → 20", "~ $0.00123"):
        assert cell in page


def test_the_drawing_counts_the_last_day_and_needs_no_inline_style(op: Client) -> None:
    for hours in (1, 23, 25):
        at = timezone.now() - timedelta(hours=hours)
        aborted_run(requested_at=at, started_at=at, upstream_closed_ms=3.0, settled_ms=9.0)
    page = op.get(ABORTED)
    assert page.context["plot"].total == 2
    assert " style=" not in page.text
    assert "<style" not in page.text
    for landmark in ('role="img"', '<title id="plot-title">', '<desc id="plot-description">', "The same as a table"):
        assert landmark in page.text


def test_the_drawing_is_the_same_in_a_language_with_decimal_commas(op: Client) -> None:
    aborted_run(upstream_closed_ms=3.5, settled_ms=9.5)
    page = op.get(ABORTED, headers={"Accept-Language": "pt-br"}).text
    assert "Paradas das últimas 24 horas" in page
    [svg] = [part for part in page.split("<svg ") if 'role="img"' in part]
    assert 'cy="' in svg
    assert not [value for value in svg.split('"')[1::2] if value.replace(",", "").isdigit() and "," in value]
