"""A person's sessions: the snapshot of one, the list, rename, delete."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery

from chat import objects, search, transcript
from chat.admission import own_session, queue_of
from chat.errors import Invalid, NotFound
from chat.live import Live
from chat.models import ChatMessage, ChatSession
from kernel.models import ExecutionRecord, Hold

TITLE_MAX_CHARS = 200
# A search reads the texts of so many sessions, the latest; all titles.
SEARCHED_SESSIONS = 1000


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What a reader needs to show a session; the events that follow continue it."""

    session: ChatSession
    messages: list[ChatMessage]
    queue: list[dict[str, Any]]
    holds: list[dict[str, Any]]
    running: bool

    @property
    def streaming(self) -> ChatMessage | None:
        return next((row for row in reversed(self.messages) if row.status == "streaming"), None)

    def fields(self, live: Live | None) -> dict[str, Any]:
        """The fields of the reply to `subscribe`, the running answer as its owner has it in memory."""
        messages = [objects.message(row, self.session.key) for row in self.messages]
        if live is not None:
            for message in messages:
                if message["id"] == live["active"]["messageId"]:
                    message |= {"parts": live["parts"], "text": live["text"]}
        return {
            "sessionKey": self.session.key,
            "session": objects.session(
                self.session,
                running=live is not None or self.running,
                queue_length=len(self.queue),
                warnings=transcript.warnings(self.session.key),
            ),
            "messages": messages,
            "queue": self.queue,
            "active": live["active"] if live else self._elsewhere(),
            "holds": self.holds,
        }

    def _elsewhere(self) -> dict[str, Any] | None:
        """The running turn of another worker, as far as its rows tell."""
        row = self.streaming
        if row is None or not self.running:
            return None
        return {"executionId": str(row.execution_id), "messageId": str(row.pk), "seq": 0, "progress": None}


def snapshot(session_key: str, user_id: int, limit: int, before: str | None) -> Snapshot:
    """Read the session's last `limit` messages (before the message `before`). Raises `NotFound`.

    Not one moment's picture: what changes between the reads is told by the events that follow.
    """
    session = own_session(session_key, user_id)
    rows = session.messages.select_related("execution").order_by("-id")
    if before is not None:
        if not (before.isascii() and before.isdigit()) or not session.messages.filter(pk=before[:18]).exists():
            raise NotFound("There is no such message in this session.")
        rows = rows.filter(pk__lt=int(before))
    return Snapshot(
        session=session,
        messages=list(rows[:limit])[::-1],
        queue=objects.queue(queue_of(session)),
        holds=holds_over(user_id),
        running=ExecutionRecord.objects.live().turns().of_session(session_key).exists(),
    )


def holds_over(user_id: int) -> list[dict[str, Any]]:
    """The active holds that may affect this person: over everything, over them, over a model."""
    rows = Hold.objects.active().filter(Q(scope_user=None) | Q(scope_user_id=user_id))
    return [objects.hold(row) for row in rows.select_related("scope_user").order_by("at")]


def listing(user_id: int, query: str | None, before: str | None, limit: int) -> list[dict[str, Any]]:
    """The person's sessions, newest first, after the session with the key `before`. Raises `NotFound`, `TooLong`.

    With `query` only those that say it in their title or their texts, with an `excerpt` of the latest text that does.
    """
    live = ExecutionRecord.objects.live().turns().filter(session_key=OuterRef("key"))
    rows = ChatSession.objects.filter(user_id=user_id).order_by("-updated_at", "-id")
    if query:
        rows = _saying(rows, query)
    if before is not None:
        last = own_session(before, user_id)
        rows = rows.filter(Q(updated_at__lt=last.updated_at) | Q(updated_at=last.updated_at, pk__lt=last.pk))
    rows = rows.annotate(running=Exists(live), waiting=Count("queue"))[:limit]
    with search.bounded() if query else nullcontext():
        return [_listed(row, query) for row in rows]


def _saying(rows: QuerySet[ChatSession], query: str) -> QuerySet[ChatSession]:
    said = ChatMessage.objects.filter(session=OuterRef("pk"), text__says=query)
    latest = rows.values("pk")[:SEARCHED_SESSIONS]
    rows = rows.filter(Q(title__says=query) | (Q(pk__in=latest) & Q(Exists(said))))
    return rows.annotate(said=Subquery(said.order_by("-id").values("text")[:1]))


def _listed(row: Any, query: str | None) -> dict[str, Any]:
    shown = objects.session(row, running=row.running, queue_length=row.waiting, warnings=transcript.warnings(row.key))
    return shown | {"excerpt": search.excerpt(row.said or "", query)} if query else shown


def rename(session_key: str, user_id: int, title: str) -> ChatSession:
    """Give the session a title. Raises `NotFound`, `Invalid`."""
    with transaction.atomic():
        session = own_session(session_key, user_id, lock=True)
        title = " ".join(title.split())
        if not title or len(title) > TITLE_MAX_CHARS:
            raise Invalid(f"A title has 1 to {TITLE_MAX_CHARS} characters.")
        session.title = title
        session.save(update_fields=["title"])
        return session


def delete(session_key: str, user_id: int) -> ChatSession:
    """Delete the session, its messages and its queue; the ledger keeps its executions. Raises `NotFound`, `Invalid`."""
    with transaction.atomic():
        session = own_session(session_key, user_id, lock=True)
        if ExecutionRecord.objects.stoppable().of_session(session_key).exists():
            raise Invalid("The session's run has not ended yet. Try again in a moment.")
        pk = session.pk
        session.delete()
        session.pk = pk  # the topic of those who watch it
        return session
