"""Answering again: continue a partial answer, replace one, or edit the last message and send it anew.

Each adds rows and edits none: what was settled stays, and says by `continues` and `replaces` what became of it.
"""

from dataclasses import replace

from django.db import transaction

from chat.admission import (
    Outgoing,
    Owner,
    Started,
    admit_execution,
    check_limits,
    insert_answer,
    is_promised,
    live_turn,
    model_of,
    own_session,
    queue_of,
    start_turn,
    touch,
)
from chat.errors import Conflict, Invalid, NotFound
from chat.models import ChatMessage, ChatSession, MessageRole, MessageStatus

UNCLEAN = {MessageStatus.ABORTED, MessageStatus.ERROR}


def continue_answer(session_key: str, user_id: int, message_id: str, request_id: str, owner: Owner) -> Started:
    """Go on where the last answer broke off. Raises `NotFound`, `Conflict`, `Held`, `Invalid`."""
    with transaction.atomic():
        session, message = _last(session_key, user_id, message_id, MessageRole.ASSISTANT)
        if message.status not in UNCLEAN:
            raise Invalid("This answer is complete; there is nothing to continue. Send a new message.")
        return _answer(session, owner, request_id, continues=message)


def regenerate(session_key: str, user_id: int, message_id: str, request_id: str, owner: Owner) -> Started:
    """Answer the last message anew; the old answer stays, and is not sent to the model any more."""
    with transaction.atomic():
        session, message = _last(session_key, user_id, message_id, MessageRole.ASSISTANT)
        return _answer(session, owner, request_id, replaces=message)


def resend(outgoing: Outgoing, message_id: str, owner: Owner) -> Started:
    """Send the last message with another text; it and its answers stay, and are not sent to the model any more."""
    with transaction.atomic():
        session, message = _last(outgoing.session_key, outgoing.user_id, message_id, MessageRole.USER)
        check_limits(outgoing.text)
        outgoing = replace(outgoing, context=message.context)
        return start_turn(session, outgoing, owner, None, queue_of(session), replaces=message)


def _last(session_key: str, user_id: int, message_id: str, role: MessageRole) -> tuple[ChatSession, ChatMessage]:
    """The session, locked and idle, and its last message of `role`, which must be the one that was meant."""
    session = own_session(session_key, user_id, lock=True)
    if not (message_id.isascii() and message_id.isdigit()) or len(message_id) > 18:
        raise NotFound("There is no such message in this session.")
    message = session.messages.filter(pk=int(message_id), role=role).first()
    if message is None:
        raise NotFound("There is no such message in this session.")
    if live_turn(session) is not None or is_promised(queue_of(session)):
        raise Conflict
    if session.messages.filter(role=role, pk__gt=message.pk).exists():
        raise Invalid("Only the last message of its kind can be answered or sent again.")
    return session, message


def _answer(
    session: ChatSession,
    owner: Owner,
    request_id: str,
    *,
    continues: ChatMessage | None = None,
    replaces: ChatMessage | None = None,
) -> Started:
    model = model_of(session, "", session.agent_role, owner)
    record = admit_execution(session, owner, model, request_id)
    answer = insert_answer(session, record, continues=continues, replaces=replaces)
    touch(session)
    return Started(session=session, record=record, answer=answer, user_message=None, queue=queue_of(session))
