"""What operators watch: the executions of all workers, how they ended, how much runs and waits for whom, and the holds.

Read from the ledger at each poll while anyone watches, and told whole when it has changed. Nothing is written for it.
"""

import logging
from datetime import timedelta

from django.db.models import Count, F, Sum, Value
from django.db.models.functions import Coalesce, Now, NullIf

from chat.queue import queued
from kernel import lanes, objects
from kernel.hub import Hub, hub
from kernel.models import ExecutionRecord, Hold
from kernel.objects import Object
from kernel.worker import ThisWorker, on_poll

logger = logging.getLogger(__name__)

# Every worker reads for its own readers.
TOPIC = f"{Hub.LOCAL}executions"
SHOWN_MAX = 500
# What had been shown live is shown with its end for so long.
ENDED_SHOWN = timedelta(seconds=60)


class LiveList:
    """What this worker's readers were last told, and the ids of what was shown in it."""

    def __init__(self) -> None:
        self._told: Object | None = None
        self._shown: frozenset[str] = frozenset()
        self._reading = False

    def poll(self, worker: ThisWorker) -> None:
        """Read the list if anyone watches it."""
        if hub.listeners(TOPIC) and not self._reading:
            self._reading = True
            worker.spawn(self._tell(), "live-list")

    async def look(self) -> Object:
        """The list as it is now."""
        fields = await lanes.reads.run(read, self._shown)
        self._shown = frozenset(row["id"] for row in (*fields["executions"], *fields["ended"]))
        return fields

    async def _tell(self) -> None:
        try:
            fields = await self.look()
        except lanes.FAILURES:
            logger.exception("The live list could not be read; trying again.", extra={"action": "live_list"})
            return
        finally:
            self._reading = False
        if fields != self._told:
            self._told = fields
            hub.publish_here(TOPIC, {"type": "studio_chat_executions", **fields})


def read(shown: frozenset[str] = frozenset()) -> Object:
    """The live executions of every worker, newest first, and those of `shown` that have ended lately."""
    rows = ExecutionRecord.objects.select_related("user", "worker").order_by("-started_at")
    executions = [objects.execution(row) for row in rows.stoppable()[:SHOWN_MAX]]
    gone = shown.difference(row["id"] for row in executions)
    ended = rows.filter(pk__in=gone, finished_at__gte=Now() - ENDED_SHOWN) if gone else []
    holds = Hold.objects.active().select_related("scope_user").order_by("at")
    return {
        "executions": executions,
        "ended": [_ended(row) for row in ended],
        "groups": _groups(),
        "holds": [objects.hold(hold) for hold in holds],
    }


def _ended(record: ExecutionRecord) -> Object:
    end = {"timeoutKind": record.timeout_kind or None, "error": record.error or None, "reason": record.why or None}
    return {**objects.execution(record), **end}


def _groups() -> list[Object]:
    """What runs and what waits, by person and model: however many there are, the sums are whole."""
    groups: dict[tuple[str | None, str], Object] = {}

    def group(user: str | None, model: str) -> Object:
        empty = {"live": 0, "waiting": 0, "inputTokens": 0, "outputTokens": 0, "costUsd": None}
        return groups.setdefault((user, model), {"user": user, "model": model, **empty})

    live = ExecutionRecord.objects.stoppable().values(person=F("user__username"), answers=F("model"))
    for row in live.annotate(n=Count("pk"), tin=Sum("input_tokens"), out=Sum("output_tokens"), cost=Sum("cost_usd")):
        sums = {"live": row["n"], "inputTokens": row["tin"], "outputTokens": row["out"], "costUsd": row["cost"]}
        group(row["person"], row["answers"]).update(sums)
    answers = Coalesce(NullIf("model", Value("")), "session__model")
    for item in queued().values(person=F("session__user__username"), answers=answers).annotate(n=Count("pk")):
        group(item["person"], item["answers"]).update(waiting=item["n"])
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0] or "", key[1]))]


live_list = LiveList()


def attach() -> None:
    """Have the list read at every poll. Doing it again changes nothing."""
    if live_list.poll not in on_poll:
        on_poll.append(live_list.poll)
