"""The live list of executions, for operators who watch it: read from the ledger at each poll, told when it changed."""

import logging

from kernel import lanes, objects
from kernel.hub import Hub, hub
from kernel.models import ExecutionKind, ExecutionRecord
from kernel.worker import ThisWorker, on_poll

logger = logging.getLogger(__name__)

# Every worker reads for its own readers.
TOPIC = f"{Hub.LOCAL}executions"
SHOWN_MAX = 500


class LiveList:
    """What this worker's readers were last told."""

    def __init__(self) -> None:
        self._told: list[objects.Object] | None = None
        self._reading = False

    def poll(self, worker: ThisWorker) -> None:
        """Read the list if anyone watches it."""
        if hub.listeners(TOPIC) and not self._reading:
            self._reading = True
            worker.spawn(self._read(), "live-list")

    async def _read(self) -> None:
        try:
            executions = await lanes.reads.run(read)
        except lanes.FAILURES:
            logger.exception("The live list could not be read; trying again.", extra={"action": "live_list"})
            return
        finally:
            self._reading = False
        if executions != self._told:
            self._told = executions
            hub.publish_here(TOPIC, {"type": "studio_chat_executions", "executions": executions})


def read() -> list[objects.Object]:
    """The live executions of every worker, newest first."""
    rows = ExecutionRecord.objects.live().exclude(kind=ExecutionKind.DRILL).select_related("user", "worker")
    return [objects.execution(row) for row in rows.order_by("-started_at")[:SHOWN_MAX]]


live_list = LiveList()


def attach() -> None:
    """Have the list read at every poll. Doing it again changes nothing."""
    if live_list.poll not in on_poll:
        on_poll.append(live_list.poll)
