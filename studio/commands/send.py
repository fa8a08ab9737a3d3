"""Sending: a message, a queued one now, an answer again."""

import functools

from chat import again
from chat.admission import Outgoing, Owner, Queued, Repeated, Started
from chat.models import QueuedMessage
from chat.people import Person
from chat.queue import SentNow
from kernel.control import CONFIRM_S
from studio.commands.visit import Fields, Visit, later
from studio.protocol import Continue, Regenerate, Resend, Send, SendNow


async def send(visit: Visit, command: Send) -> None:
    outgoing = Outgoing(
        session_key=command.sessionKey,
        user_id=visit.person.id,
        user_name=visit.person.name,
        text=command.text,
        client_message_id=command.clientMessageId or "",
        request_id=command.requestId or "",
        role_id=command.roleId,
        model=command.model or "",
        context=command.context.fields() if command.context else None,
        interrupted=command.interrupted,
    )
    await visit.turns.send(outgoing, command.whenBusy, functools.partial(_on_sent, visit, command))


def _on_sent(visit: Visit, command: Send, admitted: Started | Queued | Repeated) -> None:
    """Reply, and follow the session, before its first event."""
    visit.follow(admitted.session)
    key: Fields = {"sessionKey": command.sessionKey}
    match admitted:
        case Started():
            assert admitted.user_message is not None  # a send always has one
            ids = {"messageId": str(admitted.user_message.pk), "executionId": str(admitted.record.pk)}
            visit.reply(command, {**key, "queued": False, **ids})
        case Queued(interrupts=None):
            visit.reply(command, {**key, "queued": True, "queueId": str(admitted.item.pk)})
        case Queued():
            later(visit, command, _interrupted(visit, command, admitted.item, key))
        case Repeated(message=None, item=QueuedMessage(promoted=True) as item):
            later(visit, command, _interrupted(visit, command, item, key))
        case Repeated(message=None):
            assert admitted.item is not None  # one of the two was found
            visit.reply(command, {**key, "queued": True, "queueId": str(admitted.item.pk)})
        case Repeated():
            assert admitted.message is not None  # the case above
            message = admitted.message
            told: Fields = {"messageId": str(message.pk), "executionId": str(message.execution_id)}
            if message.queued_as is not None and message.interrupted_previous:
                told["interrupted"] = True
            visit.reply(command, {**key, "queued": False, **told})


async def _interrupted(visit: Visit, command: Send | SendNow, item: QueuedMessage, fields: Fields) -> None:
    """Reply to a send that interrupts: with the new turn if it starts in time, else that it will."""
    started = await visit.turns.started_from(item.pk, CONFIRM_S)
    fields = {**fields, "interrupted": True}
    if isinstance(command, Send):
        fields["queued"] = False
    if started is not None:
        fields |= started
    visit.reply(command, fields)


async def send_now(visit: Visit, command: SendNow) -> None:
    person = visit.person
    await visit.turns.send_now(
        command.sessionKey, person.id, person.name, command.queueId, functools.partial(_on_sent_now, visit, command)
    )


def _on_sent_now(visit: Visit, command: SendNow, sent: SentNow) -> None:
    key: Fields = {"sessionKey": command.sessionKey}
    if sent.started is not None:
        visit.reply(command, {**key, "interrupted": False, "executionId": str(sent.started.record.pk)})
    elif sent.sent is not None:
        message = sent.sent
        told = {"interrupted": message.interrupted_previous, "executionId": str(message.execution_id)}
        visit.reply(command, {**key, **told})
    else:
        assert sent.item is not None  # busy: the item waits for the end that it caused
        later(visit, command, _interrupted(visit, command, sent.item, key))


async def answer_again(visit: Visit, command: Continue | Regenerate | Resend) -> None:
    admit = functools.partial(_admit_again, command, visit.person)

    def on_admitted(started: Started) -> None:
        visit.follow(started.session)
        ids = {"executionId": str(started.record.pk)}
        if started.user_message is not None:
            ids["messageId"] = str(started.user_message.pk)
        visit.reply(command, {"sessionKey": command.sessionKey, **ids})

    await visit.turns.start(command.sessionKey, visit.person.id, admit, on_admitted)


def _admit_again(command: Continue | Regenerate | Resend, person: Person, owner: Owner) -> Started:
    key, message_id, request_id = command.sessionKey, command.messageId, command.requestId or ""
    match command:
        case Continue():
            return again.continue_answer(key, person.id, message_id, request_id, owner)
        case Regenerate():
            return again.regenerate(key, person.id, message_id, request_id, owner)
        case Resend():
            outgoing = Outgoing(
                session_key=key, user_id=person.id, user_name=person.name, text=command.text, request_id=request_id
            )
            return again.resend(outgoing, message_id, owner)
