"""Sessions, messages and queues for tests."""

import uuid
from typing import Any

from django.contrib.auth.models import User

from chat.admission import Outgoing, Owner, Queued, Started, admit
from chat.models import ChatSession, QueuedMessage
from kernel.models import ExecutionRecord
from kernel.runner import Outcome
from tests.kernel.rows import COMPLETED, make_worker


def make_user(name: str = "ann") -> User:
    return User.objects.get_or_create(username=name)[0]


def owner(worker_id: uuid.UUID | None = None) -> Owner:
    """Who will run the next turn: a worker with a valid lease."""
    return Owner(execution_id=str(uuid.uuid4()), worker_id=worker_id or make_worker().pk, default_model="demo/scripted")


def outgoing(text: str = "hello", *, key: str = "s", user: str = "ann", **more: Any) -> Outgoing:
    return Outgoing(session_key=key, user_id=make_user(user).pk, user_name=user, text=text, **more)


def start(text: str = "hello", *, by: Owner | None = None, **more: Any) -> Started:
    """A turn that runs, as far as the ledger knows."""
    started = admit(outgoing(text, **more), by or owner(), "queue")
    assert isinstance(started, Started)
    return started


def enqueue(text: str, **more: Any) -> QueuedMessage:
    """A message that waits for the session's running turn."""
    queued = admit(outgoing(text, **more), owner(), "queue")
    assert isinstance(queued, Queued)
    return queued.item


def settle(started: Started, outcome: Outcome = COMPLETED, work: Any = None) -> None:
    record = started.record
    assert ExecutionRecord.objects.settle(str(record.pk), outcome, record.worker_id, work)


def texts(session: ChatSession) -> list[str]:
    """The queue as it stands."""
    return [item.text for item in session.queue.in_order()]
