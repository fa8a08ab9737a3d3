"""Turns of other workers, as their rows tell of them: the net under the bus.

At each poll, one look at the sessions that somebody here follows. What ended there elsewhere is always told, since a
frame of the bus may be lost; readers drop what they know. So are queues and the sessions themselves, whole, when they
have changed: at the poll's pace while no broker is heard, else every few seconds. While none is heard, growing answers
are told too. All of it comes without a number (`seq` null): it replaces what the reader has. Holds are looked after in
the same way (chat.holds).
"""

import logging
import time
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.functions import Now

from chat import objects, transcript
from chat.ends import End, read_foreign_end, unnumbered
from chat.holds import HoldNews
from chat.live import SESSION_TOPIC, session_topic
from chat.models import ChatMessage, ChatSession, QueuedMessage
from kernel import lanes
from kernel.hub import Frame, hub
from kernel.models import ExecutionRecord
from kernel.worker import ThisWorker

logger = logging.getLogger(__name__)

# An end is looked for this long after its time: it can be read only when its transaction has been committed.
LATE_COMMIT_S = 5.0
# While a broker is heard, queues and sessions are read this often: no number, whose hole would tell a loss, is on them.
NET_S = 3.0
# Ends that are remembered as told; more than can happen in that time.
TOLD_MAX = 4096

# Where it is told, and what.
News = tuple[int, objects.Object]


@dataclass(kw_only=True)
class Seen:
    """What one look has read of the followed sessions (key by id): messages of other workers' turns, queues, ends."""

    keys: dict[int, str] = field(default_factory=dict)
    messages: dict[int, News] = field(default_factory=dict)
    queues: dict[int, list[objects.Object]] = field(default_factory=dict)
    sessions: dict[int, objects.Object] = field(default_factory=dict)
    ends: list[End] = field(default_factory=list)

    def keep_state(self, before: "Seen") -> None:
        """Queues and sessions were not read this time: what was seen of them before stands."""
        self.queues = {pk: rows for pk, rows in before.queues.items() if pk in self.keys}
        self.sessions = {pk: shown for pk, shown in before.sessions.items() if pk in self.keys}


class Mirror:
    """Tells the readers of this worker what they would otherwise not hear."""

    def __init__(self, worker: ThisWorker):
        self.holds = HoldNews(worker)
        self._worker = worker
        self._seen = Seen()
        self._told: deque[str] = deque(maxlen=TOLD_MAX)
        self._polled_s = time.monotonic()
        self._net_s = 0.0  # when queues and sessions were last read
        self._looking = False

    def poll(self) -> None:
        """Start a look, unless the last one is still under way or nobody follows anything."""
        hub.on_deliver = self._hear
        self.holds.look()
        if self._looking:
            return
        since_s, self._polled_s = time.monotonic() - self._polled_s, time.monotonic()
        followed = [int(topic.removeprefix(SESSION_TOPIC)) for topic in hub.topics(SESSION_TOPIC)]
        if not followed:
            self._seen = Seen()
            return
        self._looking = True
        self._worker.spawn(self._look(followed, since_s), "mirror")

    async def _look(self, followed: list[int], since_s: float) -> None:
        """`since_s` is how long ago the last poll was: who was not followed then has seen everything before."""
        try:
            alone = not self._worker.bus.hears
            net = alone or time.monotonic() - self._net_s > NET_S
            known = [pk for pk in followed if pk in self._seen.keys]
            told = list(self._told)
            seen = await lanes.reads.run(_read, followed, known, since_s, told, self._worker.id, answers=alone, net=net)
            before, self._seen = self._seen, seen
            if net:
                self._net_s = time.monotonic()
            else:
                seen.keep_state(before)
            for session_id, frame in [*_changed_messages(before, seen), *self._ends(seen), *_changed(before, seen)]:
                # The readers of this worker only: the others look for themselves.
                hub.publish_here(session_topic(session_id), frame)
        except lanes.FAILURES:
            logger.exception("The turns of other workers could not be read; trying again.", extra={"action": "mirror"})
        finally:
            self._looking = False

    def _hear(self, topics: list[str], frame: Frame) -> None:
        """What readers here were told last is what the rows are compared with: a frame may also come too late."""
        kind = frame.data["type"]
        if kind not in ("studio_chat_queue", "studio_chat_session"):
            return
        for topic in topics:
            if topic.startswith(SESSION_TOPIC):
                pk = int(topic.removeprefix(SESSION_TOPIC))
                if kind == "studio_chat_queue":
                    self._seen.queues[pk] = frame.data["queue"]
                else:
                    self._seen.sessions[pk] = frame.data["session"]

    def _ends(self, seen: Seen) -> Iterator[News]:
        for end in seen.ends:
            self._told.append(str(end.record.pk))
            for frame in unnumbered(end):
                yield end.session.pk, frame


def _changed_messages(before: Seen, seen: Seen) -> Iterator[News]:
    for message_id, (session_id, message) in seen.messages.items():
        if before.messages.get(message_id) != (session_id, message):
            envelope = {"sessionKey": message["sessionKey"], "executionId": message["executionId"], "seq": None}
            yield session_id, {"type": "studio_chat_message", **envelope, "message": message}


def _changed(before: Seen, seen: Seen) -> Iterator[News]:
    """Queues and sessions; of those not followed before, all: they may have changed since their snapshot."""
    for session_id, rows in seen.queues.items():
        if before.queues.get(session_id) != rows:
            yield session_id, {"type": "studio_chat_queue", "sessionKey": seen.keys[session_id], "queue": rows}
    for session_id, shown in seen.sessions.items():
        if before.sessions.get(session_id) != shown:
            yield session_id, {"type": "studio_chat_session", "sessionKey": seen.keys[session_id], "session": shown}


def _read(
    followed: list[int],
    known: list[int],
    since_s: float,
    told: list[str],
    worker_id: uuid.UUID,
    *,
    answers: bool,
    net: bool,
) -> Seen:
    """What other workers do in these sessions: what has ended; with `answers`, what grows; with `net`, the rest."""
    seen = Seen(keys=dict(ChatSession.objects.filter(pk__in=followed).values_list("pk", "key")))
    elsewhere = ExecutionRecord.objects.turns().exclude(worker_id=worker_id)
    elsewhere = elsewhere.filter(session_key__in=list(seen.keys.values()))
    known_keys = [key for pk, key in seen.keys.items() if pk in known]
    fresh = Q(finished_at__gte=Now() - timedelta(seconds=since_s))
    late = Q(finished_at__gte=Now() - timedelta(seconds=since_s + LATE_COMMIT_S), session_key__in=known_keys)
    ended = list(elsewhere.filter(fresh | late).exclude(pk__in=told).values_list("pk", flat=True))
    if answers:
        running = list(elsewhere.live().values_list("pk", flat=True))
        seen.messages = _messages([*running, *ended], seen.keys)
    if net:
        seen.queues = _queues(seen.keys)
        seen.sessions = _sessions(seen.keys)
    seen.ends = [end for pk in ended if (end := read_foreign_end(str(pk))) is not None]
    return seen


def _messages(executions: list[uuid.UUID], keys: dict[int, str]) -> dict[int, News]:
    rows = ChatMessage.objects.filter(execution__in=executions, session__in=list(keys)).select_related("execution")
    return {row.pk: (row.session_id, objects.message(row, keys[row.session_id])) for row in rows.order_by("id")}


def _queues(keys: dict[int, str]) -> dict[int, list[objects.Object]]:
    queues: dict[int, list[QueuedMessage]] = {pk: [] for pk in keys}
    for item in QueuedMessage.objects.filter(session__in=list(keys)).in_order():
        queues[item.session_id].append(item)
    return {pk: objects.queue(items) for pk, items in queues.items()}


def _sessions(keys: dict[int, str]) -> dict[int, objects.Object]:
    live = ExecutionRecord.objects.live().turns().filter(session_key=OuterRef("key"))
    rows = ChatSession.objects.filter(pk__in=list(keys)).annotate(running=Exists(live), waiting=Count("queue"))
    return {
        row.pk: objects.session(
            row, running=row.running, queue_length=row.waiting, warnings=transcript.warnings(row.key)
        )
        for row in rows
    }
