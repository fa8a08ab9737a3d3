"""What the workers' logs may hold: no traceback but those that a fault explains, listed here one by one."""

import re
from collections.abc import Iterator

from chaos.journal import Journal
from tests.processes.harness import Studio

# What an entry with a traceback may be, by its first line and its last: always, and in rounds with this fault.
ALLOWED = {
    "": re.compile(
        # A tool of the tests.
        r"\nRuntimeError: .*on-purpose|"
        # PostgreSQL ends the transaction of a process that slept for 3 s in the middle of it, and an order that waits
        # for such a process gives up after 5 s and says so: a frozen one, or any if the machine is busy enough.
        r"\n(psycopg|django\.db\.utils)\.OperationalError: .*server closed the connection|"
        r"An order to stop could not be written.*\nTimeoutError|"
        r"A stop could not be confirmed.*\ndjango\.db\.utils\.DatabaseError: the order was not written"
    ),
    "postgres_restart": re.compile(r"\n[\w.]*\b(OperationalError|InterfaceError|AdminShutdown|CannotConnectNow)\b"),
    # litellm's sessions, when the interpreter ends.
    "terminate": re.compile(r"\nTypeError: 'NoneType' object is not callable"),
}
ENTRY = re.compile(r"^(?=\d{4}-\d\d-\d\d )", re.MULTILINE)
TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(?P<end>\S.*)$", re.MULTILINE)
OTHER_TRACES = ("never retrieved", "was destroyed but", "never awaited")


def tell_of_no_bug(workers: list[Studio], since: dict[Studio, int], journal: Journal) -> Iterator[str]:
    """Look at what each worker has written to its log since that byte of it."""
    kinds = {"", *(fault.kind for fault in journal.faults())}
    allowed = [pattern for kind, pattern in ALLOWED.items() if kind in kinds]
    for worker in workers:
        log = worker.log_text(since[worker])
        for entry in ENTRY.split(log):
            told = _first_and_last(entry)
            if told and not any(pattern.search(told) for pattern in allowed):
                yield f"in the log of {worker.directory.name}: {entry}"
        for trace in OTHER_TRACES:
            if trace in log:
                yield f"in the log of {worker.directory.name}: {trace}"


def _first_and_last(entry: str) -> str:
    """The first line of an entry and what its traceback ends in, of a chain the last one; empty without a traceback."""
    ends = [found["end"] for found in TRACEBACK.finditer(entry)]
    return "\n".join((entry.splitlines()[0], ends[-1])) if ends else ""
