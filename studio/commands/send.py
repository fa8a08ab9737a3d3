"""Sending: a message, a queued one now, an answer again."""

import functools

from chat import again
from chat.admission import Outgoing, Owner, Queued, Repeated, Started
from chat.models import ChatMessage, QueuedMessage
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
        case Queued(item=QueuedMessage(promoted=True) as item) | Repeated(item=QueuedMessage(promoted=True) as item):
            later(visit, command, _interrupted(visit, command, item, key))
        case Queued(item=QueuedMessage() as item) | Repeated(item=QueuedMessage() as item):
            visit.reply(command, {**key, "queued": True, "queueId": str(item.pk)})
        case Repeated():
            message = admitted.message
            assert message is not None  # it is either queued or sent
            told: Fields = {"messageId": str(message.pk), **_execution_of(message)}
            if message.interrupting:
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
        command.sessionKey,
        person.id,
        person.name,
        command.queueId,
        functools.partial(_on_sent_now, visit, command),
        command.clientMessageId or "",
    )


def _on_sent_now(visit: Visit, command: SendNow, sent: SentNow) -> None:
    key: Fields = {"sessionKey": command.sessionKey}
    if sent.item is not None:  # busy: it waits for the end that it caused
        later(visit, command, _interrupted(visit, command, sent.item, key))
        return
    message = sent.started.user_message if sent.started else sent.sent
    assert message is not None  # it was sent, now or before
    visit.reply(command, {**key, "interrupted": sent.interrupted, **_execution_of(message)})


def _execution_of(message: ChatMessage) -> Fields:
    """The execution that answers the message, while the ledger keeps it."""
    return {"executionId": str(message.execution_id)} if message.execution_id else {}


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
