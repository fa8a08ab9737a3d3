"""Running one tool call under a signal. Pure.

`run_call` promises an end of the call: whatever the model asked for and whatever the tool does, it returns a
`CallResult` or, when cancelled, passes the cancellation on, within `GRACE_S`. It doesn't promise the end of the tool: a
function that swallows its cancellation, or blocks in a thread, goes on, and its result is ignored.
"""

import asyncio
import json
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_jsonable_python

from kernel.abort import Abort, AbortController, AbortReason, AbortSignal
from kernel.aio import to_the_end
from kernel.errors import ToldError
from kernel.events import ToolState
from kernel.race import race
from kernel.threads import in_thread
from kernel.tools import RUN, SIGNAL, RunContext, Tool, Toolbox

logger = logging.getLogger(__name__)

GRACE_S = 1.0  # from telling a tool to end to giving it up
MAX_OUTPUT_CHARS = 64 * 1024

NOT_STARTED = "Stopped before it started."
STOPPED = "Stopped before it finished; it may have had effects."
UNSTOPPABLE = "It could not be stopped; its result will be ignored."


@dataclass(frozen=True, kw_only=True, slots=True)
class CallResult:
    """How a call ended. `input` is {} if the arguments could not be read; `output` and `error` are for the model."""

    state: ToolState
    input: dict[str, Any] = field(default_factory=dict)
    output: str | None = None
    error: str | None = None


async def run_call(
    toolbox: Toolbox,
    *,
    name: str,
    arguments: str,
    signal: AbortSignal,
    run: RunContext,
    default_timeout_s: float,
    on_result: Callable[[CallResult], None] = lambda result: None,
) -> CallResult:
    """Run the tool `name` with `arguments`, the raw JSON text of the model.

    `on_result` is called exactly once, also when this call is cancelled: it is how the caller learns of an end that a
    cancellation leaves no way to return. An abort of `signal` without a cancellation returns. The tool's own limit
    makes an error for the model, and the run goes on. Raises nothing but `asyncio.CancelledError`.
    """
    read: dict[str, Any] = {}
    cancelled = False
    try:
        read = parse_arguments(arguments)
        tool, values = _prepare(toolbox, name, read)
    except ValueError as refusal:
        ending = _Ending(ToolState.ERROR, error=str(refusal))
    else:
        if signal.aborted:
            ending = _Ending(ToolState.ABORTED, error=NOT_STARTED)
        else:
            call = _Call(tool, values, run)
            ending = await call.perform(signal, tool.timeout_s or default_timeout_s)
            cancelled = call.cancelled
    result = CallResult(state=ending.state, input=read, output=ending.output, error=ending.error)
    on_result(result)
    if cancelled:
        raise asyncio.CancelledError
    return result


def parse_arguments(arguments: str) -> dict[str, Any]:
    """The object in the model's JSON text; no text at all counts as {}. Raises ValueError, in words for the model."""
    try:
        parsed = from_json(arguments.strip().encode("utf-8", "replace") or b"{}", allow_inf_nan=False)
        json.dumps(parsed, allow_nan=False)  # 1e999 reads as infinity, which no JSON can say again
    except ValueError as error:
        raise ValueError(f"The arguments are not valid JSON: {error}.") from error
    if not isinstance(parsed, dict):
        raise ValueError("The arguments must be a JSON object.")  # noqa: TRY004  # bad data, not a bad caller
    return parsed


def _prepare(toolbox: Toolbox, name: str, read: dict[str, Any]) -> tuple[Tool, dict[str, Any]]:
    """The tool, and its keyword arguments in the types of its hints. Raises ValueError, in words for the model."""
    tool = toolbox.get(name)
    if tool is None:
        offered = ", ".join(each.name for each in toolbox) or "none"
        raise ValueError(f"There is no tool {name[:64]!r}. The tools are: {offered}.")
    try:
        return tool, tool.validate(read)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"- {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in details]
        raise ValueError("\n".join([f"The arguments do not fit {name!r}:", *lines])) from error
    except Exception as error:  # a check of the developer's own, on a type of a hint
        logger.exception("The arguments of a tool could not be checked.", extra={"action": "tool_failed", "tool": name})
        raise ValueError(_described(error)) from error


@dataclass(frozen=True, slots=True)
class _Ending:
    state: ToolState
    output: str | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outcome:
    """What the function itself came to: its result as text, or what it raised."""

    output: str = ""
    error: BaseException | None = None


class _Call:
    """One tool at work, in a task or a thread. It decides once how the call ends, and keeps that it was cancelled."""

    def __init__(self, tool: Tool, values: dict[str, Any], run: RunContext):
        self._tool = tool
        # The function's signal is the call's, not the run's: it falls on the call's own timeout too.
        self._controller = AbortController()
        if tool.takes_signal:
            values = {**values, SIGNAL: self._controller.signal}
        if tool.takes_run:
            values = {**values, RUN: run}
        self._work = (_in_task if tool.is_async else _in_thread)(tool, values)
        self.cancelled = False

    async def perform(self, signal: AbortSignal, timeout_s: float) -> _Ending:
        """Wait for the function, the abort, a cancellation or the limit; never raises."""
        self.cancelled = await race(self._work, signal, timeout_s)
        aborted = signal.aborted or self.cancelled
        if self._work.done():
            return self._ended(aborted=aborted)
        stopped = await self._stop(signal.abort, AbortReason.SHUTDOWN if aborted else AbortReason.TIMEOUT)
        if not aborted:
            limit = f"The tool ran longer than {timeout_s:g} s."
            return _Ending(ToolState.ERROR, error=limit if stopped else f"{limit} {UNSTOPPABLE}")
        if stopped:
            return _Ending(ToolState.ABORTED, error=STOPPED)
        return _Ending(ToolState.UNSTOPPABLE, error=UNSTOPPABLE)

    def _ended(self, *, aborted: bool) -> _Ending:
        """The function ended by itself, perhaps in the instant of the abort: then a result still counts."""
        outcome = _outcome(self._work)
        if outcome.error is None:
            return _Ending(ToolState.COMPLETED, output=outcome.output)
        if aborted:
            self._note_late(self._work)
            return _Ending(ToolState.ABORTED, error=STOPPED)
        if isinstance(outcome.error, ToldError):  # foreseen: in words for the model, and nobody's bug
            return _Ending(ToolState.ERROR, error=_capped(outcome.error.message))
        logger.error("A tool failed.", exc_info=outcome.error, extra={"action": "tool_failed", "tool": self._tool.name})
        return _Ending(ToolState.ERROR, error=_described(outcome.error))

    async def _stop(self, abort: Abort | None, otherwise: AbortReason) -> bool:
        """Tell the function to end, and give it its grace if it can hear. Return whether it ended."""
        self._work.add_done_callback(self._note_late)
        if abort is not None:
            self._controller.abort(abort.reason, by=abort.by, source=abort.source, timeout_kind=abort.timeout_kind)
        else:
            self._controller.abort(otherwise, source="kernel")
        if self._tool.is_async:
            _stopping.add(self._work)
            self._work.cancel()
        if self._tool.is_async or self._tool.takes_signal:
            _, cancelled = await to_the_end(asyncio.wait({self._work}, timeout=GRACE_S))
            self.cancelled = self.cancelled or cancelled
        if self._tool.is_async:
            self._work.cancel()  # one cancel is a request; whoever swallowed it is asked again on leaving
        return self._work.done()

    def _note_late(self, work: "asyncio.Future[_Outcome]") -> None:
        _stopping.discard(work)
        if not work.cancelled():
            extra = {"action": "tool_ended_late", "tool": self._tool.name}
            logger.info(
                "A tool ended after its call; its result is ignored.", exc_info=work.result().error, extra=extra
            )


_stopping: set["asyncio.Future[_Outcome]"] = set()  # the loop itself holds tasks only weakly


def _outcome(work: "asyncio.Future[_Outcome]") -> _Outcome:
    if work.cancelled():
        return _Outcome(error=asyncio.CancelledError("The tool cancelled itself."))
    return work.result()


def _in_task(tool: Tool, values: dict[str, Any]) -> "asyncio.Future[_Outcome]":
    async def work() -> _Outcome:
        try:
            return _Outcome(output=_text(await tool.function(**values)))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  # SystemExit in a task would end the server
            return _Outcome(error=error)

    return asyncio.create_task(work(), name=f"tool {tool.name}")


def _in_thread(tool: Tool, values: dict[str, Any]) -> "asyncio.Future[_Outcome]":
    def work() -> _Outcome:
        try:
            return _Outcome(output=_text(tool.function(**values)))
        except BaseException as error:  # noqa: BLE001  # a thread has nobody above it to tell
            return _Outcome(error=error)

    try:
        return in_thread(work, name=f"tool {tool.name}")
    except RuntimeError as error:  # no thread to be had
        ended: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        ended.set_result(_Outcome(error=error))
        return ended


def _text(value: Any) -> str:
    return _capped(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    """What JSON has no form for: models, dataclasses, dates and sets as pydantic writes them, the rest as `str`."""
    return to_jsonable_python(value, fallback=str)


def _described(error: BaseException) -> str:
    return _capped("".join(traceback.format_exception_only(error)).strip())


def _capped(text: str) -> str:
    """At most `MAX_OUTPUT_CHARS`, and a word on what was cut; nothing that a database or a wire refuses."""
    cut = len(text) - MAX_OUTPUT_CHARS
    kept = text[:MAX_OUTPUT_CHARS].encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"{kept}\n[{cut} more characters were cut.]" if cut > 0 else kept
