"""What a turn reads before its first request costs the same in a long session as in a short one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat.admission import Started
from chat.briefing import HISTORY_MESSAGES, READ_MESSAGES, brief
from chat.models import ChatMessage, ChatSession
from tests.chat.rows import settle, start

pytestmark = pytest.mark.django_db


def write(session: ChatSession, turns: int) -> None:
    roles = ["user", "assistant"] * turns
    rows = [ChatMessage(session=session, role=role, text=f"text {n}") for n, role in enumerate(roles)]
    ChatMessage.objects.bulk_create(rows)


@contextmanager
def queries_of_messages() -> Iterator[list[str]]:
    found: list[str] = []
    with CaptureQueriesContext(connection) as captured:
        yield found
    found += [query["sql"] for query in captured if "chat_chatmessage" in query["sql"]]


def started_after(turns: int) -> Started:
    settle(start())
    write(ChatSession.objects.get(), turns)
    return start("and now?")


@pytest.mark.parametrize("turns", [0, 2, 400])
def test_the_history_is_one_bounded_query_however_long_the_session_is(turns: int) -> None:
    started = started_after(turns)
    with queries_of_messages() as queries:
        briefing = brief(started)
    assert len(queries) == 1
    assert queries[0].endswith(f"LIMIT {READ_MESSAGES}")
    assert briefing.history[-1] == {"role": "user", "content": "and now?"}
    assert len(briefing.history) <= HISTORY_MESSAGES + 1  # one that says that there are earlier ones


def test_it_is_read_along_the_index_and_nothing_is_sorted() -> None:
    started = started_after(400)
    with queries_of_messages() as queries:
        brief(started)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {queries[0]}")
        plan = " ".join(row[-1] for row in cursor.fetchall())
    assert "messages_of_session" in plan
    assert "TEMP B-TREE" not in plan
    assert "SCAN chat_chatmessage" not in plan


def test_what_a_queued_message_became_is_found_without_a_look_at_all_messages() -> None:
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN SELECT id FROM chat_chatmessage WHERE queued_as = 7 ORDER BY id LIMIT 1")
        plan = " ".join(row[-1] for row in cursor.fetchall())
    assert "a_queued_message_is_sent_once" in plan


def test_the_last_fifty_messages_are_shown_whatever_became_of_them() -> None:
    started = started_after(60)
    ChatMessage.objects.filter(role="assistant", status="completed").update(status="aborted")
    contents = [message["content"] for message in brief(started).history]
    assert contents[-1] == "and now?"
    assert "text 119" in contents
    assert "text 71" in contents
    assert "text 70" not in contents
