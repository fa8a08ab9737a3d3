"""Stop one session from the shell."""

import argparse
import asyncio
import re
from argparse import ArgumentParser
from typing import Any

from kernel import orders
from kernel.control import Target
from kernel.management.answering import (
    NO_DATABASE,
    SOURCE,
    Answer,
    AnsweringCommand,
    add_wait,
    defer_ctrl_c,
    system_user,
    wait_for_owners,
)
from kernel.models import ExecutionRecord

SESSION_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Command(AnsweringCommand):
    """Stops everything of the session. The ledger knows a session from its first run on."""

    help = "Stop everything that runs in a session."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("session_key", type=_session_key, metavar="KEY", help="as in the session's address")
        add_wait(parser)

    def answer(self, *, session_key: str, wait: float, **_: Any) -> Answer:
        if not ExecutionRecord.objects.of_session(session_key).exists():
            return Answer.error(f"Nothing has ever run in a session {session_key!r}.")
        stop = orders.stop([Target(session_key=session_key)], by=system_user(), source=SOURCE)
        defer_ctrl_c()
        ordered = asyncio.run(stop)
        if ordered.failed:
            return Answer.error(NO_DATABASE)
        return wait_for_owners(ordered, wait, sessionKey=session_key)


def _session_key(text: str) -> str:
    if not SESSION_KEY.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} can be no session's key")
    return text
