"""The queue: changed by its owner, taken once, and never both sent and waiting."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chat import queue
from chat.errors import Held, Invalid, NotFound, Stale
from chat.models import ChatMessage, QueuedMessage
from chat.queue import SentNow
from kernel.models import ExecutionRecord, Hold
from kernel.runner import Outcome, Status
from tests.chat.rows import enqueue, make_user, owner, settle, start, texts
from tests.kernel.rows import aborted

pytestmark = pytest.mark.django_db

FAILED = Outcome(status=Status.ERROR, error="no")


def send_now(item: QueuedMessage, *, user: str = "ann") -> SentNow:
    return queue.send_now("s", make_user(user).pk, user, str(item.pk), owner())


def take(started: Any, *, promoted_only: bool = False) -> Any:
    return queue.take_next(started.session.pk, owner(), promoted_only=promoted_only)


def orders() -> list[str]:
    return [record.intent for record in ExecutionRecord.objects.order_by("started_at") if record.intent]


# Taken when a turn has ended


def test_the_head_is_taken_with_everything_that_belongs_to_it() -> None:
    started = start()
    enqueue("first", client_message_id="c", request_id="r", model="m", context={"title": "t"})
    enqueue("second")
    settle(started)
    taken = take(started)
    message = taken.user_message
    assert (message.text, message.client_message_id, message.context) == ("first", "c", {"title": "t"})
    assert (taken.record.request_id, taken.record.model) == ("r", "m")
    assert [item.text for item in taken.queue] == ["second"]
    assert message.queued_as is not None
    assert not QueuedMessage.objects.filter(pk=message.queued_as).exists()


def test_nothing_is_taken_while_a_turn_runs_or_nothing_waits() -> None:
    started = start()
    assert take(started) is None
    enqueue("waits")
    assert take(started) is None
    assert texts(started.session) == ["waits"]


def test_nothing_is_taken_for_a_session_that_is_gone() -> None:
    started = start()
    settle(started)
    pk = started.session.pk
    started.session.delete()
    assert queue.take_next(pk, owner(), promoted_only=False) is None


def test_after_an_interruption_only_what_interrupted_is_taken() -> None:
    started = start()
    item = enqueue("waits")
    settle(started, aborted("user_interrupt"))
    assert take(started) is None
    QueuedMessage.objects.filter(pk=item.pk).update(promoted=True)
    assert take(started) is not None


def test_who_only_keeps_promises_sends_nothing_else_even_after_a_clean_end() -> None:
    started = start()
    enqueue("waits")
    settle(started)
    assert take(started, promoted_only=True) is None


@pytest.mark.parametrize("outcome", [aborted(), aborted("timeout"), aborted("disconnect"), FAILED], ids=str)
def test_who_comes_late_for_a_clean_end_takes_nothing_after_another_one(outcome: Outcome) -> None:
    started = start()
    enqueue("waits")
    settle(started)  # and before anyone takes the head:
    settle(start("a new message"), outcome)
    assert take(started) is None


def test_after_the_clean_end_of_a_new_message_the_kept_queue_flows_again() -> None:
    started = start()
    enqueue("waits")
    settle(started, aborted())
    settle(start("a new message"))
    assert take(started).user_message.text == "waits"


def test_a_hold_keeps_the_queue_as_it_is() -> None:
    started = start()
    enqueue("waits")
    settle(started)
    hold = Hold.objects.create()
    assert take(started) is None
    assert texts(started.session) == ["waits"]
    hold.delete()
    assert take(started) is not None


def test_what_is_being_edited_is_not_sent_until_that_ends_by_itself() -> None:
    started = start()
    item = enqueue("waits")
    queue.set_editing("s", make_user().pk, str(item.pk), True)
    settle(started)
    assert take(started) is None
    QueuedMessage.objects.update(editing_until=timezone.now() - timedelta(seconds=1))
    assert take(started) is not None


# Send now


def test_send_now_while_idle_simply_sends() -> None:
    started = start()
    item = enqueue("now")
    settle(started)
    sent = send_now(item)
    assert sent.started is not None
    assert sent.started.user_message is not None
    assert (sent.started.user_message.text, sent.started.user_message.interrupted_previous) == ("now", False)
    assert (sent.interrupts, sent.item, sent.queue) == (None, None, [])
    assert orders() == []


def test_send_now_while_busy_makes_it_the_head_and_orders_the_end_of_the_turn() -> None:
    started = start()
    for text in ("first", "second"):
        enqueue(text)
    item = enqueue("now")
    sent = send_now(item)
    assert sent.interrupts == str(started.record.pk)
    assert sent.started is None
    assert [each.text for each in sent.queue] == ["now", "first", "second"]
    assert orders() == ["user_interrupt"]
    settle(started, aborted("user_interrupt"))
    taken = take(started)
    assert (taken.user_message.text, taken.user_message.interrupted_previous) == ("now", True)
    assert texts(started.session) == ["first", "second"]


def test_send_now_on_one_and_then_on_another_is_one_abort_with_the_last_as_head() -> None:
    start()
    first, second = enqueue("x"), enqueue("y")
    send_now(first)
    sent = send_now(second)
    assert [each.text for each in sent.queue] == ["y", "x"]
    assert orders() == ["user_interrupt"]


def test_send_now_again_while_it_waits_answers_as_before_and_changes_nothing() -> None:
    start()
    item = enqueue("now")
    first, again = send_now(item), send_now(item)
    assert again.interrupts == first.interrupts
    assert [each.text for each in again.queue] == ["now"]


def test_send_now_after_it_was_sent_finds_the_message() -> None:
    started = start()
    item = enqueue("now")
    settle(started)
    first = send_now(item)
    again = send_now(item)
    assert first.started is not None
    assert again.sent == first.started.user_message
    assert ChatMessage.objects.filter(text="now").count() == 1


def test_send_now_ends_the_editing() -> None:
    started = start()
    item = enqueue("now")
    queue.set_editing("s", make_user().pk, str(item.pk), True)
    send_now(item)
    settle(started, aborted("user_interrupt"))
    assert take(started) is not None


def test_send_now_under_a_hold_interrupts_nothing() -> None:
    start()
    item = enqueue("now")
    Hold.objects.create()
    with pytest.raises(Held):
        send_now(item)
    assert orders() == []
    item.refresh_from_db()
    assert not item.promoted


def test_send_now_under_a_hold_while_idle_keeps_the_item() -> None:
    started = start()
    item = enqueue("now")
    settle(started)
    Hold.objects.create()
    with pytest.raises(Held):
        send_now(item)
    assert texts(started.session) == ["now"]


def test_a_stop_after_send_now_takes_the_promise_back() -> None:
    started = start()
    item = enqueue("now")
    send_now(item)
    queue.withdraw_promises(queue.queued(session_key="s"))
    settle(started, aborted("session_stop"))
    assert take(started) is None
    assert texts(started.session) == ["now"]


@pytest.mark.parametrize(
    ("scope", "withdrawn"),
    [
        ({}, {"ann's", "bob's"}),
        ({"session_key": "s"}, {"ann's"}),
        ({"user_id": "bob"}, {"bob's"}),
        ({"model": "m"}, {"bob's"}),
        ({"model": "demo/scripted"}, {"ann's"}),
    ],
    ids=["everything", "a session", "a person", "a message's model", "a session's model"],
)
def test_a_panic_takes_back_the_promises_of_its_scope(scope: dict[str, Any], withdrawn: set[str]) -> None:
    start()
    start(key="t", user="bob")
    send_now(enqueue("ann's"))
    theirs = enqueue("bob's", key="t", user="bob", model="m")
    queue.send_now("t", make_user("bob").pk, "bob", str(theirs.pk), owner())
    if "user_id" in scope:
        scope = {"user_id": make_user("bob").pk}
    queue.withdraw_promises(queue.queued(**scope))
    assert set(QueuedMessage.objects.filter(promoted=False).values_list("text", flat=True)) == withdrawn


# Changed by its owner


def test_an_item_is_edited_in_its_place_and_that_ends_the_editing() -> None:
    start()
    item = enqueue("first")
    enqueue("second")
    queue.set_editing("s", make_user().pk, str(item.pk), True)
    changed = queue.edit("s", make_user().pk, str(item.pk), "better")
    assert [row.text for row in changed.queue] == texts(changed.session) == ["better", "second"]
    item.refresh_from_db()
    assert item.editing_until is None


def test_an_edit_obeys_the_rules_of_a_message() -> None:
    start()
    item = enqueue("first")
    with pytest.raises(Invalid):
        queue.edit("s", make_user().pk, str(item.pk), "  ")
    item.refresh_from_db()
    assert item.text == "first"


def test_an_item_is_removed() -> None:
    start()
    item = enqueue("first")
    enqueue("second")
    assert [row.text for row in queue.remove("s", make_user().pk, str(item.pk)).queue] == ["second"]


@pytest.mark.parametrize(
    ("position", "order"), [(0, "cabd"), (1, "acbd"), (2, "abcd"), (3, "abdc"), (99, "abdc")], ids=str
)
def test_an_item_is_moved_and_the_rest_keeps_its_order(position: int, order: str) -> None:
    start()
    items = {text: enqueue(text) for text in "abcd"}
    changed = queue.move("s", make_user().pk, str(items["c"].pk), position)
    assert "".join(row.text for row in changed.queue) == "".join(texts(changed.session)) == order
    enqueue("e")
    assert texts(changed.session)[-1] == "e"


def test_an_item_can_be_moved_before_what_send_now_put_first() -> None:
    started = start()
    enqueue("a")
    send_now(enqueue("b"))
    last = enqueue("c")
    queue.move("s", make_user().pk, str(last.pk), 0)
    assert texts(started.session) == ["c", "b", "a"]


CHANGES: dict[str, Callable[[int, str], Any]] = {
    "edit": lambda user_id, item: queue.edit("s", user_id, item, "x"),
    "remove": lambda user_id, item: queue.remove("s", user_id, item),
    "move": lambda user_id, item: queue.move("s", user_id, item, 0),
    "hold": lambda user_id, item: queue.set_editing("s", user_id, item, True),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_change_of_what_was_sent_is_stale(change: Callable[[int, str], Any]) -> None:
    started = start()
    item = enqueue("now")
    settle(started)
    take(started)
    with pytest.raises(Stale):
        change(make_user().pk, str(item.pk))


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("queue_id", ["999", "nonsense", "²", "9" * 40, "-1"])
def test_a_change_of_what_never_was_is_not_found(change: Callable[[int, str], Any], queue_id: str) -> None:
    start()
    with pytest.raises(NotFound):
        change(make_user().pk, queue_id)


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_strangers_change_is_not_found_and_changes_nothing(change: Callable[[int, str], Any]) -> None:
    started = start()
    item = enqueue("mine")
    with pytest.raises(NotFound):
        change(make_user("bob").pk, str(item.pk))
    item.refresh_from_db()
    assert (item.text, item.editing_until) == ("mine", None)
    assert texts(started.session) == ["mine"]


def test_a_strangers_send_now_is_not_found() -> None:
    start()
    with pytest.raises(NotFound):
        send_now(enqueue("mine"), user="bob")
    assert orders() == []


def test_an_item_of_another_session_is_not_found() -> None:
    start()
    start(key="t")
    item = enqueue("elsewhere", key="t")
    with pytest.raises(NotFound):
        send_now(item)
    with pytest.raises(NotFound):
        queue.remove("s", make_user().pk, str(item.pk))
