"""What a person may do, asked anew for each command that needs it."""

import asyncio
import logging

from chat import people
from chat.people import Person
from kernel import lanes

logger = logging.getLogger(__name__)

# The database is asked for this long at most; then what was last known counts, so that a panic is never held up by it.
PERMISSION_S = 0.5


async def with_permissions(person: Person) -> Person:
    """The person with the permissions of now; if the database does not answer, with those that were last known."""
    try:
        async with asyncio.timeout(PERMISSION_S):
            return await lanes.control.run(people.with_permissions, person)
    except (*lanes.FAILURES, TimeoutError):
        logger.warning("A person's permissions could not be read in time; the last known ones count.")
        return person
