"""The end of a login closes the sockets that were opened under it, on every worker."""

import asyncio
import hashlib
from typing import Any

from django.contrib.auth.signals import user_logged_out
from django.http import HttpRequest

from kernel.hub import hub


def login_topic(session_id: str) -> str:
    """Where the sockets of one login hear that it has ended. Hashed, since topics are told to other workers."""
    return f"login:{hashlib.sha256(session_id.encode()).hexdigest()}"


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """Tell the sockets of `loop` of logouts; pages are served in threads."""

    def told(request: HttpRequest, **_: Any) -> None:
        session_id = request.session.session_key
        if session_id and not loop.is_closed():
            loop.call_soon_threadsafe(hub.publish, login_topic(session_id), {"type": "logged_out"})

    user_logged_out.connect(told, weak=False, dispatch_uid="studio.logins")
