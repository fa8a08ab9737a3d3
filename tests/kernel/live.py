"""Live executions for tests: registered, run and settled as the product does it, with work that the test chooses."""

import asyncio
import functools
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from kernel import lanes, runner
from kernel.clocks import Limits
from kernel.models import ExecutionRecord
from kernel.registry import Execution
from kernel.runner import Outcome
from kernel.worker import ThisWorker
from tests.kernel.rows import make_execution

FOREVER = Limits(total_s=3600, first_token_s=3600, idle_s=3600)

db = lanes.control.run


async def silence() -> None:
    await asyncio.Event().wait()


async def run_live(
    worker: ThisWorker, work: Callable[[], Coroutine[Any, Any, Any]] = silence, **fields: Any
) -> Execution:
    """Start an execution of `worker`; `fields` are those of its row."""
    fields.setdefault("session_key", uuid.uuid4().hex)
    record = await db(functools.partial(make_execution, worker.id, **fields))
    shared = {name: value for name, value in fields.items() if name in ("session_key", "kind", "user_id", "model")}
    worker.registry.register(str(record.pk), **shared)
    execution = worker.registry[str(record.pk)]
    owner = worker.id

    async def settle(outcome: Outcome) -> bool:
        written = await db(ExecutionRecord.objects.settle, execution.id, outcome, owner)
        worker.registry.unregister(execution.id)
        return written

    runner.start(execution, work, settle, FOREVER)
    return execution


async def row(execution: Execution | ExecutionRecord) -> ExecutionRecord:
    pk = execution.id if isinstance(execution, Execution) else execution.pk
    return await db(ExecutionRecord.objects.get, pk=pk)
