"""The agent's loop: model call → tool calls → model call …, until the model has answered or no step is left. Pure.

It tells what happens through `tell`, synchronously and in order, so that nothing it has received can be lost between
two awaits. It holds no state of its own beyond the conversation: an abort may end it at any await.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from kernel.allowance import Allowance, Guard, LimitReached, Price, Room
from kernel.answer import Answer, ToolCall, tokens
from kernel.clocks import Limits, ProviderClock
from kernel.events import Event, Phase, Progress, StepFinished, TextDelta, ToolFinished, ToolStarted, ToolState, Usage
from kernel.llm import retry
from kernel.llm.model import CallDelta, Delta, Finished, Model, ModelError, ModelRequest
from kernel.llm.text import Cleaner, storable
from kernel.registry import Execution
from kernel.tools import RunContext, Toolbox
from kernel.tools.call import CallResult, run_call

# Buffered output is read without ever waiting; after this long the loop gets its turn, so that a stop is read.
YIELD_S = 0.005
# Providers count the length that is asked for against their rates, whether it is used or not: so only short ones are.
ASK_BELOW_TOKENS = 16_384
NAME_MAX = 200  # longer names and ids of calls are no provider's
# So many calls of one step are run: each may be a thread, a connection, a child process.
CALLS_MAX = 32
TOO_MANY = CallResult(state=ToolState.ERROR, error=f"Not run: one step makes {CALLS_MAX} calls at most.")
NO_OUTPUT = "(no output)"  # some providers refuse an empty result

Message = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Agent:
    """Who answers, and with what.

    `system(final)` is the system prompt; `final` says that this is the last step and tools are withheld. `history` is
    the conversation in OpenAI's form. `checkpoint` is awaited between steps and raises or aborts if the run must not go
    on. `price(input, output)` is the cost of so many tokens in USD, or None. `most_tokens` is how many one answer of
    the model can have, where that is known.
    """

    model: Model
    model_name: str
    history: list[Message]
    system: Callable[[bool], str]
    limits: Limits
    tools: Toolbox = field(default_factory=Toolbox)
    max_steps: int = 8
    tool_timeout_s: float = 60.0
    checkpoint: Callable[[], Awaitable[None]]
    allowance: Allowance = field(default_factory=Allowance)
    price: Price = lambda _input, _output: None
    most_tokens: int | None = None


async def run(agent: Agent, execution: Execution, tell: Callable[[Event], None]) -> str:
    """Answer; return the finish reason. Usage and steps grow on `execution`. Raises `ModelError` or `LimitReached`."""
    messages = list(agent.history)
    turn = _Turn(agent=agent, execution=execution, tell=tell, guard=Guard(agent.allowance, agent.price))
    for step in range(1, agent.max_steps + 1):
        if step > 1:
            await agent.checkpoint()
        execution.signal.raise_if_aborted()
        final = step == agent.max_steps
        execution.steps = step
        answer = await _Call(turn, step, final).perform(messages)
        if answer.calls and not final:
            messages.append(answer.as_message())
            _check(turn, step, answer.calls)
            messages += await _run_tools(turn, step, answer.calls)
        tell(StepFinished(step=step, usage=answer.usage, finish_reason=answer.finish_reason))
        if not answer.calls or final:
            return answer.finish_reason
    raise AssertionError("the last step returns")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Turn:
    """What the steps of one turn share. `call_ids` are those of all its calls: some providers count anew each time."""

    agent: Agent
    execution: Execution
    tell: Callable[[Event], None]
    guard: Guard
    call_ids: set[str] = field(default_factory=set)


class _Call:
    """One model call of one step: reads the stream, tells what arrives, and counts it even when it is cut off."""

    def __init__(self, turn: _Turn, step: int, final: bool):
        self._turn = turn
        self._agent = turn.agent
        self._execution = turn.execution
        self._tell = turn.tell
        self._guard = turn.guard
        self._step = step
        self._final = final
        self._answer = Answer()
        self._by_index: dict[int, ToolCall] = {}
        self._sent_tokens = 0
        self._cleaners = {"text": Cleaner(), "reasoning": Cleaner()}

    async def perform(self, messages: list[Message]) -> Answer:
        sent = [{"role": "system", "content": self._agent.system(self._final)}, *messages]
        self._sent_tokens = tokens(sum(len(str(message.get("content") or "")) for message in sent))
        self._guard.check(self._execution.usage, self._estimate())
        room = self._room()
        request = ModelRequest(
            model=self._agent.model_name,
            messages=sent,
            tools=[] if self._final else self._agent.tools.specs(),
            max_output_tokens=room.tokens if room else None,
        )
        self._execution.pending = self._estimate()
        self._progress(Phase.WAITING)
        usage: Usage | None = None
        try:
            usage = await self._read(request)
            if room and self._answer.finish_reason == "length":
                raise room.reached
        except ModelError:
            # Nothing had come: the provider refused, or was never reached.
            usage = None if self._answer.chars else Usage()
            raise
        finally:
            self._answer.usage = self._estimate() if usage is None else usage
            self._execution.usage += self._answer.usage
            self._execution.pending = Usage()
        self._complete_calls()
        return self._answer

    async def _read(self, request: ModelRequest) -> Usage | None:
        usage: Usage | None = None
        clock = ProviderClock(self._execution.controller, self._agent.limits)
        events = retry.stream(
            self._agent.model, request, signal=self._execution.signal, clock=clock, on_retry=self._on_retry
        )
        try:
            async with aclosing(events):
                turn_ends_s = time.monotonic() + YIELD_S
                async for event in events:
                    match event:
                        case Delta():
                            self._on_text(event.kind, event.text)
                        case CallDelta():
                            self._on_call(event)
                        case Finished():
                            self._answer.finish_reason, usage = event.reason, event.usage
                            continue  # whole: no limit takes it back
                    self._guard.check(self._execution.usage, self._execution.pending)  # told first: it is kept
                    if time.monotonic() > turn_ends_s:
                        await asyncio.sleep(0)
                        turn_ends_s = time.monotonic() + YIELD_S
        finally:
            for kind, cleaner in self._cleaners.items():
                self._text(kind, cleaner.flush())
        return usage

    def _on_text(self, kind: str, text: str) -> None:
        self._output_began()
        self._text(kind, self._cleaners[kind].clean(text))

    def _text(self, kind: str, text: str) -> None:
        if not text:
            return
        self._count(text)
        if kind == "text":
            self._answer.text.append(text)
        self._tell(TextDelta(step=self._step, kind=kind, text=text))

    def _on_call(self, delta: CallDelta) -> None:
        self._output_began()
        self._count(delta.arguments)
        call = self._by_index.get(delta.index)
        if call is None:
            call = self._by_index[delta.index] = ToolCall(call_id=self._own_id(delta))
            self._answer.calls.append(call)
        call.pieces.append(delta.arguments)
        if delta.name and not call.name:
            call.name = storable(delta.name)[:NAME_MAX]
        if delta.name and not self._final:  # on the last step there are no tools: what is called all the same is not
            self._tell(ToolStarted(step=self._step, call_id=call.call_id, name=call.name, input=None))

    def _own_id(self, delta: CallDelta) -> str:
        given, taken = storable(delta.call_id)[:NAME_MAX], self._turn.call_ids
        own = given if given and given not in taken else f"call_{self._execution.id[:8]}_{self._step}_{delta.index}"
        taken.add(own)
        return own

    def _output_began(self) -> None:
        if self._execution.first_output_s is None:
            self._execution.first_output_s = time.monotonic()
        if self._execution.phase is not Phase.STREAMING:
            self._progress(Phase.STREAMING)

    def _complete_calls(self) -> None:
        """The arguments are whole now: say so, readable or not."""
        self._answer.calls = [call for call in self._answer.calls if call.name] if not self._final else []
        for call in self._answer.calls:
            self._tell(ToolStarted(step=self._step, call_id=call.call_id, name=call.name, input=call.input))

    def _on_retry(self, attempt: int, delay_s: float) -> None:
        if delay_s:
            self._progress(Phase.RETRYING, attempt=attempt, retry_in_ms=round(delay_s * 1000))
        else:
            self._progress(Phase.WAITING, attempt=attempt)

    def _progress(self, phase: Phase, **more: Any) -> None:
        self._execution.phase = phase
        self._tell(Progress(phase=phase, step=self._step, max_steps=self._agent.max_steps, **more))

    def _count(self, text: str) -> None:
        self._answer.chars += len(text)
        self._execution.pending = self._estimate()

    def _room(self) -> Room | None:
        """What the provider is asked to keep to. Not where it might be more than the model can: some refuse that."""
        room = self._guard.room(self._execution.usage, self._sent_tokens)
        most = min(self._agent.most_tokens or 0, ASK_BELOW_TOKENS)
        return room if room is not None and room.tokens < most else None

    def _estimate(self) -> Usage:
        """What was used, where the provider never said: it bills a request that was stopped half-way too."""
        sent, received = self._sent_tokens, tokens(self._answer.chars)
        cost = self._agent.price(sent, received)
        return Usage(input_tokens=sent, output_tokens=received, cost_usd=cost, estimated=True)


def _check(turn: _Turn, step: int, calls: list[ToolCall]) -> None:
    """Before the tools of a step are run: what no further model call would read is not done. Raises `LimitReached`."""
    try:
        turn.guard.check(turn.execution.usage, Usage())
        turn.guard.check_calls((call.name, call.arguments) for call in calls)
    except LimitReached as reached:
        why = f"Not run: {reached.message}"
        for call in calls:
            ended = ToolFinished(step=step, call_id=call.call_id, name=call.name, state=ToolState.ERROR, error=why)
            turn.tell(ended)
        raise


async def _run_tools(turn: _Turn, step: int, calls: list[ToolCall]) -> list[Message]:
    """Run the calls of one step together, `CALLS_MAX` at most, and return their answers for the model, in order."""
    agent, execution, tell = turn.agent, turn.execution, turn.tell
    execution.phase = Phase.TOOL
    run = RunContext(execution_id=execution.id, session_key=execution.session_key, user_id=execution.user_id)
    names = ", ".join(call.name for call in calls)
    tell(Progress(phase=Phase.TOOL, step=step, max_steps=agent.max_steps, tool=names))

    def finished(call: ToolCall, result: CallResult) -> None:
        tell(
            ToolFinished(
                step=step,
                call_id=call.call_id,
                name=call.name,
                state=result.state,
                output=result.output,
                error=result.error,
            )
        )

    def perform(call: ToolCall) -> Coroutine[Any, Any, CallResult]:
        return run_call(
            agent.tools,
            name=call.name,
            arguments=call.arguments,
            signal=execution.signal,
            run=run,
            default_timeout_s=agent.tool_timeout_s,
            on_result=functools.partial(finished, call),
        )

    run_now, refused = calls[:CALLS_MAX], calls[CALLS_MAX:]
    for call in refused:
        finished(call, TOO_MANY)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(perform(call), name=f"tool:{call.call_id}") for call in run_now]
    results = [*(task.result() for task in tasks), *(TOO_MANY for _ in refused)]
    return [_as_message(call, result) for call, result in zip(calls, results, strict=True)]


def _as_message(call: ToolCall, result: CallResult) -> Message:
    content = result.output if result.error is None else f"Error: {result.error}"
    return {"role": "tool", "tool_call_id": call.call_id, "content": content or NO_OUTPUT}
