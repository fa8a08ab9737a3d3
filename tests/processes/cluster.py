"""Several workers of one studio on one PostgreSQL, with or without a broker between them.

    cluster = make_cluster(2, REDIS_URL=redis.url, STUDIO_POLL_S="30")
    one, two = cluster
    async with await cluster.connect(one, "ann") as ann: ...

What the workers share (rows, logins) is asked of the cluster.
"""

import asyncio
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.client import Frame, StudioClient, log_in
from tests.processes.ends import ERRORS
from tests.processes.harness import EXIT_TIMEOUT_S, ROOT, START_TIMEOUT_S, Row, Studio, environment
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import eventually

# With this poll, only a hint can have told the owner of a stop.
NO_POLL_S = "60"

# The phases of a run in which it is stopped, as orders to the provider, with what shows that the run is there.
PHASES: dict[str, dict[str, Any]] = {
    "waiting for the headers": {"hdr": "inf"},
    "reading a long prompt": {"ttft": "inf"},
    "in mid-stream": {"n": 3000, "rate": 100},
    "hanging in mid-stream": {"n": 9, "hang": 3},
    "inside a tool": {"call": [("wait_async", {"seconds": 480})]},
    "sleeping before a retry": {"status": 429, "after": 60},
}


class Cluster:
    """The workers, in order; `start` starts those that do not run and warms them."""

    def __init__(self, directories: Sequence[Path], provider_url: str, **changes: str):
        self.workers = [Studio(directory, None, provider_url, **changes) for directory in directories]
        self.changes = changes
        self._directory = directories[0]
        self._cookies: dict[str, dict[str, str]] = {}

    def __iter__(self) -> Iterator[Studio]:
        return iter(self.workers)

    def start(self) -> "Cluster":
        started = [worker for worker in self if not worker.runs]
        for worker in started:
            worker.launch()
        for worker in started:
            worker.wait_until_ready()
        asyncio.run(self._warm(started))
        return self

    async def _warm(self, workers: Sequence[Studio]) -> None:
        await asyncio.gather(*(self._first_turn(worker) for worker in workers))

    async def _first_turn(self, worker: Studio) -> None:
        """The first turn loads the provider's SDK."""
        async with await self.connect(worker, "op") as op:
            reply = await op.send(f"warm-{worker.pid}", directive(n=1))
            await op.result(reply["executionId"], START_TIMEOUT_S)

    def end(self) -> None:
        """End all together."""
        running = [worker for worker in self if worker.runs]
        for worker in running:
            worker.continue_process()
            worker.terminate()
        for worker in running:
            worker.end()

    async def connect(self, worker: Studio, user: str = "ann") -> StudioClient:
        """A socket at this worker; a login made at any is good at all."""
        if user not in self._cookies:
            self._cookies[user] = await self.log_in(worker, user)
        return await StudioClient.connect(worker.base_url, self._cookies[user])

    async def log_in(self, worker: Studio, user: str) -> dict[str, str]:
        """The cookies of a login of its own."""
        return await log_in(worker.base_url, user, f"{user}-password")

    async def manage(self, *arguments: str) -> tuple[int, Any]:
        """Run an operator's command on another process; return its exit code and the one value that it printed."""
        process = await self.start_command(*arguments, "--json")
        out, errors = await asyncio.wait_for(process.communicate(), EXIT_TIMEOUT_S)
        assert out, errors.decode()
        return process.returncode or 0, json.loads(out)

    async def start_command(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start manage.py on another process."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "manage.py",
            *arguments,
            cwd=ROOT,
            env=environment(self._directory, "http://127.0.0.1:1/v1", **self.changes),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    # What is in the rows

    def rows(self, sql: str, *parameters: Any) -> Sequence[Row]:
        return self.workers[0].rows(sql, *parameters)

    def execution_row(self, execution_id: str) -> Row:
        return self.workers[0].execution_row(execution_id)

    def live(self, prefix: str) -> Sequence[Row]:
        """The live executions of sessions whose key begins so."""
        return self.rows(
            "SELECT * FROM kernel_executionrecord WHERE status = 'running' AND session_key LIKE ?", f"{prefix}%"
        )

    def answer_row(self, execution_id: str) -> Row:
        """The stored answer of an execution."""
        sql = "SELECT * FROM chat_chatmessage WHERE role = 'assistant' AND execution_id = ?"
        [row] = self.rows(sql, execution_id)
        return row

    async def settled(self, execution_id: str, timeout_s: float | None = None) -> Row:
        """Wait until the ledger tells the end of an execution; return it."""

        def look() -> Row | None:
            row = self.execution_row(execution_id)
            return row if row["status"] != "running" else None

        return await eventually(look, timeout_s) if timeout_s else await eventually(look)


async def hang(client: StudioClient, provider: Provider, key: str, said: int = 3) -> str:
    """Start a turn that has said something and hangs; return its execution's id."""
    reply = await client.send(key, directive(id=key, hang=said, n=said + 9))
    await provider.wait_deltas(key, said)
    return reply["executionId"]


async def reach(client: StudioClient, provider: Provider, key: str, phase: str) -> str:
    """Start a turn and wait until it is in this phase; return its execution's id."""
    orders = PHASES[phase]
    reply = await client.send(key, directive(id=key, **orders))
    if "status" in orders:
        await client.wait_phase(reply["executionId"], "retrying")
    elif "call" in orders:
        await client.wait_phase(reply["executionId"], "tool")
    elif "n" in orders:
        await provider.wait_deltas(key, 3)
    else:
        await provider.wait_arrived(key)
    return reply["executionId"]


def assert_stored_abort(cluster: Cluster, execution_id: str, reason: str, by: str) -> Row:
    """The rows of an aborted run and of its answer agree, and say why and by whom. Return the answer's."""
    record, answer = cluster.execution_row(execution_id), cluster.answer_row(execution_id)
    assert (record["status"], record["abort_reason"], record["requested_by"]) == ("aborted", reason, by)
    assert answer["status"] == "aborted"
    return answer


def assert_foreign_end(client: StudioClient, execution_id: str, reason: str) -> Frame:
    """The end as told by a process that did not run it: message and result without a number, the result once."""
    events = client.run_events(execution_id)
    results = [event for event in events if event["type"] == "studio_chat_result"]
    assert len(results) == 1, results
    assert events[-1] is results[0]
    message = events[-2]
    assert (message["type"], message["seq"], results[0]["seq"]) == ("studio_chat_message", None, None)
    assert (message["message"]["status"], message["message"]["abortReason"]) == ("aborted", reason)
    assert (results[0]["abortReason"], results[0]["error"]) == (reason, ERRORS[reason])
    assert results[0]["text"] == message["message"]["text"]
    return results[0]


def tell(what: str, times_s: Sequence[float]) -> None:
    """Print how long it took; the machine's speed is nothing to assert."""
    ranked = sorted(time_s * 1000 for time_s in times_s)
    ninety = ranked[min(len(ranked) - 1, round(0.9 * len(ranked)))]
    print(f"{what}: n={len(ranked)} p50={statistics.median(ranked):.1f} ms p90={ninety:.1f} ms max={ranked[-1]:.1f} ms")
