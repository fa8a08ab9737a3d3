"""The status column comes and goes over messages that are already there."""

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

BEFORE, AFTER = [("chat", "0001_initial")], [("chat", "0002_chatmessage_status")]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def migrate() -> Any:
    """Migrate to a state and return its apps; in the end, to the newest."""

    def to(state: list[tuple[str, str]]) -> Any:
        executor = MigrationExecutor(connection)
        executor.migrate(state)
        return executor.loader.project_state(state).apps

    yield to
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def fill(apps: Any, **fields: Any) -> None:
    user = apps.get_model("auth", "User").objects.create(username="ann")
    session = apps.get_model("chat", "ChatSession").objects.create(key="s", user=user)
    messages = apps.get_model("chat", "ChatMessage").objects
    messages.create(session=session, role="user", text="hello", client_message_id="c")
    messages.create(session=session, role="assistant", text="wörld", parts=[{"kind": "text"}], **fields)


def rows(apps: Any) -> list[tuple[Any, ...]]:
    return list(
        apps.get_model("chat", "ChatMessage").objects.order_by("id").values_list("role", "text", "parts", "created_at")
    )


def statuses(apps: Any) -> list[str]:
    return list(apps.get_model("chat", "ChatMessage").objects.order_by("id").values_list("status", flat=True))


def test_messages_from_before_the_status_are_completed(migrate: Any) -> None:
    before = migrate(BEFORE)
    fill(before)
    stored = rows(before)
    after = migrate(AFTER)
    assert statuses(after) == ["completed", "completed"]
    assert rows(after) == stored


def test_without_the_status_the_messages_stay_and_it_can_come_back(migrate: Any) -> None:
    after = migrate(AFTER)
    fill(after, status="aborted")
    stored = rows(after)
    before = migrate(BEFORE)
    assert rows(before) == stored
    assert not hasattr(before.get_model("chat", "ChatMessage"), "status")
    again = migrate(AFTER)
    assert rows(again) == stored
    assert statuses(again) == ["completed", "completed"]


def test_a_message_is_still_sent_once_after_the_migration(migrate: Any) -> None:
    from django.db import IntegrityError, transaction

    before = migrate(BEFORE)
    fill(before)
    after = migrate(AFTER)
    message = after.get_model("chat", "ChatMessage")
    session = after.get_model("chat", "ChatSession").objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        message.objects.create(session=session, role="user", text="again", client_message_id="c")


def test_the_models_need_no_further_migration() -> None:
    from django.core.management import call_command

    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
