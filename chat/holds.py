"""Telling everyone who is connected which holds affect them, on every worker: at once by the bus, else by the poll.

A hold may be made or released at another worker, in the admin or on the command line; the rows tell of all alike.
"""

import logging
import uuid

from chat import objects, sessions
from chat.live import USER_TOPIC
from kernel import lanes
from kernel.hub import hub
from kernel.models import Hold
from kernel.worker import ThisWorker

logger = logging.getLogger(__name__)

# Where workers tell each other to look; the news itself is in the rows.
TOPIC = "holds"


def changed() -> None:
    """Holds have been made or released here: have every worker look."""
    hub.publish(TOPIC, {"type": "holds"})


class HoldNews:
    """What the people connected to this worker have been told of the active holds."""

    def __init__(self, worker: ThisWorker):
        self._worker = worker
        self._told: set[uuid.UUID] | None = None
        self._looking = self._again = False

    def look(self) -> None:
        """Start a look, unless nobody is connected; one that is under way is followed by another."""
        if self._looking:
            self._again = True
        elif hub.topics(USER_TOPIC):
            self._looking = True
            self._worker.spawn(self._look(), "holds")

    async def _look(self) -> None:
        try:
            active = await lanes.reads.run(_active)
            if active != self._told:
                await self._tell()
                self._told = active
        except lanes.FAILURES:
            logger.exception("The holds could not be read; trying again.", extra={"action": "holds"})
        finally:
            self._looking = False
        if self._again:
            self._again = False
            self.look()

    async def _tell(self) -> None:
        for topic in hub.topics(USER_TOPIC):
            user_id = int(topic.removeprefix(USER_TOPIC))
            shown: list[objects.Object] = await lanes.reads.run(sessions.holds_over, user_id)
            hub.publish_here(topic, {"type": "studio_chat_hold", "holds": shown})


def _active() -> set[uuid.UUID]:
    return set(Hold.objects.active().values_list("pk", flat=True))
