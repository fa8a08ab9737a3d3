"""Conversations in the admin: roles are edited, what was said is read by those with the right, and aborts tell."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.models import ChatMessage, ChatSession, QueuedMessage
from kernel import lanes, orders
from kernel.control import Target
from kernel.models import Hold
from tests.kernel.rows import make_execution

pytestmark = pytest.mark.django_db(transaction=True)

READ_ONLY = [ChatSession, ChatMessage, QueuedMessage]


def page(model: Any, name: str = "changelist", *args: Any) -> str:
    return reverse(f"admin:chat_{model._meta.model_name}_{name}", args=args)


def browser(*permissions: str, superuser: bool = False) -> Client:
    user = User.objects.create_user("op", is_staff=True, is_superuser=superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client(headers={"X-Forwarded-Proto": "https"})
    client.force_login(user)
    return client


@pytest.fixture(autouse=True)
def lane(transactional_db: None) -> Iterator[None]:
    """Nothing is left in the lane afterwards."""
    yield
    lanes.control.close()


@pytest.fixture
def session() -> ChatSession:
    session = ChatSession.objects.create(key="s", user=User.objects.create_user("ann"), title="A talk")
    ChatMessage.objects.create(session=session, role="user", text="a secret question")
    QueuedMessage.objects.create(session=session, position=1, text="later")
    QueuedMessage.objects.create(session=session, position=2, text="later still", model="m/two")
    return session


@pytest.mark.parametrize("model", READ_ONLY)
@pytest.mark.parametrize("permissions", [(), ("stop_any_execution", "panic")], ids=["none", "operator"])
def test_what_people_said_needs_a_right_of_its_own(model: Any, permissions: Any, session: ChatSession) -> None:
    client = browser(*permissions)
    assert client.get(page(model)).status_code == 403
    row = model.objects.first()
    assert client.get(page(model, "change", row.pk)).status_code == 403
    assert client.get(page(model, "change", 10**9)).status_code == 403


@pytest.mark.parametrize("model", READ_ONLY)
def test_what_was_said_is_only_read_even_by_a_superuser(model: Any, session: ChatSession) -> None:
    client = browser(superuser=True)
    row = model.objects.first()
    assert client.get(page(model)).status_code == 200
    assert client.get(page(model, "change", row.pk)).status_code == 200
    assert client.post(page(model, "change", row.pk), {}).status_code == 403
    assert client.post(page(model, "add"), {}).status_code == 403
    assert client.post(page(model, "delete", row.pk), {"post": "yes"}).status_code == 403


def test_a_session_leads_to_its_messages(session: ChatSession) -> None:
    client = browser(superuser=True)
    other = ChatSession.objects.create(key="t", user=session.user)
    ChatMessage.objects.create(session=other, role="user", text="elsewhere")
    link = f"{page(ChatMessage)}?session__id__exact={session.pk}"
    assert link in client.get(page(ChatSession)).text
    assert [row.text for row in client.get(link).context["cl"].queryset] == ["a secret question"]


def test_an_aborted_run_tells_how_much_of_its_answer_was_kept(session: ChatSession) -> None:
    now = timezone.now()
    record = make_execution(
        session_key="s", status="aborted", abort_reason="session_stop", requested_at=now, finished_at=now
    )
    ChatMessage.objects.create(session=session, role="user", text="a question", execution=record)
    ChatMessage.objects.create(session=session, role="assistant", status="aborted", text="x" * 1234, execution=record)
    client = browser(superuser=True)
    assert "1234" in client.get(reverse("admin:kernel_abortedrun_changelist")).text
    assert "1234" in client.get(reverse("admin:kernel_abortedrun_change", args=[record.pk])).text


def test_what_waits_is_counted_by_its_scope(session: ChatSession) -> None:
    assert orders.waiting(Target()) == 2
    assert orders.waiting(Target(user_id=session.user_id)) == 2
    assert orders.waiting(Target(user_id=session.user_id + 1)) == 0
    assert orders.waiting(Target(model="m/two")) == 1


def test_a_panic_with_hold_tells_how_many_queued_messages_it_holds(session: ChatSession) -> None:
    form = {"confirmed": "on", "hold": "on", "model": "m/two"}
    answer = browser("panic").post(reverse("admin:kernel_panic"), form, follow=True)
    assert "queued messages held: 1." in " ".join(map(str, answer.context["messages"]))
    assert Hold.objects.get().scope_model == "m/two"
