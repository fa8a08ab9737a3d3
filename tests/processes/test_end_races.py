"""Two who write the same end on PostgreSQL at the same time: one of them waits for the row, and finds it taken.

PostgreSQL evaluates the conditions of an UPDATE anew after it waited for a row, but only those on the row itself: an
end that is conditional on a join would be written twice.
"""

import threading
from pathlib import Path

import psycopg
import pytest

from tests.processes.harness import manage
from tests.processes.servers import Postgres
from tests.waiting import READY_TIMEOUT_S

pytestmark = pytest.mark.processes

PREPARE = """
from datetime import timedelta
from django.db.models.functions import Now
from kernel.models import ExecutionRecord, Worker
lost = Worker.objects.create(host="h", pid=1, lease_until=Now() - timedelta(hours=1))
print(ExecutionRecord.objects.create(session_key="s", worker=lost).pk)
"""
REAP = """
from kernel.models import ExecutionRecord
print(len(ExecutionRecord.objects.settle_orphans()))
"""
WAITERS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def database(postgres: Postgres) -> str:
    return postgres.make_database()


def run(directory: Path, database: str, code: str) -> str:
    return manage(directory, "shell", "-v", "0", "-c", code, DATABASE_URL=database).split()[-1]


def test_a_reaper_that_waited_for_the_owners_end_writes_nothing_over_it(database: str, tmp_path: Path) -> None:
    execution_id = run(tmp_path, database, PREPARE)
    reaped: list[str] = []
    reaper = threading.Thread(target=lambda: reaped.append(run(tmp_path, database, REAP)))
    with psycopg.connect(database) as owner, psycopg.connect(database, autocommit=True) as watcher:
        end = "UPDATE kernel_executionrecord SET status = 'completed', finished_at = now() WHERE id = %s"
        owner.execute(end, [execution_id])
        reaper.start()
        while reaper.is_alive() and watcher.execute(WAITERS).fetchone() == (0,):
            reaper.join(0.05)
        owner.commit()
        reaper.join(READY_TIMEOUT_S)
        row = watcher.execute("SELECT status, abort_reason FROM kernel_executionrecord").fetchone()
    assert (row, reaped) == (("completed", ""), ["0"])


def test_of_two_reapers_one_ends_it(database: str, tmp_path: Path) -> None:
    run(tmp_path, database, PREPARE)
    reaped: list[str] = []
    reapers = [threading.Thread(target=lambda: reaped.append(run(tmp_path, database, REAP))) for _ in range(2)]
    with psycopg.connect(database) as holder, psycopg.connect(database, autocommit=True) as watcher:
        holder.execute("SELECT 1 FROM kernel_executionrecord FOR UPDATE")
        for reaper in reapers:
            reaper.start()
        while any(each.is_alive() for each in reapers) and watcher.execute(WAITERS).fetchone() != (2,):
            reapers[0].join(0.05)
        holder.commit()
        for reaper in reapers:
            reaper.join(READY_TIMEOUT_S)
    assert sorted(reaped) == ["0", "1"]
