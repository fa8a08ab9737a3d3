"""Send now, again and again: whatever races with it, it is obeyed once and answers every time as it did at first."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from chat import again, queue
from chat.admission import Queued, Repeated, Started, admit
from chat.errors import Conflict, Held
from chat.models import AgentRole, ChatMessage, ChatSession, QueuedMessage
from chat.queue import SentNow
from kernel.models import ExecutionRecord, Hold
from kernel.runner import Outcome, Status
from tests.chat.rows import enqueue, make_user, outgoing, owner, settle, start, texts
from tests.kernel.rows import COMPLETED, aborted

pytestmark = pytest.mark.django_db

INTERRUPTED = aborted("user_interrupt")
FAILED = Outcome(status=Status.ERROR, error="no")


def send_now(item: QueuedMessage, client_message_id: str = "") -> SentNow:
    return queue.send_now("s", make_user().pk, "ann", str(item.pk), owner(), client_message_id)


def take(started: Started) -> Any:
    return queue.take_next(started.session.pk, owner())


def stop() -> None:
    queue.withdraw_promises(queue.queued(session_key="s"))


def ordered() -> int:
    """How many turns were told to end."""
    return ExecutionRecord.objects.exclude(intent="").count()


# A repetition answers as the first did


@pytest.mark.parametrize("outcome", [INTERRUPTED, COMPLETED, FAILED], ids=["aborted", "ended by itself", "failed"])
def test_after_it_was_sent_the_answer_is_that_of_the_first_whatever_the_turn_ended_of(outcome: Outcome) -> None:
    started = start()
    item = enqueue("now")
    assert send_now(item).interrupted
    settle(started, outcome)
    taken = take(started)
    repeated = send_now(item)
    assert (repeated.interrupted, repeated.sent, repeated.interrupts) == (True, taken.user_message, None)
    assert ordered() == 1


def test_while_idle_it_interrupts_nothing_whatever_the_client_claimed_when_it_sent_the_message() -> None:
    started = start()
    item = enqueue("now", interrupted=True)
    settle(started, aborted())
    assert not send_now(item).interrupted
    assert not send_now(item).interrupted


def test_a_message_that_flowed_by_itself_was_never_an_interruption() -> None:
    started = start()
    item = enqueue("flows", interrupted=True)
    settle(started)
    taken = take(started)
    sent = send_now(item)
    assert (sent.interrupted, sent.sent) == (False, taken.user_message)


def test_between_the_end_and_the_next_turn_a_repetition_still_says_that_it_interrupted() -> None:
    started = start()
    item = enqueue("now")
    send_now(item)
    settle(started, INTERRUPTED)
    repeated = send_now(item)
    assert repeated.interrupted
    assert repeated.started is not None
    assert repeated.started.user_message is not None
    assert repeated.started.user_message.interrupted_previous
    assert take(started) is None
    assert ChatMessage.objects.filter(text="now").count() == 1


def test_repeating_the_first_of_two_does_not_put_it_before_the_second() -> None:
    started = start()
    x, y = enqueue("x"), enqueue("y")
    send_now(x)
    send_now(y)
    assert send_now(x).interrupted
    assert texts(started.session) == ["y", "x"]
    assert ordered() == 1


def test_the_same_command_after_a_stop_does_not_undo_the_stop() -> None:
    started = start()
    item = enqueue("now")
    send_now(item, "click")
    stop()
    settle(started, aborted())
    repeated = send_now(item, "click")
    assert (repeated.interrupted, repeated.started, repeated.interrupts) == (True, None, None)
    assert texts(started.session) == ["now"]


@pytest.mark.parametrize("command", ["", "another click"])
def test_a_new_command_after_a_stop_sends_and_that_is_what_its_repetition_says(command: str) -> None:
    started = start()
    item = enqueue("now")
    send_now(item, "click")
    stop()
    settle(started, aborted())
    sent = send_now(item, command)
    assert sent.started is not None
    assert sent.started.user_message is not None
    assert (sent.interrupted, sent.started.user_message.interrupted_previous) == (False, False)
    assert not send_now(item, command).interrupted


def test_a_queued_message_becomes_one_message_whoever_forgets_to_look() -> None:
    started = start()
    item = enqueue("now")
    settle(started)
    send_now(item)
    with pytest.raises(IntegrityError), transaction.atomic():
        ChatMessage.objects.create(session=started.session, role="user", text="now", queued_as=item.pk)


# Exactly that message is sent next


def test_of_two_the_last_is_sent_and_the_other_waits_like_any_other() -> None:
    started = start()
    x, y = enqueue("x"), enqueue("y")
    send_now(x)
    send_now(y)
    settle(started, INTERRUPTED)
    second = take(started)
    assert second.user_message.text == "y"
    settle(second, FAILED)
    assert take(started) is None
    assert texts(started.session) == ["x"]


def test_the_other_flows_after_a_clean_end_and_interrupted_nothing() -> None:
    started = start()
    x, y = enqueue("x"), enqueue("y")
    send_now(x)
    send_now(y)
    settle(started, INTERRUPTED)
    settle(take(started))
    taken = take(started)
    assert (taken.user_message.text, taken.user_message.interrupted_previous) == ("x", False)


def test_if_the_last_is_removed_the_first_is_sent() -> None:
    started = start()
    x, y = enqueue("x"), enqueue("y")
    send_now(x)
    send_now(y)
    queue.remove("s", make_user().pk, str(y.pk))
    settle(started, INTERRUPTED)
    assert take(started).user_message.text == "x"


def test_what_was_moved_before_it_does_not_break_the_promise() -> None:
    started = start()
    item, other = enqueue("now"), enqueue("other")
    send_now(item)
    queue.move("s", make_user().pk, str(other.pk), 0)
    settle(started, INTERRUPTED)
    assert take(started).user_message.text == "now"


def test_a_message_that_comes_between_the_end_and_the_promised_turn_waits() -> None:
    started = start()
    item = enqueue("now")
    send_now(item)
    settle(started, INTERRUPTED)
    late = admit(outgoing("late"), owner(), "queue")
    assert isinstance(late, Queued)
    assert take(started).user_message.text == "now"
    assert texts(started.session) == ["late"]


def test_one_that_would_interrupt_comes_first_and_ends_nothing() -> None:
    started = start()
    send_now(enqueue("now"))
    settle(started, INTERRUPTED)
    late = admit(outgoing("late"), owner(), "interrupt")
    assert isinstance(late, Queued)
    assert (late.item.promoted, late.interrupts) == (True, None)
    assert take(started).user_message.text == "late"
    assert ordered() == 1


def test_nothing_is_answered_again_between_the_end_and_the_promised_turn() -> None:
    started = start()
    send_now(enqueue("now"))
    settle(started, INTERRUPTED)
    with pytest.raises(Conflict):
        again.continue_answer("s", make_user().pk, str(started.answer.pk), "r", owner())
    with pytest.raises(Conflict):
        admit(outgoing("late"), owner(), "reject")


def test_a_send_that_interrupts_says_so_again_when_it_is_repeated() -> None:
    started = start()
    admit(outgoing("now", client_message_id="c"), owner(), "interrupt")
    settle(started, COMPLETED)
    take(started)
    repeated = admit(outgoing("now", client_message_id="c"), owner(), "interrupt")
    assert isinstance(repeated, Repeated)
    assert repeated.message is not None
    assert repeated.message.interrupting


# Holds


def test_what_met_a_hold_is_not_sent_by_its_release() -> None:
    started = start()
    item = enqueue("now")
    send_now(item)
    hold = Hold.objects.create()
    settle(started, INTERRUPTED)
    assert take(started) is None
    hold.delete()
    assert queue.promised() == []
    assert take(started) is None
    assert texts(started.session) == ["now"]
    assert send_now(item).started is not None


def test_a_new_command_meets_the_hold() -> None:
    started = start()
    item = enqueue("now")
    settle(started)
    Hold.objects.create()
    with pytest.raises(Held):
        send_now(item)
    assert texts(started.session) == ["now"]


@pytest.mark.parametrize("whose", ["the message's role", "the session's role"])
def test_a_panic_over_a_model_takes_back_what_a_role_would_have_it_answer(whose: str) -> None:
    role = AgentRole.objects.create(name="r", model="m")
    start()
    if whose == "the session's role":
        ChatSession.objects.update(agent_role=role)
        send_now(enqueue("now"))
    else:
        send_now(enqueue("now", role_id=str(role.pk)))
    assert queue.queued(model="demo/scripted").count() == 0
    queue.withdraw_promises(queue.queued(model="m"))
    assert not QueuedMessage.objects.get().promoted
