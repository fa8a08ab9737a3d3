"""Letting a message in: it starts a turn, waits, or is refused, and nothing in between."""

from typing import Any

import pytest

from chat import admission
from chat.admission import (
    CONTEXT_MAX_BYTES,
    QUEUE_MAX,
    TEXT_MAX_BYTES,
    Queued,
    Repeated,
    Started,
    admit,
    own_session,
    title_of,
)
from chat.errors import ChatError, Conflict, Held, Invalid, NotFound, QueueFull
from chat.models import AgentRole, ChatMessage, ChatSession, QueuedMessage
from kernel.models import ExecutionRecord, Hold
from kernel.runner import Outcome, Status
from tests.chat.rows import enqueue, make_user, outgoing, owner, settle, start, texts
from tests.kernel.rows import aborted

pytestmark = pytest.mark.django_db

FAILED = Outcome(status=Status.ERROR, error="no")


def counted() -> tuple[int, int, int]:
    return ChatMessage.objects.count(), ExecutionRecord.objects.count(), QueuedMessage.objects.count()


# A first message


def test_a_first_message_makes_the_session_and_a_turn_of_it() -> None:
    by = owner()
    started = admit(outgoing("hello\nworld", request_id="r", client_message_id="c"), by, "queue")
    assert isinstance(started, Started)
    assert started.created_session
    session = ChatSession.objects.get(key="s")
    assert (session.user, session.title, session.model) == (make_user(), "hello", "demo/scripted")
    question, answer = session.messages.order_by("id")
    assert (question.role, question.status, question.text) == ("user", "completed", "hello\nworld")
    assert question.parts == [{"kind": "text", "step": 1, "text": "hello\nworld"}]
    assert question.finished_at is not None
    assert (answer.role, answer.status, answer.text) == ("assistant", "streaming", "")
    record = ExecutionRecord.objects.get()
    assert (str(record.pk), record.worker_id, record.session_key) == (by.execution_id, by.worker_id, "s")
    assert (record.user, record.model, record.request_id, record.status) == (
        make_user(),
        "demo/scripted",
        "r",
        "running",
    )
    assert question.execution == answer.execution == record


def test_a_second_message_after_the_first_answer_is_a_second_turn() -> None:
    settle(start())
    again = start("again")
    assert not again.created_session
    assert again.session.messages.count() == 4
    assert again.session.title == "hello", "the title stays the first message's"


# Permission comes first


@pytest.mark.parametrize(
    "wish",
    [{"text": "hello"}, {"text": ""}, {"text": "x" * (TEXT_MAX_BYTES + 1)}, {"text": "a", "role_id": "99"}],
    ids=["a good message", "an empty one", "a long one", "an unknown role"],
)
def test_a_stranger_is_told_that_there_is_no_such_session_whatever_he_sends(wish: dict[str, Any]) -> None:
    started = start()
    before = counted()
    for when_busy in ("queue", "interrupt", "reject"):
        with pytest.raises(NotFound):
            admit(outgoing(user="bob", **wish), owner(), when_busy)
    assert counted() == before
    assert ExecutionRecord.objects.get(pk=started.record.pk).intent == ""


def test_a_stranger_learns_of_no_repetition() -> None:
    start(client_message_id="c")
    with pytest.raises(NotFound):
        admit(outgoing(user="bob", client_message_id="c"), owner(), "queue")


def test_a_stranger_and_an_unknown_session_are_told_the_same() -> None:
    start()
    with pytest.raises(NotFound) as foreign:
        own_session("s", make_user("bob").pk)
    with pytest.raises(NotFound) as unknown:
        own_session("unknown", make_user("bob").pk)
    assert str(foreign.value) == str(unknown.value)


# Rules


@pytest.mark.parametrize(
    "wish",
    [
        {"text": ""},
        {"text": " \n\t"},
        {"text": "x" * (TEXT_MAX_BYTES + 1)},
        {"text": "ж" * (TEXT_MAX_BYTES // 2 + 1)},
        {"text": "a", "context": {"text": "x" * (CONTEXT_MAX_BYTES + 1)}},
        {"text": "a", "role_id": "99"},
        {"text": "a", "role_id": "nonsense"},
        {"text": "a", "role_id": "²"},
    ],
    ids=["empty", "blank", "too long", "too long in bytes", "long context", "no role", "no number", "no digit"],
)
def test_what_is_against_a_rule_is_refused_and_leaves_nothing(wish: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        admit(outgoing(**wish), owner(), "queue")
    assert counted() == (0, 0, 0)
    assert not ChatSession.objects.exists()


def test_what_just_fits_is_let_in() -> None:
    start("x" * TEXT_MAX_BYTES, context={"text": "y" * CONTEXT_MAX_BYTES})


# The same message again


def test_a_message_that_was_sent_is_not_sent_again() -> None:
    started = start(client_message_id="c")
    before = counted()
    again = admit(outgoing(client_message_id="c"), owner(), "interrupt")
    assert isinstance(again, Repeated)
    assert again.message == started.user_message
    assert counted() == before
    assert ExecutionRecord.objects.get().intent == ""


def test_a_message_that_waits_is_not_queued_again() -> None:
    start()
    item = enqueue("next", client_message_id="c")
    again = admit(outgoing("next", client_message_id="c"), owner(), "queue")
    assert isinstance(again, Repeated)
    assert (again.item, again.message) == (item, None)


def test_a_repetition_is_answered_whatever_holds_by_now() -> None:
    start(client_message_id="c")
    Hold.objects.create()
    assert isinstance(admit(outgoing(client_message_id="c"), owner(), "reject"), Repeated)


def test_messages_without_an_id_are_never_the_same() -> None:
    start()
    assert enqueue("again") != enqueue("again")


def test_the_same_id_in_another_session_is_another_message() -> None:
    start(client_message_id="c")
    start(key="t", client_message_id="c")


# Busy


def test_a_message_to_a_busy_session_waits_in_order_with_all_that_belongs_to_it() -> None:
    start()
    role = AgentRole.objects.create(name="r")
    enqueue("first")
    item = enqueue("second", role_id=str(role.pk), model="m", context={"title": "t"}, request_id="r")
    assert texts(item.session) == ["first", "second"]
    assert (item.agent_role, item.model, item.context, item.request_id) == (role, "m", {"title": "t"}, "r")
    assert not item.promoted
    assert ExecutionRecord.objects.count() == 1


def test_the_queue_has_an_end() -> None:
    started = start()
    QueuedMessage.objects.bulk_create(
        QueuedMessage(session=started.session, position=n, text=str(n)) for n in range(QUEUE_MAX)
    )
    with pytest.raises(QueueFull):
        enqueue("one too many")
    assert started.session.queue.count() == QUEUE_MAX


def test_reject_refuses_while_busy_and_starts_while_idle() -> None:
    started = start()
    with pytest.raises(Conflict):
        admit(outgoing(), owner(), "reject")
    assert not started.session.queue.exists()
    settle(started)
    assert isinstance(admit(outgoing(), owner(), "reject"), Started)


def test_interrupt_goes_to_the_head_and_orders_the_running_turn_to_end() -> None:
    started = start()
    enqueue("waits")
    queued = admit(outgoing("now"), owner(), "interrupt")
    assert isinstance(queued, Queued)
    assert queued.interrupts == str(started.record.pk)
    assert [item.text for item in queued.queue] == ["now", "waits"]
    assert queued.item.promoted
    assert queued.item.interrupting
    order = ExecutionRecord.objects.get(pk=started.record.pk)
    assert (order.intent, order.requested_by, order.status) == ("user_interrupt", "ann", "running")


def test_a_title_that_is_being_written_makes_nobody_busy() -> None:
    settle(start())
    ExecutionRecord.objects.create(session_key="s", kind="title")
    start("next")


# Holds


@pytest.mark.parametrize("scope", [{}, {"scope_model": "demo/scripted"}, {"scope_user": "ann"}], ids=str)
def test_a_hold_refuses_a_new_turn_and_says_by_whom_and_why(scope: dict[str, Any]) -> None:
    if "scope_user" in scope:
        scope = {"scope_user": make_user("ann")}
    Hold.objects.create(by="bob", reason="fire", **scope)
    with pytest.raises(Held, match=r"bob.*fire"):
        admit(outgoing(), owner(), "queue")
    assert counted() == (0, 0, 0)


@pytest.mark.parametrize("scope", [{"scope_model": "another/model"}, {"scope_user": "bob"}], ids=str)
def test_a_hold_of_something_else_refuses_nothing(scope: dict[str, Any]) -> None:
    if "scope_user" in scope:
        scope = {"scope_user": make_user("bob")}
    Hold.objects.create(**scope)
    start()


def test_a_message_may_wait_while_a_hold_is_on() -> None:
    start()
    Hold.objects.create()
    enqueue("later")


# Role, model, and the claim to have interrupted


def test_the_model_is_the_messages_else_the_roles_else_the_sessions_else_the_default() -> None:
    role = AgentRole.objects.create(name="r", model="of the role")
    plain = AgentRole.objects.create(name="plain")
    for wish, model in (
        ({}, "demo/scripted"),
        ({"model": "of the message", "role_id": str(role.pk)}, "of the message"),
        ({}, "of the role"),
        ({"role_id": str(plain.pk)}, "of the role"),
    ):
        started = start(**wish)
        assert started.record.model == model, wish
        settle(started)


@pytest.mark.parametrize(
    ("end", "true"),
    [(aborted(), True), (None, False), (FAILED, False)],
    ids=["aborted", "completed", "failed"],
)
def test_a_claim_to_have_interrupted_is_kept_only_if_the_last_answer_was_cut_off(end: Any, true: bool) -> None:
    started = start()
    settle(started, end) if end else settle(started)
    again = start("go on", interrupted=True)
    assert again.user_message is not None
    assert again.user_message.interrupted_previous is true


def test_without_the_claim_nothing_was_interrupted() -> None:
    settle(start(), aborted())
    again = start("go on")
    assert again.user_message is not None
    assert not again.user_message.interrupted_previous


# Titles


@pytest.mark.parametrize(
    ("text", "title"),
    [("  one\ntwo", "one"), ("\n\n  three  \n", "three"), ("x" * 80, "x" * 80), ("x" * 81, "x" * 79 + "…")],
)
def test_the_title_is_the_first_line_shortened(text: str, title: str) -> None:
    assert title_of(text) == title


def test_every_refusal_has_a_code_and_words() -> None:
    for kind in ChatError.__subclasses__():
        assert kind.code in admission_codes()
        assert str(kind())


def admission_codes() -> set[str]:
    return {"not_found", "forbidden", "held", "queue_full", "invalid", "stale", "conflict", "internal"}


def test_two_first_messages_at_once_make_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is committed between the look and the insert."""
    exists = type(ChatSession.objects.all()).exists
    ann = make_user()

    def late(rows: Any) -> bool:
        found = exists(rows)
        if rows.model is ChatSession and not found:
            ChatSession.objects.create(key="s", user=ann)
        return found

    monkeypatch.setattr(type(ChatSession.objects.all()), "exists", late)
    started = admission.admit(outgoing(), owner(), "queue")
    assert isinstance(started, Started)
    assert not started.created_session
