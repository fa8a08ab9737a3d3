"""A session's title, written by a model after its first turn: an execution of its own, so that a stop reaches it.

It never runs beside a turn's stream, holds no turn up, and its failure costs nothing: the title stays the first line.
"""

import asyncio
import functools
import logging
import uuid
from contextlib import aclosing

from django.conf import settings
from django.db import transaction

from chat.admission import Owner, admit_execution
from chat.errors import Held
from chat.models import ChatMessage, ChatSession
from kernel import conf, lanes, runner
from kernel.abort import AbortSignal
from kernel.clocks import Limits, ProviderClock
from kernel.llm import catalog
from kernel.llm.model import Delta, Finished, ModelRequest
from kernel.llm.retry import stream
from kernel.llm.text import storable
from kernel.models import ExecutionKind, ExecutionRecord, usage_fields
from kernel.registry import Execution
from kernel.runner import Outcome, Status
from kernel.worker import ThisWorker

logger = logging.getLogger(__name__)

INSTRUCTION = (
    "Write a title for the conversation below: at most six words, in the language of the conversation, "
    "without quotation marks. Answer with the title alone."
)
EXCERPT_CHARS = 1000
TITLE_MAX_CHARS = 80
TOTAL_S = 60.0


def wants_title(model: str) -> bool:
    """Whether a model should write it: yes for a configured model, on demand for those that come with the product."""
    if settings.STUDIO_TITLE_MODEL:
        return settings.STUDIO_TITLE_MODEL != "off"
    return not model.startswith(("demo/", "local/"))


async def write_title(worker: ThisWorker, session: ChatSession, answer: ChatMessage, session_model: str) -> bool:
    """Write the title of `session` and return whether it changed."""
    if worker.draining:
        return False
    model = settings.STUDIO_TITLE_MODEL or session_model
    execution_id = str(uuid.uuid4())
    worker.registry.register(execution_id, session_key=session.key, kind="title", user_id=session.user_id, model=model)
    execution = worker.registry[execution_id]
    try:
        request = await lanes.reads.run(_request, session, answer, model)
        owner = Owner(execution_id=execution_id, worker_id=worker.id, default_model=model)
        await lanes.control.run(_insert, session, owner, model)
    except BaseException as error:
        worker.registry.unregister(execution_id)
        execution.ended.set()
        if isinstance(error, Held):
            return False
        raise
    limits = conf.limits()
    limits = Limits(total_s=min(TOTAL_S, limits.total_s), first_token_s=limits.first_token_s, idle_s=limits.idle_s)
    settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    runner.start(
        execution,
        functools.partial(_ask, execution, request, limits),
        functools.partial(_settle, worker, execution, session, owner.worker_id, settled),
        limits,
    )
    return await settled


async def _ask(execution: Execution, request: ModelRequest, limits: Limits) -> str:
    signal: AbortSignal = execution.signal
    clock = ProviderClock(execution.controller, limits)
    text: list[str] = []
    model = await catalog.ready_model(request.model)
    events = stream(model, request, signal=signal, clock=clock, on_retry=lambda _attempt, _delay: None)
    async with aclosing(events):
        async for event in events:
            match event:
                case Delta(kind="text"):
                    text.append(event.text)
                case Finished() if event.usage is not None:
                    execution.usage += event.usage
    return storable("".join(text))


async def _settle(
    worker: ThisWorker,
    execution: Execution,
    session: ChatSession,
    worker_id: uuid.UUID,
    settled: "asyncio.Future[bool]",
    outcome: Outcome,
) -> bool:
    changed = await lanes.control.run(_write_end, execution, session, worker_id, outcome)
    worker.registry.unregister(execution.id)
    if outcome.status is Status.ERROR:
        logger.info("A title could not be written: %s", outcome.error, extra={"execution_id": execution.id})
    if not settled.done():
        settled.set_result(bool(changed))
    return changed is not None


def _insert(session: ChatSession, owner: Owner, model: str) -> None:
    """Admit the execution as any other. Raises `Held`."""
    with transaction.atomic():
        admit_execution(session, owner, model, kind=ExecutionKind.TITLE)


def _request(session: ChatSession, answer: ChatMessage, model: str) -> ModelRequest:
    rows = session.messages.filter(pk__lte=answer.pk).order_by("id").values_list("role", "text")[:2]
    excerpt = "\n\n".join(f"{role}: {text[:EXCERPT_CHARS]}" for role, text in rows)
    messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": excerpt}]
    return ModelRequest(model=model, messages=messages, max_output_tokens=40)


def _write_end(execution: Execution, session: ChatSession, worker_id: uuid.UUID, outcome: Outcome) -> bool | None:
    """Settle, and take the title if there is one; None if the execution had been settled by somebody else."""
    if not ExecutionRecord.objects.settle(execution.id, outcome, worker_id, steps=1, **usage_fields([execution.usage])):
        return None
    title = _clean(outcome.value) if outcome.status is Status.COMPLETED else ""
    if not title:
        return False
    given, session.title = session.title, title
    # Not over a title that a person has given meanwhile.
    return bool(ChatSession.objects.filter(pk=session.pk, title=given).update(title=title))


def _clean(text: str) -> str:
    """One line without quotation marks around it."""
    lines = text.strip().splitlines() or [""]
    return lines[0].strip().strip("\"'«»“”").strip()[:TITLE_MAX_CHARS]
