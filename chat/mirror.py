"""Turns of other workers, as their rows tell of them: the net under the bus.

At each poll, one look at the sessions that somebody here follows and that run elsewhere. Their ends are always told,
since a frame of the bus may be lost. While no broker is heard, so are their growing answers and queues, whole, at the
poll's pace. All of it comes without a number (`seq` null): it replaces what the reader has.
"""

import logging
import uuid
from dataclasses import dataclass, field

from chat import objects
from chat.ends import read_end, unnumbered
from chat.live import SESSION_TOPIC, session_topic
from chat.models import ChatMessage, ChatSession, QueuedMessage
from kernel import lanes
from kernel.hub import hub
from kernel.models import ExecutionRecord
from kernel.worker import ThisWorker

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Seen:
    """What was read of the sessions that are followed here: running turns by execution, messages, queues."""

    running: dict[str, int] = field(default_factory=dict)
    messages: dict[int, tuple[int, objects.Object]] = field(default_factory=dict)
    queues: dict[int, list[objects.Object]] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)


class Mirror:
    """Tells the readers of this worker what they would otherwise not hear."""

    def __init__(self, worker: ThisWorker):
        self._worker = worker
        self._seen = Seen()
        self._looking = False

    def poll(self) -> None:
        """Start a look, unless the last one is still under way or nobody follows anything."""
        followed = [int(topic.removeprefix(SESSION_TOPIC)) for topic in hub.topics(SESSION_TOPIC)]
        if (followed or self._seen.running) and not self._looking:
            self._looking = True
            self._worker.spawn(self._look(followed), "mirror")

    async def _look(self, followed: list[int]) -> None:
        try:
            whole = not self._worker.bus.hears
            seen = await lanes.writes.run(_read, followed, self._worker.id, whole)
            before, self._seen = self._seen, seen
            for execution_id in before.running.keys() - seen.running.keys():
                end = await lanes.control.run(read_end, execution_id)
                for frame in unnumbered(end) if end is not None else ():
                    _tell(before.running[execution_id], frame)
            if whole:
                self._tell_changes(before, seen)
        except lanes.FAILURES:
            logger.exception("The turns of other workers could not be read; trying again.", extra={"action": "mirror"})
        finally:
            self._looking = False

    def _tell_changes(self, before: Seen, seen: Seen) -> None:
        for message_id, (session_id, message) in seen.messages.items():
            if before.messages.get(message_id) != (session_id, message):
                envelope = {"sessionKey": message["sessionKey"], "executionId": message["executionId"], "seq": None}
                _tell(session_id, {"type": "studio_chat_message", **envelope, "message": message})
        for session_id, rows in seen.queues.items():
            if session_id in before.queues and before.queues[session_id] != rows:
                _tell(session_id, {"type": "studio_chat_queue", "sessionKey": seen.keys[session_id], "queue": rows})


def _tell(session_id: int, data: objects.Object) -> None:
    """Tell the readers of this worker only: the others look for themselves."""
    hub.publish_here(session_topic(session_id), data)


def _read(followed: list[int], worker_id: uuid.UUID, whole: bool) -> Seen:
    """The running turns of other workers in these sessions; with `whole`, their messages and all queues too."""
    seen = Seen(keys=dict(ChatSession.objects.filter(pk__in=followed).values_list("pk", "key")))
    elsewhere = ExecutionRecord.objects.live().turns().exclude(worker_id=worker_id)
    ids_by_key = {key: pk for pk, key in seen.keys.items()}
    for pk, key in elsewhere.filter(session_key__in=ids_by_key).values_list("pk", "session_key"):
        seen.running[str(pk)] = ids_by_key[key]
    if whole:
        rows = ChatMessage.objects.filter(execution__in=list(seen.running)).select_related("execution").order_by("id")
        for row in rows:
            seen.messages[row.pk] = (row.session_id, objects.message(row, seen.keys[row.session_id]))
        queues: dict[int, list[QueuedMessage]] = {pk: [] for pk in seen.keys}
        for item in QueuedMessage.objects.filter(session__in=followed).in_order():
            queues[item.session_id].append(item)
        seen.queues = {pk: objects.queue(items) for pk, items in queues.items()}
    return seen
