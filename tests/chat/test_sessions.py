"""A person's sessions: what they are shown of one, the list, its search and its pages, and the end of one."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from chat import search, sessions
from chat.errors import Invalid, NotFound
from chat.live import LiveTurn
from chat.models import ChatMessage, ChatSession
from kernel.events import TextDelta
from kernel.models import ExecutionRecord, Hold
from kernel.registry import Execution
from kernel.worker import ThisWorker
from tests.chat.rows import enqueue, make_user, settle, start
from tests.kernel.live import db
from tests.kernel.rows import COMPLETED, aborted

pytestmark = pytest.mark.django_db


def listed(user: str = "ann", query: str | None = None, before: str | None = None, limit: int = 50) -> list[str]:
    return [row["key"] for row in sessions.listing(make_user(user).pk, query, before, limit)]


def snapshot(limit: int = 50, before: str | None = None, user: str = "ann") -> sessions.Snapshot:
    return sessions.snapshot("s", make_user(user).pk, limit, before)


def age(key: str, minutes: int) -> None:
    ChatSession.objects.filter(key=key).update(updated_at=Now() - timedelta(minutes=minutes))


# One session


def test_a_snapshot_shows_the_last_messages_oldest_first() -> None:
    for text in ("one", "two", "three"):
        settle(start(text))
    shown = snapshot(limit=3)
    assert [row.text for row in shown.messages] == ["", "three", ""]
    assert [message["role"] for message in shown.fields(None)["messages"]] == ["assistant", "user", "assistant"]


def test_older_pages_join_the_newer_without_gap_or_repetition() -> None:
    for number in range(5):
        settle(start(str(number)))
    seen: list[int] = []
    before = None
    while page := snapshot(limit=3, before=before).messages:
        seen = [row.pk for row in page] + seen
        before = str(page[0].pk)
    assert seen == list(ChatMessage.objects.order_by("id").values_list("pk", flat=True))


@pytest.mark.parametrize("before", ["999999", "nonsense", "9" * 60])
def test_a_page_before_an_unknown_message_is_not_found(before: str) -> None:
    settle(start())
    with pytest.raises(NotFound):
        snapshot(before=before)


def test_a_page_before_a_message_of_another_session_is_not_found() -> None:
    settle(start())
    other = start(key="t")
    with pytest.raises(NotFound):
        snapshot(before=str(other.answer.pk))


def test_a_strangers_snapshot_is_not_found() -> None:
    start()
    with pytest.raises(NotFound):
        snapshot(user="bob")


def test_a_snapshot_tells_whether_it_runs_what_waits_and_what_holds() -> None:
    started = start()
    enqueue("next")
    Hold.objects.create(by="bob", reason="fire")
    Hold.objects.create(scope_user=make_user("bob"))
    fields = snapshot().fields(None)
    assert fields["session"]["state"] == "running"
    assert fields["session"]["queueLength"] == 1
    assert [item["text"] for item in fields["queue"]] == ["next"]
    assert [(hold["by"], hold["reason"]) for hold in fields["holds"]] == [("bob", "fire")]
    assert fields["active"]["executionId"] == str(started.record.pk)
    settle(started)
    fields = snapshot().fields(None)
    assert (fields["session"]["state"], fields["active"]) == ("idle", None)


async def test_the_running_answer_is_shown_as_its_owner_has_it_in_memory(worker: ThisWorker) -> None:
    started = await db(start)
    shown = await db(snapshot)
    turn = LiveTurn(
        Execution(id=str(started.record.pk), session_key="s"),
        session_id=started.session.pk,
        message_id=started.answer.pk,
        max_steps=8,
        on_change=lambda _turn, now: None,
    )
    turn.tell(TextDelta(step=1, kind="text", text="in memory"))
    fields = shown.fields(turn.snapshot())
    assert fields["messages"][-1]["text"] == "in memory"
    [part] = fields["messages"][-1]["parts"]
    assert (part["kind"], part["step"], part["text"]) == ("text", 1, "in memory")
    assert fields["active"]["seq"] == turn.seq > 0
    turn.close()


def test_an_aborted_message_is_shown_with_why_and_by_whom() -> None:
    settle(start(), aborted("session_stop", by="ann", source="web"))
    message = snapshot().fields(None)["messages"][-1]
    assert (message["status"], message["abortReason"]) == ("aborted", "session_stop")
    assert message["error"] == "Execução interrompida por Parar Sessão."
    assert (message["stop"]["by"], message["stop"]["source"]) == ("ann", "web")
    assert message["usage"] == {"inputTokens": 0, "outputTokens": 0, "costUsd": None, "estimated": False}


# The list


def test_the_list_is_the_persons_own_newest_first() -> None:
    for key in ("a", "b", "c"):
        settle(start(key=key))
    settle(start(key="theirs", user="bob"))
    for minutes, key in enumerate(("b", "c", "a")):
        age(key, minutes)
    assert listed() == ["b", "c", "a"]


def test_the_list_has_pages_without_gap_or_repetition_even_within_one_moment() -> None:
    keys = [f"k{number}" for number in range(7)]
    for key in keys:
        settle(start(key=key))
    ChatSession.objects.update(updated_at=ChatSession.objects.first().updated_at)
    seen: list[str] = []
    while page := listed(limit=3, before=seen[-1] if seen else None):
        seen += page
    assert sorted(seen) == keys
    assert len(seen) == len(keys)


def test_a_page_after_an_unknown_or_foreign_session_is_not_found() -> None:
    start(key="theirs", user="bob")
    for before in ("unknown", "theirs"):
        with pytest.raises(NotFound):
            listed(before=before)


def test_a_search_looks_in_titles_and_in_what_was_said() -> None:
    settle(start("about Lisbon", key="title"))
    started = start("first", key="said")
    settle(started)
    ChatMessage.objects.filter(pk=started.answer.pk).update(text="The tram in lisbon is yellow.")
    settle(start("nothing", key="other"))
    settle(start("Lisbon too", key="theirs", user="bob"))
    assert set(listed(query="LISBON")) == {"title", "said"}
    assert listed(query="Rio") == []
    assert listed(query="100%_") == [], "wildcards are letters"


def said(text: str, *, key: str) -> None:
    started = start("something", key=key)
    settle(started)
    ChatMessage.objects.filter(pk=started.answer.pk).update(text=text)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Погода в Москве", "МОСКВ"),
        ("ёлка", "Елка"),
        ("A ponte de São Paulo", "sao paulo"),
        ("Crianca", "CRIANÇA"),
        ("Straße", "straße"),
        ("as 50% of [a*b]? it\\is ^this$", "50% of [A*B]? it\\is ^this$"),
    ],
)
def test_a_search_minds_neither_case_nor_accents_in_any_alphabet(text: str, query: str) -> None:
    said(text, key="said")
    said("nothing of the kind", key="other")
    assert listed(query=query) == ["said"]
    ChatMessage.objects.all().delete()
    ChatSession.objects.filter(key="other").update(title=text)
    assert listed(query=query) == ["other"]


@pytest.mark.parametrize("query", ["[a-z]", "o.her", "^nothing", "nothing?", "(of)", "n*g", "\\w"])
def test_a_search_knows_no_patterns(query: str) -> None:
    said("nothing of the other kind", key="s")
    assert listed(query=query) == []


def test_a_search_shows_what_stands_around_the_latest_place() -> None:
    said("The first Lisbon.", key="s")
    said("word " * 40 + "\n\nin LISBON " + "word " * 40, key="s")
    [row] = sessions.listing(make_user().pk, "lisbon", None, 9)
    assert row["excerpt"].startswith("…")
    assert "word in LISBON word" in row["excerpt"]
    assert len(row["excerpt"]) < 140


def test_a_session_found_by_its_title_alone_has_no_excerpt() -> None:
    settle(start("hello"))
    ChatSession.objects.update(title="Lisbon")
    [row] = sessions.listing(make_user().pk, "lisbon", None, 9)
    assert row["excerpt"] == ""


def test_a_search_has_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        said("tram", key=f"k{number}")
        age(f"k{number}", number)
    assert listed(query="tram", limit=2) == ["k0", "k1"]
    assert listed(query="tram", limit=2, before="k1") == ["k2"]


def test_a_search_reads_the_texts_of_the_latest_sessions_and_every_title(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SEARCHED_SESSIONS", 1)
    for minutes, key in enumerate(("new", "old", "named")):
        said("tram", key=key)
        age(key, minutes)
    ChatSession.objects.filter(key="named").update(title="The tram")
    assert listed(query="tram") == ["new", "named"]


def test_a_search_that_takes_too_long_is_refused_and_the_next_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        said("tram", key=f"k{number}")
    with monkeypatch.context() as impatient:
        impatient.setattr(search, "LONGEST_S", -1.0)
        with pytest.raises(search.TooLong, match="fewer words"):
            listed(query="tram")
        assert len(listed()) == 20
    assert len(listed(query="tram")) == 20


def test_each_session_of_the_list_tells_whether_it_runs_and_what_waits() -> None:
    start(key="runs")
    for text in ("one", "two"):
        enqueue(text, key="runs")
    settle(start(key="idle"))
    rows = {row["key"]: (row["state"], row["queueLength"]) for row in sessions.listing(make_user().pk, None, None, 9)}
    assert rows == {"runs": ("running", 2), "idle": ("idle", 0)}


# Rename and delete


def test_a_title_is_one_clean_line() -> None:
    settle(start())
    session = sessions.rename("s", make_user().pk, "  a \n better\ttitle ")
    assert session.title == "a better title"
    assert ChatSession.objects.get().title == "a better title"


@pytest.mark.parametrize("title", ["", "  \n", "x" * 201])
def test_an_impossible_title_is_refused(title: str) -> None:
    settle(start("before"))
    with pytest.raises(Invalid):
        sessions.rename("s", make_user().pk, title)
    assert ChatSession.objects.get().title == "before"


def test_a_stranger_renames_and_deletes_nothing() -> None:
    settle(start("before"))
    bob = make_user("bob")
    with pytest.raises(NotFound):
        sessions.rename("s", bob.pk, "stolen")
    with pytest.raises(NotFound):
        sessions.delete("s", bob.pk)
    assert ChatSession.objects.get().title == "before"


def test_a_deleted_session_is_gone_and_its_ledger_stays() -> None:
    started = start()
    enqueue("next")
    settle(started, COMPLETED)
    deleted = sessions.delete("s", make_user().pk)
    assert deleted.pk == started.session.pk
    assert not ChatSession.objects.exists()
    assert not ChatMessage.objects.exists()
    assert ExecutionRecord.objects.get().status == "completed"


def test_a_session_that_still_runs_is_not_deleted() -> None:
    start()
    with pytest.raises(Invalid):
        sessions.delete("s", make_user().pk)
    assert ChatSession.objects.exists()
