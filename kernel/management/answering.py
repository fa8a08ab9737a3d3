"""What the operator's commands share: one answer, as text or as JSON, and its exit code.

0 done, 1 an error, 2 wrong usage, 3 some owner did not confirm in time. Nothing but the answer goes to stdout. No
system checks are run: they load the whole web side, and a panic must not wait for it or fail with it.
"""

import argparse
import asyncio
import json
import os
import pwd
import signal
from argparse import ArgumentParser
from dataclasses import dataclass
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from kernel import lanes, objects, orders
from kernel.control import Counts, Ordered

SOURCE = "command"
WAIT_S = 5.0
ERROR, UNCONFIRMED = 1, 3
NO_DATABASE = "The database cannot be reached, or is not migrated."
NOT_TOLD = "The database failed during the wait. The orders stand; look with `manage.py executions --live`."


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a command has to say: `value` for programs, `text` for people, and the `problem` if it is not well."""

    value: Any
    text: str = ""
    problem: str = ""
    returncode: int = 0

    @classmethod
    def error(cls, problem: str) -> "Answer":
        return cls(value={"ok": False, "error": problem}, problem=problem, returncode=ERROR)


class AnsweringCommand(BaseCommand):
    """A command that has one `answer`."""

    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON value")

    def answer(self, *args: Any, **options: Any) -> Answer:
        raise NotImplementedError

    def handle(self, **options: Any) -> None:
        try:
            answer = self.answer(**options)
        except lanes.FAILURES as error:
            answer = Answer.error(f"{NO_DATABASE} ({error})".strip())
        finally:
            lanes.control.close()
            listen_to_ctrl_c()
        if options["json"]:
            self.stdout.write(json.dumps(answer.value, ensure_ascii=False))
        elif answer.text:
            self.stdout.write(answer.text)
        if answer.problem:
            raise CommandError(answer.problem, returncode=answer.returncode)


def add_wait(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=WAIT_S,
        metavar="S",
        help="how long to wait for the owners' confirmation (%(default)s)",
    )


def wait_for_owners(ordered: Ordered, wait_s: float, **more: Any) -> Answer:
    """Wait until the owners confirm, and count as the reply frames do. Ctrl-C ends the wait, not the orders."""
    when = f"after {wait_s:g} s"
    try:
        listen_to_ctrl_c()  # one that came while the order was written is delivered here
        counts = asyncio.run(orders.confirmed(ordered, wait_s))
    except KeyboardInterrupt:
        when = "when the wait was broken off"
        counts = asyncio.run(orders.confirmed(ordered, 0))
    return _told(counts, when, more)


def _told(counts: Counts, when: str, more: dict[str, Any]) -> Answer:
    value = {"ok": not counts.failed, **objects.counts(counts), **more}
    if counts.failed:
        return Answer(value={**value, "error": NOT_TOLD}, problem=NOT_TOLD, returncode=ERROR)
    text = (
        f"Stopped {counts.aborted}, not confirmed {counts.unconfirmed}, had ended by themselves "
        f"{counts.already_finished}. Still live: {counts.active}."
    )
    if hold := more.get("hold"):
        text += (
            f"\nNew runs are on hold, and {more['heldCount']} queued messages; to release: panic_release {hold['id']}"
        )
    if not counts.unconfirmed:
        return Answer(value=value, text=text)
    problem = f"{counts.unconfirmed} had not confirmed {when}. The orders stand: their owners obey when they can."
    return Answer(value=value, text=text, problem=problem, returncode=UNCONFIRMED)


def defer_ctrl_c() -> None:
    """From here to `wait_for_owners`, Ctrl-C waits: an order is written and told of, or not given at all."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def listen_to_ctrl_c() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def system_user() -> str:
    """Who gives the orders: the operating system's user, whatever the environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's number without a name
        return f"uid {os.getuid()}"


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 10**7:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value
