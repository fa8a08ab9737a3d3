"""What a person may do, asked anew for each command that needs it."""

import asyncio
import logging
from dataclasses import replace

from django.contrib.auth import get_user_model

from chat.stopping import Person
from kernel import lanes
from studio.commands.visit import Visit

logger = logging.getLogger(__name__)

# The database is asked for this long at most; then what was last known counts, so that a stop is never held up by it.
PERMISSION_S = 0.5


async def with_permissions(visit: Visit) -> Person:
    """The visitor with the permissions of now; if the database does not answer, with those that were last known."""
    return await known_permissions(visit.person)


async def known_permissions(person: Person) -> Person:
    """The same, of a person."""
    try:
        async with asyncio.timeout(PERMISSION_S):
            return await lanes.control.run(_permissions, person)
    except (*lanes.FAILURES, TimeoutError):
        logger.warning("A person's permissions could not be read in time; the last known ones count.")
        return person


def _permissions(person: Person) -> Person:
    user = get_user_model().objects.filter(pk=person.id, is_active=True).first()
    return replace(
        person,
        may_panic=bool(user and user.has_perm("kernel.panic")),
        may_stop_any=bool(user and user.has_perm("kernel.stop_any_execution")),
    )
