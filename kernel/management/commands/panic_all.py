"""Panic from the shell: works with the web tier down, without a broker, and with half-broken settings."""

import asyncio
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model

from kernel import objects, orders
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


class Command(AnsweringCommand):
    """Orders first, before anything else is looked at; then waits for the owners, and counts."""

    help = "Abort every live execution, or those of a user or a model; with --hold, refuse new ones until released."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--hold", action="store_true", help="refuse new runs until panic_release")
        parser.add_argument("--reason", default="", metavar="TEXT", help="told to everyone it affects")
        parser.add_argument("--user", metavar="NAME", help="only this user's")
        parser.add_argument("--model", default="", metavar="NAME", help="only this model's")
        parser.add_argument("--dry-run", action="store_true", help="count what it would hit, and change nothing")
        add_wait(parser)

    def answer(
        self, *, hold: bool, reason: str, user: str | None, model: str, dry_run: bool, wait: float, **_: Any
    ) -> Answer:
        user_id = None
        if user is not None:
            found = get_user_model().objects.filter(username=user).first()
            if found is None:
                return Answer.error(f"There is no user {user!r}; nothing was ordered.")
            user_id = found.pk
        target = Target(user_id=user_id, model=model or None)
        if dry_run:
            return _rehearsal(target, hold)
        panic = orders.panic(by=system_user(), source=SOURCE, why=reason, hold=hold, user_id=user_id, model=model)
        defer_ctrl_c()
        ordered = asyncio.run(panic)
        if ordered.failed:
            return Answer.error(NO_DATABASE)
        held = orders.waiting(target) if hold else 0
        return wait_for_owners(
            ordered, wait, heldCount=held, hold=objects.hold(ordered.hold) if ordered.hold is not None else None
        )


def _rehearsal(target: Target, hold: bool) -> Answer:
    would_abort = target.rows().count()
    held = orders.waiting(target) if hold else 0
    value = {
        "ok": True,
        "dryRun": True,
        "wouldAbortCount": would_abort,
        "abortedCount": 0,
        "activeCount": Target().rows().count(),
        "unconfirmedCount": 0,
        "alreadyFinishedCount": 0,
        "heldCount": held,
        "hold": None,
    }
    return Answer(value=value, text=f"Would stop {would_abort} and hold {held} queued messages. Nothing was changed.")
