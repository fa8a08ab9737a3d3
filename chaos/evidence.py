"""All that is to be seen of a round that has come to rest: rows, the provider's records, frames, logs, transcripts."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chaos.journal import Disturbance, Journal
from chaos.people import People
from chaos.plan import LEASE_S
from chaos.stage import Stage
from tests.client import Frame, StudioClient
from tests.processes.harness import Row, Studio
from tests.provider import Record
from tests.provider_script import DIRECTIVE, text_of

ID = re.compile(r"\bid=(\w+)")
# A run may have been lost to a fault that began this long before its end.
BEFORE_END_S = 4 * LEASE_S

EXECUTIONS = """
    SELECT e.*, w.pid FROM kernel_executionrecord e LEFT JOIN kernel_worker w ON w.id = e.worker_id
    WHERE e.started_at >= ? ORDER BY e.started_at
"""
MESSAGES = """
    SELECT m.*, s.key FROM chat_chatmessage m JOIN chat_chatsession s ON s.id = m.session_id ORDER BY m.id
"""
QUEUE = "SELECT q.*, s.key FROM chat_queuedmessage q JOIN chat_chatsession s ON s.id = q.session_id"


@dataclass(kw_only=True)
class Execution:
    """One row of the ledger that began in this round, with its answer and the requests it may have made."""

    row: Row
    answer: Row | None
    requests: list[Record]
    began_s: float  # when its transaction began; it may have been let in only later
    known_s: float | None  # when the first socket heard of it
    ended_s: float | None  # when the transaction that ended it began
    told_s: float | None  # when the first socket heard of that

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def key(self) -> str:
        return self.row["session_key"]

    def lived_in(self, from_s: float, until_s: float) -> bool:
        """Whether it may have been alive at any time between these: until its end was told, its owner was at work."""
        if self.ended_s is None or self.told_s is None:
            return self.began_s <= until_s
        return self.began_s <= until_s and max(self.ended_s, self.told_s) >= from_s

    def lived_through(self, from_s: float, until_s: float) -> bool:
        """Whether it was alive all the time between these."""
        known = self.known_s is not None and self.known_s < from_s
        return known and (self.ended_s is None or self.ended_s > until_s)

    @property
    def of_owner(self) -> bool:
        """Whether its owner wrote its end, with all that it had in memory; only an owner knows how long it took."""
        return self.row["duration_ms"] is not None

    def __str__(self) -> str:
        told = {name: self.row[name] for name in ("status", "abort_reason", "intent", "error", "pid") if self.row[name]}
        return f"execution {self.id} of {self.key} {told} from {self.began_s:.3f} to {self.ended_s or 0:.3f}"


@dataclass(kw_only=True)
class Evidence:
    journal: Journal
    executions: list[Execution]
    messages: Sequence[Row]
    queue: Sequence[Row]
    audit: Sequence[Row]
    users: dict[str, int]
    records: list[tuple[Record, str]]  # with the session's key; empty if no message names it
    clients: list[StudioClient]
    workers: list[Studio]
    offset_s: float  # from the monotonic clock, which frames and records carry, to the wall's
    lag_s: float  # how late this machine was, at worst

    def of_session(self, key: str) -> Iterator[Execution]:
        return (execution for execution in self.executions if execution.key == key)

    def of_user(self, person: str) -> Iterator[Execution]:
        return (execution for execution in self.executions if execution.row["user_id"] == self.users[person])

    def disturbed(self, execution: Execution) -> list[Disturbance]:
        """The faults that may have taken its owner from it, or its owner's database."""
        end_s = execution.ended_s or time.time()
        return [
            fault
            for fault in self.journal.disturbances
            if fault.kind in ("kill", "freeze", "freeze_long", "terminate", "postgres_restart")
            and fault.pid in (None, execution.row["pid"])
            and end_s - BEFORE_END_S < fault.began_s < end_s
        ]


async def gather(
    stage: Stage, journal: Journal, people: People, since: datetime, first_record: int, lag_s: float
) -> Evidence:
    """Read it all; nothing changes any more."""
    clients = [client for tab in people.all_tabs() for client in tab.clients]
    messages = await stage.rows(MESSAGES)
    answers = {row["execution_id"]: row for row in messages if row["role"] == "assistant"}
    offset_s = time.time() - time.monotonic()
    records = [(record, _session_of(record, journal)) for record in stage.provider.records[first_record:]]
    requests: dict[str, list[Record]] = defaultdict(list)
    for record, key in records:
        requests[key].append(record)
    known = _first_heard(clients, offset_s, lambda _: True)
    told = _first_heard(clients, offset_s, lambda frame: frame["type"] == "studio_chat_result")
    executions = [
        Execution(
            row=row,
            answer=answers.get(row["id"]),
            requests=requests[row["session_key"]],
            began_s=row["started_at"].timestamp(),
            known_s=known.get(str(row["id"])),
            ended_s=row["finished_at"].timestamp() if row["finished_at"] else None,
            told_s=told.get(str(row["id"])),
        )
        for row in await stage.rows(EXECUTIONS, since)
    ]
    return Evidence(
        journal=journal,
        executions=executions,
        messages=messages,
        queue=await stage.rows(QUEUE),
        audit=await stage.rows("SELECT * FROM kernel_auditentry WHERE at >= ?", since),
        users={row["username"]: row["id"] for row in await stage.rows("SELECT id, username FROM auth_user")},
        records=records,
        clients=clients,
        workers=stage.workers,
        offset_s=offset_s,
        lag_s=lag_s,
    )


def _first_heard(
    clients: list[StudioClient], offset_s: float, of_interest: Callable[[Frame], bool]
) -> dict[str, float]:
    """When such a frame first told of each execution."""
    heard: dict[str, float] = {}
    for client in clients:
        for frame, arrived_s in zip(client.frames, client.arrivals, strict=True):
            if (id_ := frame.get("executionId")) and of_interest(frame):
                heard[id_] = min(heard.get(id_, arrived_s + offset_s), arrived_s + offset_s)
    return heard


def names_in(text: str) -> list[str]:
    """The names of the provider's requests that a message orders."""
    return [name for words in DIRECTIVE.findall(text) for name in ID.findall(words)]


def _session_of(record: Record, journal: Journal) -> str:
    """The session whose history the request tells: the last message of it that has a name."""
    named = [name for message in _said(record) for name in names_in(text_of(message.get("content")))]
    return journal.key_of.get(named[-1], "") if named else ""


def _said(record: Record) -> list[dict[str, Any]]:
    return [message for message in record.messages if message.get("role") == "user"]
