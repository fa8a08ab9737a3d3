"""A stop of another person's session is refused as if there were none, and noted for operators."""

import pytest
from django.contrib.auth.models import User

from chat import stopping
from chat.errors import NotFound
from chat.models import ChatSession
from chat.people import Person
from kernel.audit import AuditEntry
from kernel.worker import this_worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def bob() -> Person:
    ann = User.objects.create_user("ann")
    ChatSession.objects.create(key="hers", user=ann)
    user = User.objects.create_user("bob")
    return Person(id=user.pk, name="bob")


async def refuse(person: Person, key: str) -> None:
    with pytest.raises(NotFound):
        await stopping.order_stop(this_worker(), person, key, source="web")


async def test_it_is_noted_once_however_often_it_is_tried(bob: Person) -> None:
    for _ in range(3):
        await refuse(bob, "hers")
    noted = [(entry.verb, entry.by, entry.target, entry.refused) async for entry in AuditEntry.objects.all()]
    assert noted == [("stop", "bob", "session hers", True)]


async def test_a_session_that_is_not_there_is_no_order_of_anyone(bob: Person) -> None:
    await refuse(bob, "nobodys")
    assert not await AuditEntry.objects.aexists()
