"""Answering again adds rows and edits none."""

from collections.abc import Callable
from typing import Any

import pytest

from chat import again
from chat.admission import Started
from chat.briefing import brief
from chat.errors import Conflict, Held, Invalid, NotFound
from chat.models import AgentRole, ChatMessage, ChatSession
from kernel.models import ExecutionRecord, Hold
from kernel.runner import Outcome, Status
from tests.chat.rows import make_user, outgoing, owner, settle, start
from tests.kernel.rows import COMPLETED, aborted

pytestmark = pytest.mark.django_db

FAILED = Outcome(status=Status.ERROR, error="no")


def continued(message_id: Any, *, user: str = "ann") -> Started:
    return again.continue_answer("s", make_user(user).pk, str(message_id), "r", owner())


def regenerated(message_id: Any, *, user: str = "ann") -> Started:
    return again.regenerate("s", make_user(user).pk, str(message_id), "r", owner())


def resent(message_id: Any, text: str = "better", *, user: str = "ann") -> Started:
    return again.resend(outgoing(text, user=user), str(message_id), owner())


VERBS: dict[str, Callable[..., Started]] = {"continue": continued, "regenerate": regenerated, "resend": resent}


def meant(verb: str, started: Started) -> Any:
    """The message that the verb is about."""
    assert started.user_message is not None
    return started.user_message.pk if verb == "resend" else started.answer.pk


def ended(outcome: Outcome, text: str = "hello") -> Started:
    started = start(text)
    ChatMessage.objects.filter(pk=started.answer.pk).update(
        text="some", parts=[{"kind": "text", "step": 1, "text": "some"}]
    )
    settle(started, outcome)
    return started


@pytest.mark.parametrize("outcome", [aborted(), FAILED], ids=["aborted", "failed"])
def test_a_partial_answer_is_continued_in_a_row_of_its_own(outcome: Outcome) -> None:
    first = ended(outcome)
    started = continued(first.answer.pk)
    assert started.answer.continues == first.answer
    assert (started.answer.status, started.record.status, started.user_message) == ("streaming", "running", None)
    assert started.record.request_id == "r"
    old = ChatMessage.objects.get(pk=first.answer.pk)
    assert (old.text, old.status) == ("some", outcome.status.value)


def test_a_complete_answer_is_not_continued() -> None:
    with pytest.raises(Invalid):
        continued(ended(COMPLETED).answer.pk)


@pytest.mark.parametrize("verb", VERBS)
def test_a_role_that_has_a_model_by_now_answers_with_it(verb: str) -> None:
    first = ended(aborted())
    role = AgentRole.objects.create(name="lawyer", model="demo/lawyer")
    ChatSession.objects.update(agent_role=role)
    assert VERBS[verb](meant(verb, first)).record.model == "demo/lawyer"


def test_the_model_sees_what_it_continues() -> None:
    history = brief(continued(ended(aborted()).answer.pk)).history
    assert [message["role"] for message in history] == ["user", "assistant", "user"]
    assert history[1]["content"] == "some"


@pytest.mark.parametrize("outcome", [COMPLETED, aborted(), FAILED], ids=["completed", "aborted", "failed"])
def test_any_last_answer_is_answered_anew_and_not_shown_to_the_model(outcome: Outcome) -> None:
    first = ended(outcome)
    started = regenerated(first.answer.pk)
    assert started.answer.replaces == first.answer
    assert brief(started).history == [{"role": "user", "content": "hello"}]
    settle(started)
    later = start("next")
    assert "some" not in str(brief(later).history)


def test_a_message_is_sent_again_with_another_text_and_the_old_one_stays() -> None:
    first = ended(aborted(), "helo")
    assert first.user_message is not None
    started = resent(first.user_message.pk, "hello")
    assert started.user_message is not None
    assert started.user_message.replaces == first.user_message
    old = ChatMessage.objects.get(pk=first.user_message.pk)
    assert old.text == "helo"


def test_the_old_text_is_not_shown_to_the_model() -> None:
    first = ended(COMPLETED, "helo")
    assert first.user_message is not None
    history = brief(resent(first.user_message.pk, "hello")).history
    assert "helo" not in [message["content"] for message in history]


def test_an_empty_text_is_not_sent_again() -> None:
    first = ended(COMPLETED)
    assert first.user_message is not None
    with pytest.raises(Invalid):
        resent(first.user_message.pk, " ")


@pytest.mark.parametrize("verb", VERBS)
def test_while_a_turn_runs_nothing_is_answered_again(verb: str) -> None:
    started = start()
    with pytest.raises(Conflict):
        VERBS[verb](meant(verb, started))
    assert ExecutionRecord.objects.count() == 1


@pytest.mark.parametrize("verb", VERBS)
def test_only_the_last_one_is_answered_again(verb: str) -> None:
    first = ended(aborted())
    ended(aborted())
    with pytest.raises(Invalid):
        VERBS[verb](meant(verb, first))


@pytest.mark.parametrize("verb", VERBS)
def test_a_hold_refuses_it_and_leaves_nothing(verb: str) -> None:
    first = ended(aborted())
    Hold.objects.create()
    with pytest.raises(Held):
        VERBS[verb](meant(verb, first))
    assert ChatMessage.objects.count() == 2


@pytest.mark.parametrize("verb", VERBS)
def test_a_stranger_is_told_that_there_is_no_such_session(verb: str) -> None:
    first = ended(aborted())
    with pytest.raises(NotFound):
        VERBS[verb](meant(verb, first), user="bob")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("message_id", ["999", "nonsense", "²", "9" * 40, ""])
def test_a_message_that_never_was_is_not_found(verb: str, message_id: str) -> None:
    ended(aborted())
    with pytest.raises(NotFound):
        VERBS[verb](message_id)


@pytest.mark.parametrize("verb", VERBS)
def test_a_message_of_the_other_kind_is_not_found(verb: str) -> None:
    first = ended(aborted())
    assert first.user_message is not None
    other = first.answer.pk if verb == "resend" else first.user_message.pk
    with pytest.raises(NotFound):
        VERBS[verb](other)
