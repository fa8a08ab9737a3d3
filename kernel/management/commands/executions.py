"""Show the ledger in the shell."""

from argparse import ArgumentParser
from typing import Any

from kernel import objects
from kernel.management.answering import Answer, AnsweringCommand
from kernel.models import ExecutionRecord

COLUMNS = ("id", "kind", "sessionKey", "user", "worker", "model", "status", "abortReason", "requestedBy", "source")


class Command(AnsweringCommand):
    """Prints the executions, newest first."""

    help = "List executions, newest first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--live", action="store_true", help="only those that have not ended")

    def answer(self, *, live: bool, **_: Any) -> Answer:
        rows = ExecutionRecord.objects.live() if live else ExecutionRecord.objects.all()
        rows = rows.select_related("user", "worker").order_by("-started_at", "-pk")
        value = [objects.execution(row) for row in rows.iterator()]
        return Answer(value=value, text=_table(value) if value else "Nothing is live." if live else "Nothing has run.")


def _table(value: list[objects.Object]) -> str:
    lines = [list(COLUMNS), *([str(row[name] or "-") for name in COLUMNS] for row in value)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
