"""The gate between admission and panic, so that no run slips past a sweep.

Admission takes it shared inside the transaction that inserts the execution; panic takes it alone before it sweeps. What
was being inserted when panic came is committed, and so seen by the sweep; what comes later sees the hold. On SQLite,
where a transaction holds the one write lock from its BEGIN, there is nothing to take.
"""

from django.db import connection

GATE = 0x57D10  # the key of the advisory lock; any constant of our own


def pass_shared() -> None:
    """Enter as an admission; held until the transaction ends."""
    _lock("pg_advisory_xact_lock_shared")


def pass_alone() -> None:
    """Enter as a panic; waits for admissions under way, and holds new ones up, until the transaction ends."""
    _lock("pg_advisory_xact_lock")


def _lock(function: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {function}(%s)", [GATE])
