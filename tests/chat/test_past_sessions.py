"""The tool that searches earlier sessions: the person's own, in any spelling, the best first, at a bounded cost."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from chat import past_sessions
from chat import search as text_search
from chat.models import ChatMessage, ChatSession
from chat.past_sessions import search_past_sessions
from kernel import lanes
from kernel.abort import AbortController
from kernel.errors import ToldError
from kernel.events import ToolState
from kernel.tools import RunContext, Toolbox
from kernel.tools.call import run_call
from tests.chat.rows import make_user
from tests.kernel.live import db

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def lane(transactional_db: None) -> Iterator[None]:
    yield
    lanes.searches.close()
    lanes.control.close()


def make_session(key: str, *texts: str, title: str = "", user: str = "ann", age: int = 0) -> ChatSession:
    session = ChatSession.objects.create(key=key, user=make_user(user), title=title)
    for text in texts:
        ChatMessage.objects.create(session=session, role="user", text=text)
    ChatSession.objects.filter(pk=session.pk).update(updated_at=Now() - timedelta(days=age))
    return session


async def search(query: str, *, user: str = "ann", here: str = "here", limit: int = 5) -> list[dict[str, str]]:
    """What the tool finds when a run of `user` calls it in the session `here`."""
    owner = await db(lambda: make_user(user))
    run = RunContext(execution_id="e", session_key=here, user_id=owner.pk)
    found: Any = await search_past_sessions(query, run, limit)
    return found["conversations"] if isinstance(found, dict) else []


async def keys(query: str, **more: Any) -> list[str]:
    return [each["session"] for each in await search(query, **more)]


async def test_a_search_that_takes_too_long_is_told_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        await db(lambda number=number: make_session(f"s{number}", "lighthouse"))
    monkeypatch.setattr(text_search, "LONGEST_S", -1.0)
    with pytest.raises(ToldError, match="fewer words"):
        await search("lighthouse")


async def test_it_tells_where_something_was_said_and_when() -> None:
    session = await db(lambda: make_session("s", "we spoke of the lighthouse at noon", title="Trip"))
    [found] = await search("lighthouse")
    await db(session.refresh_from_db)
    assert found["session"] == "s"
    assert (found["title"], found["date"]) == ("Trip", session.updated_at.date().isoformat())
    assert "the lighthouse at noon" in found["excerpt"]


async def test_titles_are_searched_too() -> None:
    await db(lambda: make_session("s", "hello", title="The Lighthouse"))
    assert await keys("lighthouse") == ["s"]


@pytest.mark.parametrize("query", ["МОСКВА", "москва", "Москва"])
async def test_the_case_of_any_alphabet_does_not_matter(query: str) -> None:
    await db(lambda: make_session("s", "Завтра Москва"))
    assert await keys(query) == ["s"]


@pytest.mark.parametrize("query", ["SÃO", "sao", "São"])
async def test_accents_do_not_matter(query: str) -> None:
    await db(lambda: make_session("s", "em São Paulo"))
    assert await keys(query) == ["s"]


async def test_other_peoples_sessions_are_never_found() -> None:
    await db(lambda: make_session("theirs", "a secret lighthouse", title="lighthouse", user="bob"))
    assert await keys("lighthouse") == []
    assert await keys("lighthouse", user="bob") == ["theirs"]


async def test_a_model_cannot_search_in_another_persons_name() -> None:
    await db(lambda: make_session("theirs", "lighthouse", user="bob"))
    ann, bob = await db(lambda: make_user("ann")), await db(lambda: make_user("bob"))
    result = await run_call(
        Toolbox([search_past_sessions]),
        name="search_past_sessions",
        arguments=json.dumps({"query": "lighthouse", "run": {"user_id": bob.pk}}),
        signal=AbortController().signal,
        run=RunContext(execution_id="e", session_key="here", user_id=ann.pk),
        default_timeout_s=20,
    )
    assert result.state is ToolState.ERROR
    assert "theirs" not in str(result)


async def test_the_present_session_is_not_a_past_one() -> None:
    await db(lambda: make_session("here", "lighthouse"))
    assert await keys("lighthouse") == []


async def test_who_says_all_words_comes_before_who_says_some_and_the_latest_first() -> None:
    await db(lambda: make_session("some", "an old lighthouse"))
    await db(lambda: make_session("all, older", "a boat, and a lighthouse", age=2))
    await db(lambda: make_session("all, newer", "the lighthouse", "the boat by the lighthouse", age=1))
    await db(lambda: make_session("none", "a train"))
    assert await keys("boat lighthouse") == ["all, newer", "all, older", "some"]


async def test_no_more_are_told_than_were_asked_for() -> None:
    for number in range(4):
        await db(lambda number=number: make_session(f"s{number}", "lighthouse"))
    assert len(await keys("lighthouse", limit=3)) == 3


@pytest.mark.parametrize("query", ["zebra", " ", "%", "[", "*", "\\", "a\0b", "\ud83d"])
async def test_what_was_never_said_is_not_found(query: str) -> None:
    await db(lambda: make_session("s", "lighthouse"))
    assert await keys(query) == []


async def test_only_the_latest_messages_and_sessions_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_sessions, "MESSAGES_MAX", 2)
    monkeypatch.setattr(past_sessions, "SESSIONS_MAX", 2)
    await db(lambda: make_session("oldest", title="lighthouse", age=2))
    await db(lambda: make_session("older", "lighthouse", age=1))
    await db(lambda: make_session("newer", "a train", "a lighthouse"))
    assert await keys("lighthouse") == ["newer"]


def test_the_number_of_queries_does_not_grow_with_what_was_said() -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            past_sessions._search(make_user().pk, "here", "boat lighthouse", 5)
        return len(captured)

    make_session("first", "a lighthouse")
    few = queries()
    for number in range(20):
        make_session(f"s{number}", *["a lighthouse"] * 20)
    assert queries() == few


async def test_a_run_of_nobody_has_no_past() -> None:
    with pytest.raises(past_sessions.ToldError):
        await search_past_sessions("x", RunContext(execution_id="e", session_key="s", user_id=None))
