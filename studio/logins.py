"""The end of a login closes the sockets that were opened under it, on every worker.

A login is known by an id of its own in its session's data: the session's key changes when the person changes the
password, and the sockets that are open then would wait for the wrong one.
"""

import asyncio
import hashlib
import uuid
from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.contrib.sessions.backends.base import SessionBase
from django.dispatch import receiver
from django.http import HttpRequest

from kernel.hub import hub

LOGIN = "studio_login"


def login_topic(session: SessionBase) -> str:
    """Where the sockets of one login hear that it has ended. Hashed, since topics are told to other workers."""
    login = session.get(LOGIN) or session.session_key or ""
    return f"login:{hashlib.sha256(login.encode()).hexdigest()}"


@receiver(user_logged_in, dispatch_uid="studio.logins.named")
def name_login(request: HttpRequest, **_: Any) -> None:
    request.session.setdefault(LOGIN, uuid.uuid4().hex)


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """Tell the sockets of `loop` of logouts; pages are served in threads."""

    def told(request: HttpRequest, **_: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(hub.publish, login_topic(request.session), {"type": "logged_out"})

    user_logged_out.connect(told, weak=False, dispatch_uid="studio.logins")
