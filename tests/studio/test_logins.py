"""A login stays the same login for its sockets, also when its session's key changes."""

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from kernel.hub import Frame, hub
from studio import logins
from studio.logins import login_topic
from tests.waiting import READY_TIMEOUT_S

OLD, NEW = "a long enough one", "another long enough one"


@pytest.fixture
def browser(transactional_db: Any) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("ann", password=OLD))
    return client


def change_password(browser: Client) -> None:
    form = {"old_password": OLD, "new_password1": NEW, "new_password2": NEW}
    assert browser.post("/admin/password_change/", form, secure=True).status_code == 302


def test_a_new_password_changes_the_sessions_key_and_not_the_login(browser: Client) -> None:
    key, topic = browser.session.session_key, login_topic(browser.session)
    change_password(browser)
    assert browser.session.session_key != key
    assert login_topic(browser.session) == topic


def test_two_browsers_are_two_logins(browser: Client) -> None:
    other = Client()
    other.force_login(User.objects.get())
    assert login_topic(browser.session) != login_topic(other.session)


async def test_a_logout_after_a_new_password_is_told_to_the_sockets_from_before(browser: Client) -> None:
    told = asyncio.Event()

    def hear(_frame: Frame) -> None:
        told.set()

    logins.watch(asyncio.get_running_loop())
    topic = await asyncio.to_thread(lambda: login_topic(browser.session))
    hub.subscribe(topic, hear)
    try:
        await asyncio.to_thread(change_password, browser)
        await asyncio.to_thread(lambda: browser.post("/accounts/logout/", secure=True))
        async with asyncio.timeout(READY_TIMEOUT_S):
            await told.wait()
    finally:
        hub.unsubscribe(topic, hear)
