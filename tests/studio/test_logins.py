"""A login is the same login for its sockets, however often its session's key changes."""

import asyncio
import functools
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from kernel.hub import Frame, hub
from studio import logins
from studio.logins import login_topic
from tests.waiting import READY_TIMEOUT_S


@pytest.fixture
def ann(db: Any) -> User:
    return User.objects.create_user("ann")


def log_in(client: Client) -> None:
    """As a login link does it, for somebody who may be logged in already."""
    client.force_login(User.objects.get(username="ann"))


def test_logging_in_again_changes_the_sessions_key_and_not_the_login(ann: User, client: Client) -> None:
    log_in(client)
    key, topic = client.session.session_key, login_topic(client.session)
    log_in(client)
    assert client.session.session_key != key
    assert login_topic(client.session) == topic


def test_two_browsers_are_two_logins(ann: User, client: Client) -> None:
    other = Client()
    log_in(client)
    log_in(other)
    assert login_topic(client.session) != login_topic(other.session)


@pytest.mark.django_db(transaction=True)
async def test_a_logout_is_told_to_the_sockets_of_an_earlier_login_in_the_same_browser() -> None:
    await asyncio.to_thread(User.objects.create_user, "ann")
    client, told = Client(), asyncio.Event()

    def hear(frame: Frame) -> None:
        told.set()

    logins.watch(asyncio.get_running_loop())
    await asyncio.to_thread(log_in, client)
    topic = await asyncio.to_thread(lambda: login_topic(client.session))
    hub.subscribe(topic, hear)
    try:
        await asyncio.to_thread(log_in, client)
        await asyncio.to_thread(functools.partial(client.post, "/accounts/logout/", secure=True))
        async with asyncio.timeout(READY_TIMEOUT_S):
            await told.wait()
    finally:
        hub.unsubscribe(topic, hear)
