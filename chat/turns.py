"""The turns of this worker: admitted, begun, told, settled; then the queue's next.

Everything from a committed admission to the start of its run happens without an await: a turn that is in the ledger is
always run. The end is written before it is told, and told once.
"""

import asyncio
import functools
import logging
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from chat import admission, news, queue
from chat.admission import Outgoing, Owner, Queued, Repeated, Started
from chat.answering import answer
from chat.ends import End, read_foreign_end, write_end
from chat.errors import Conflict
from chat.live import LiveTurn
from chat.mirror import Mirror
from chat.models import ChatSession
from chat.partials import Flusher, partial
from chat.titles import wants_title, write_title
from kernel import conf, control, lanes, runner
from kernel.abort import AbortReason
from kernel.control import LOOK_S
from kernel.llm import catalog
from kernel.mcp.roster import roster_of
from kernel.registry import Execution
from kernel.runner import Outcome, Status
from kernel.worker import ThisWorker

logger = logging.getLogger(__name__)

PROMISES_S = 3.0

OnAdmitted = Callable[[Any], None]


class Turns:
    """The live turns of one worker."""

    def __init__(self, worker: ThisWorker):
        self._worker = worker
        self._live: dict[str, LiveTurn] = {}
        self._partials = Flusher(worker.spawn)
        self._default_model = ""
        self._promises_s = time.monotonic()
        self._awaited: dict[int, asyncio.Future[None]] = {}
        self.mirror = Mirror(worker)

    def live_in(self, session_key: str) -> LiveTurn | None:
        """The turn that runs here in this session."""
        for execution in self._worker.registry.of_session(session_key):
            if execution.id in self._live:
                return self._live[execution.id]
        return None

    def __iter__(self) -> Iterator[LiveTurn]:
        return iter(list(self._live.values()))

    async def send(self, outgoing: Outgoing, when_busy: str, on_admitted: OnAdmitted) -> None:
        """Let the message in; `on_admitted` is told how before anything else is. Raises `ChatError`."""
        owner = await self._owner(outgoing.session_key, outgoing.user_id)
        admitted = await self._admit(owner, admission.admit, outgoing, owner, when_busy)
        if isinstance(admitted, Started):
            self._begin(admitted, on_admitted)
            return
        on_admitted(admitted)
        match admitted:
            case Queued():
                news.tell_queue(admitted.session, admitted.queue, running=True)
                self._interrupt(admitted.interrupts, outgoing.user_name)
                # The turn may have ended in the same instant, too early to see what was queued behind it.
                self._worker.spawn(self.resume(admitted.session), name=f"resume:{admitted.session.key}")
            case Repeated():
                pass

    async def send_now(
        self,
        session_key: str,
        user_id: int,
        user_name: str,
        queue_id: str,
        on_admitted: OnAdmitted,
        client_message_id: str = "",
    ) -> None:
        """Send this queue item next, interrupting the running turn. Raises `ChatError`."""
        owner = await self._owner(session_key, user_id)
        command = (session_key, user_id, user_name, queue_id, owner, client_message_id)
        sent = await self._admit(owner, queue.send_now, *command)
        if sent.started is not None:
            self._begin(sent.started, lambda _: on_admitted(sent))
            return
        on_admitted(sent)
        if sent.interrupts is not None:
            news.tell_queue(sent.session, sent.queue, running=True)
            self._interrupt(sent.interrupts, user_name)

    async def started_from(self, queue_id: int, timeout_s: float) -> dict[str, str] | None:
        """Wait for the turn that this queue item becomes, on whichever worker; None if not within `timeout_s`.

        Returns its `messageId` and `executionId`.
        """
        here = self._awaited.setdefault(queue_id, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(timeout_s):
                while (sent := await lanes.reads.run(queue.sent_as, queue_id)) is None:
                    await asyncio.wait({here}, timeout=LOOK_S)
                return sent
        except TimeoutError:
            return None
        finally:
            self._awaited.pop(queue_id, None)

    async def start(
        self, session_key: str, user_id: int, admit: Callable[[Owner], Started], on_admitted: OnAdmitted
    ) -> None:
        """Start a turn by another admission (continue, regenerate, resend). Raises `ChatError`."""
        owner = await self._owner(session_key, user_id)
        started = await self._admit(owner, admit, owner)
        self._begin(started, on_admitted)

    async def announce_foreign(self, execution_ids: list[str]) -> None:
        """Tell the readers of ends that were written for turns that this worker does not run."""
        for execution_id in execution_ids:
            end = await lanes.reads.run(read_foreign_end, execution_id)
            if end is not None:
                self._tell_end(end, None)

    async def take_over(self, execution_ids: list[str]) -> None:
        """This worker has ended the turns of a lost one: tell of it, and keep what Send now had promised."""
        await self.announce_foreign(execution_ids)
        await self.keep_promises()

    def keep_promises_soon(self) -> None:
        """Look for promises now and then; there are hardly ever any."""
        if time.monotonic() - self._promises_s > PROMISES_S:
            self._promises_s = time.monotonic()
            self._worker.spawn(self.keep_promises(), "promises")

    async def keep_promises(self) -> None:
        """Send what Send now promised and nobody sent: its worker was lost between the end and the next turn."""
        for session in await lanes.reads.run(queue.promised):
            self.spawn_next(session, promoted_only=True)

    async def resume(self, session: ChatSession) -> None:
        """Let the queue flow on, if it stands still: an item that held it up by being edited does so no more."""
        waiting, running = await lanes.reads.run(admission.state_of, session)
        if waiting and not running:
            self.spawn_next(session)

    # Admission

    async def _owner(self, session_key: str, user_id: int) -> Owner:
        await self._worker.ready()
        if not self._default_model:
            self._default_model = await lanes.reads.run(catalog.default_model)
        if self._worker.draining:
            raise Conflict("The server is shutting down. Your message was not sent; send it again in a moment.")
        execution_id = str(uuid.uuid4())
        # Registered before the ledger knows it: a stop that comes while it is being admitted finds it.
        self._worker.registry.register(execution_id, session_key=session_key, user_id=user_id)
        return Owner(execution_id=execution_id, worker_id=self._worker.id, default_model=self._default_model)

    async def _admit(self, owner: Owner, function: Callable[..., Any], *args: Any) -> Any:
        admitted = None
        try:
            admitted = await lanes.control.run(function, *args)
            return admitted
        finally:
            started = getattr(admitted, "started", admitted)
            if not isinstance(started, Started):
                self._forget(self._worker.registry[owner.execution_id])

    def _forget(self, execution: Execution) -> None:
        execution.controller.finish()
        execution.ended.set()
        self._worker.registry.unregister(execution.id)

    def _interrupt(self, execution_id: str | None, user_name: str) -> None:
        """The intent is in the ledger; tell its owner, here or elsewhere."""
        if execution_id is None:
            return
        execution = self._worker.registry.get(execution_id)
        if execution is not None:
            execution.controller.abort(AbortReason.USER_INTERRUPT, by=user_name, source="web")
        else:
            self._worker.spawn(control.hint(self._worker, execution_id), name=f"hint:{execution_id}")

    # The run

    def _begin(self, started: Started, on_admitted: OnAdmitted) -> None:
        """Run the turn, then tell of it: its tasks take their first step when this has returned."""
        execution = self._worker.registry[str(started.record.pk)]
        execution.model, execution.admitted = started.record.model, True
        worker_id = started.record.worker_id
        assert worker_id is not None  # admitted with one
        turn = LiveTurn(
            execution,
            session_id=started.session.pk,
            message_id=started.answer.pk,
            max_steps=conf.max_steps(),
            on_change=self._partials.watch(worker_id),
        )
        self._live[execution.id] = turn
        runner.start(
            execution,
            functools.partial(answer, started, execution, turn, roster_of(self._worker)),
            functools.partial(self._settle, execution, turn, worker_id),
            conf.limits(),
            functools.partial(self._announce, execution, turn),
        )
        on_admitted(started)
        self._tell_begin(started, turn)
        execution.signal.listen(lambda _: turn.stopping())  # after the runner's own listener, which closes connections

    # The end

    async def _settle(self, execution: Execution, turn: LiveTurn, worker_id: uuid.UUID, outcome: Outcome) -> End | None:
        await self._worker.registry.calm()
        turn.flush()
        turn.close()  # what is stored is what was told, whatever stuck work may still say
        end = await lanes.control.run(write_end, execution, outcome, worker_id, partial(turn, worker_id))
        self._partials.forget(execution.id)
        self._live.pop(execution.id, None)
        self._worker.registry.unregister(execution.id)
        return end

    async def _announce(self, execution: Execution, turn: LiveTurn, end: End | None) -> None:
        if end is None:
            await self.announce_foreign([execution.id])
        else:
            self._tell_end(end, turn)
            self._after(end)

    def _tell_end(self, end: End, turn: LiveTurn | None) -> None:
        news.tell_end(end, turn, next_runs=self.live_in(end.session.key) is not None)

    def _after(self, end: End) -> None:
        """The queue goes on or, if it is empty, the title is written."""
        clean = end.record.status == Status.COMPLETED
        if end.queue_length:
            self.spawn_next(end.session)
        elif clean and end.first_turn and wants_title(end.record.model):
            self._worker.spawn(self._title(end), name=f"title:{end.session.key}")

    def spawn_next(self, session: ChatSession, *, promoted_only: bool = False) -> None:
        """Send what is next in the queue, in a task of its own; `promoted_only`: if Send now promised it."""
        self._worker.spawn(self._next(session, promoted_only=promoted_only), name=f"next:{session.key}")

    async def _next(self, session: ChatSession, *, promoted_only: bool) -> None:
        try:
            owner = await self._owner(session.key, session.user_id)
            take = functools.partial(queue.take_next, session.pk, owner, promoted_only=promoted_only)
            started = await self._admit(owner, take)
        except Conflict:
            return  # shutting down: the queue stays as it is
        except lanes.FAILURES:
            logger.exception("The next message could not be taken; it stays in the queue.", extra={"action": "next"})
            return
        if started is not None:
            self._begin(started, lambda _: None)

    async def _title(self, end: End) -> None:
        if await write_title(self._worker, end.session, end.answer, end.record.model):
            queue_length, running = await lanes.reads.run(admission.state_of, end.session)
            news.tell_session(end.session, queue_length, running=running)

    def _tell_begin(self, started: Started, turn: LiveTurn) -> None:
        if started.user_message is not None and started.user_message.queued_as in self._awaited:
            self._awaited.pop(started.user_message.queued_as).set_result(None)
        news.tell_begin(started, turn)


_turns: "weakref.WeakKeyDictionary[ThisWorker, Turns]" = weakref.WeakKeyDictionary()


def turns_of(worker: ThisWorker) -> Turns:
    """The turns of `worker`."""
    if worker not in _turns:
        _turns[worker] = Turns(worker)
    return _turns[worker]
