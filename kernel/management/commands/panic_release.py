"""Release holds from the shell."""

import uuid
from argparse import ArgumentParser
from typing import Any

from kernel import control
from kernel.management.answering import SOURCE, Answer, AnsweringCommand, system_user
from kernel.models import Hold


class Command(AnsweringCommand):
    """Releases one hold, or all. Nothing is sent by it: people and queues go on by themselves."""

    help = "Release a hold, or, if none is named, all active ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("hold", nargs="?", type=uuid.UUID, metavar="HOLD", help="its id, as `panic_all` told it")

    def answer(self, *, hold: uuid.UUID | None, **_: Any) -> Answer:
        if hold is not None and not Hold.objects.filter(pk=hold).exists():
            return Answer.error(f"There is no hold {hold}.")
        released = control.release(str(hold) if hold else None, system_user(), SOURCE)
        left = Hold.objects.active().count()
        value = {"ok": True, "released": bool(released), "releasedCount": released, "activeHoldCount": left}
        return Answer(value=value, text=f"Released {released}. Still active: {left}.")
