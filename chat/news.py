"""What the readers of a session are told, and what its transcript keeps, at each change that is not an answer's own.

Called on the event loop, after what is told is in the database.
"""

from chat import objects, transcript
from chat.admission import Started
from chat.ends import End, unnumbered
from chat.live import LiveTurn, session_topic, user_topic
from chat.models import ChatSession, QueuedMessage
from kernel.hub import hub


def tell_begin(started: Started, turn: LiveTurn) -> None:
    """The new messages of a turn, as its first numbered events, and the queue without what was taken from it."""
    for row in (started.user_message, started.answer):
        if row is not None:
            row.execution = started.record
            message = objects.message(row, started.session.key)
            turn.publish("message", {"message": message})
            _transcribe(message, started.session, len(started.queue), running=True)
    tell_queue(started.session, started.queue, running=True)


def tell_end(end: End, turn: LiveTurn | None, *, next_runs: bool) -> None:
    """A turn's end: numbered by the turn that ran here, or whole where it did not.

    If the `next_runs` here already (it may begin as soon as the end is written), the session was told of with it.
    """
    message = objects.message(end.answer, end.session.key)
    if turn is not None:
        turn.publish("message", {"message": message})
        turn.publish("result", objects.result(end.record, end.answer))
    else:
        for frame in unnumbered(end):
            hub.publish(session_topic(end.session.pk), frame)
    if not next_runs:
        tell_session(end.session, end.queue_length, running=False)
    _transcribe(message, end.session, end.queue_length, running=next_runs)


def tell_queue(session: ChatSession, rows: list[QueuedMessage], *, running: bool) -> None:
    """The whole queue, and the session whose length of it has changed."""
    frame = {"type": "studio_chat_queue", "sessionKey": session.key, "queue": objects.queue(rows)}
    hub.publish(session_topic(session.pk), frame)
    tell_session(session, len(rows), running=running)


def tell_session(session: ChatSession, queue_length: int, *, running: bool) -> objects.Object:
    """The session's state, also to its owner's other sockets; return the object that tells it."""
    warnings = transcript.warnings(session.key)
    shown = objects.session(session, running=running, queue_length=queue_length, warnings=warnings)
    _tell_session(session, shown)
    return shown


def tell_deleted(session: ChatSession) -> None:
    _tell_session(session, {"key": session.key, "deleted": True})


def _tell_session(session: ChatSession, shown: objects.Object) -> None:
    frame = {"type": "studio_chat_session", "sessionKey": session.key, "session": shown}
    hub.publish([session_topic(session.pk), user_topic(session.user_id)], frame)


def _transcribe(message: objects.Object, session: ChatSession, queue_length: int, *, running: bool) -> None:
    """Keep the message in the transcript; if that begins or ceases to fail, the session says so."""
    before = transcript.warnings(session.key)

    def done(_: object) -> None:
        if transcript.warnings(session.key) != before:
            tell_session(session, queue_length, running=running)

    transcript.append(message).add_done_callback(done)
