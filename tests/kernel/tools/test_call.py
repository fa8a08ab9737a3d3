"""Running calls: every end has its result, and no tool holds up a stop."""

import asyncio
import contextvars
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from kernel.abort import AbortController, AbortReason, AbortSignal
from kernel.events import ToolState
from kernel.tools import RunContext, Tool, Toolbox, tool
from kernel.tools import call as call_module
from kernel.tools.call import CallResult, run_call
from tests.waiting import READY_TIMEOUT_S

RUN = contextvars.ContextVar("RUN", default="none")
CONTEXT = RunContext(execution_id="e", session_key="s", user_id=7)


class Call:
    """One call in a task of its own, as in a run: `controller` aborts it, `results` is what `on_result` was told."""

    def __init__(self, function: Tool, arguments: dict[str, Any] | str = "", *, limit_s: float = READY_TIMEOUT_S):
        self.controller = AbortController()
        self.results: list[CallResult] = []
        self.task = asyncio.create_task(
            run_call(
                Toolbox([function]),
                name=function.name,
                arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
                signal=self.controller.signal,
                run=CONTEXT,
                default_timeout_s=limit_s,
                on_result=self.results.append,
            )
        )

    async def result(self) -> CallResult:
        """The result, which `on_result` was told exactly once, too."""
        result = await asyncio.wait_for(self.task, READY_TIMEOUT_S)
        assert self.results == [result]
        return result

    async def cancelled(self) -> CallResult:
        """The result of a call that passed its cancellation on."""
        await asyncio.wait({self.task}, timeout=READY_TIMEOUT_S)
        assert self.task.cancelled()
        [result] = self.results
        return result


async def ready(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), READY_TIMEOUT_S)


def tasks_named(name: str) -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == name]


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_module, "GRACE_S", 0.1)


@pytest.fixture
def block() -> Iterator[threading.Event]:
    """What a blocking tool waits for; let go at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


class Hanging:
    """An async tool that waits for ever, or until it is released; `deaf` ignores every cancellation."""

    def __init__(self, *, deaf: bool = False):
        self.started, self.ignored, self._released = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._deaf = deaf
        self.tool = tool(name="hang")(self._hang)

    def release(self) -> None:
        self._released.set()

    async def _hang(self) -> str:
        self.started.set()
        while not self._released.is_set():
            try:
                await self._released.wait()
            except asyncio.CancelledError:
                if not self._deaf:
                    raise
                self.ignored.set()
        return "late"


@pytest.fixture
async def hanging() -> AsyncIterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.release()


@pytest.fixture
async def deaf(short_grace: None) -> AsyncIterator[Hanging]:
    deaf = Hanging(deaf=True)
    yield deaf
    deaf.release()


def blocking(block: threading.Event) -> tuple[Tool, asyncio.Event]:
    """A sync tool that blocks its thread."""
    loop, started = asyncio.get_running_loop(), asyncio.Event()

    @tool
    def wait() -> str:
        loop.call_soon_threadsafe(started.set)
        block.wait(READY_TIMEOUT_S)
        return "late"

    return wait, started


class Point(BaseModel):
    x: int
    on: date | None = None


@tool
def echo(value: Any) -> Any:
    """Say the same."""
    return value


@tool
async def shift(point: Point, by: int) -> Point:
    """Move a point."""
    return point.model_copy(update={"x": point.x + by})


def explode(value: int) -> int:
    raise LookupError("broken check")


class TestCalling:
    @pytest.mark.parametrize(
        ("value", "output"),
        [("text", "text"), ("", ""), (None, "null"), ({"ключ": [1, 2]}, '{"ключ": [1, 2]}'), (True, "true")],
    )
    async def test_text_goes_to_the_model_as_it_is_and_the_rest_as_json(self, value: Any, output: str) -> None:
        result = await Call(echo, {"value": value}).result()
        assert (result.state, result.output, result.error) == (ToolState.COMPLETED, output, None)
        assert result.input == {"value": value}

    async def test_arguments_and_results_have_the_types_of_the_hints(self) -> None:
        result = await Call(shift, {"point": {"x": "1", "on": "2026-03-01"}, "by": 2}).result()
        assert (result.state, result.output) == (ToolState.COMPLETED, '{"x": 3, "on": "2026-03-01"}')

    async def test_no_arguments_at_all_are_an_empty_object(self) -> None:
        assert (await Call(tool(name="none")(lambda: "ran"), "  ").result()).output == "ran"

    @pytest.mark.parametrize(
        "arguments", ["{", "[1]", "null", '{"value": NaN}', '{"value": 1e999}', "[" * 9999, "\ud800"]
    )
    async def test_arguments_that_are_no_json_object_are_an_error_for_the_model(self, arguments: str) -> None:
        result = await Call(echo, arguments).result()
        assert (result.state, result.input, result.output) == (ToolState.ERROR, {}, None)
        assert "JSON" in str(result.error)

    async def test_each_argument_that_does_not_fit_is_named(self) -> None:
        result = await Call(shift, {"point": {"x": "one"}, "more": 1}).result()
        assert result.state is ToolState.ERROR
        assert result.error is not None
        lines = result.error.splitlines()
        assert [line.partition(":")[0] for line in lines[1:]] == ["- point.x", "- by", "- more"]

    async def test_a_check_that_itself_fails_is_an_error_of_the_tool(self, caplog: pytest.LogCaptureFixture) -> None:
        @tool
        def count(value: Annotated[int, AfterValidator(explode)]) -> int:
            return value

        result = await Call(count, {"value": 1}).result()
        assert (result.state, result.error) == (ToolState.ERROR, "LookupError: broken check")
        assert caplog.records[0].exc_info is not None

    async def test_an_unknown_tool_is_answered_with_those_there_are(self) -> None:
        signal = AbortController().signal
        result = await run_call(
            Toolbox([echo]), name="ech", arguments="{}", signal=signal, run=CONTEXT, default_timeout_s=1
        )
        assert (result.state, result.error) == (ToolState.ERROR, "There is no tool 'ech'. The tools are: echo.")

    @pytest.mark.parametrize("error", [ValueError("boom"), SystemExit("boom"), GeneratorExit("boom")])
    @pytest.mark.parametrize("is_async", [True, False])
    async def test_what_a_tool_raises_is_told_to_the_model_without_its_traceback(
        self, error: BaseException, is_async: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail() -> str:
            raise error

        async def fail_async() -> str:
            raise error

        result = await Call(tool(name="fail")(fail_async if is_async else fail)).result()
        assert result.state is ToolState.ERROR
        assert "boom" in str(result.error)
        assert "Traceback" not in str(result.error)
        assert "Traceback" in caplog.text

    @pytest.mark.parametrize("is_async", [True, False])
    async def test_a_tool_that_cancels_itself_is_an_error_and_cancels_nothing_else(self, is_async: bool) -> None:
        def give_up() -> str:
            raise asyncio.CancelledError

        async def give_up_async() -> str:
            raise asyncio.CancelledError

        result = await Call(tool(name="give_up")(give_up_async if is_async else give_up)).result()
        assert result.state is ToolState.ERROR

    async def test_a_result_that_json_cannot_say_is_an_error(self) -> None:
        @tool
        def loop() -> Any:
            ring: list[Any] = []
            ring.append(ring)
            return ring

        assert (await Call(loop).result()).state is ToolState.ERROR

    async def test_long_output_is_cut_and_says_how_much_is_missing(self) -> None:
        result = await Call(tool(name="long")(lambda: "x" * (call_module.MAX_OUTPUT_CHARS + 7))).result()
        assert result.output == "x" * call_module.MAX_OUTPUT_CHARS + "\n[7 more characters were cut.]"

    async def test_output_holds_nothing_that_cannot_be_stored_or_sent(self) -> None:
        result = await Call(tool(name="odd")(lambda: "a\0b\ud800c")).result()
        assert result.output == "a\N{REPLACEMENT CHARACTER}b?c"

    async def test_a_sync_tool_runs_in_a_thread_with_the_context_of_the_run(self) -> None:
        @tool
        def where() -> str:
            return f"{RUN.get()} {threading.current_thread() is threading.main_thread()}"

        RUN.set("mine")
        assert (await Call(where).result()).output == "mine False"


class TestStopping:
    async def test_a_cancellation_ends_the_tool_and_passes_on(self, hanging: Hanging) -> None:
        call = Call(hanging.tool)
        await ready(hanging.started)
        call.task.cancel()
        result = await call.cancelled()
        assert (result.state, result.error) == (ToolState.ABORTED, call_module.STOPPED)

    async def test_an_abort_without_a_cancellation_ends_the_call_too(self, hanging: Hanging) -> None:
        call = Call(hanging.tool)
        await ready(hanging.started)
        call.controller.abort(AbortReason.SESSION_STOP)
        assert (await call.result()).state is ToolState.ABORTED

    async def test_after_an_abort_no_tool_is_started(self) -> None:
        ran: list[str] = []
        call = Call(tool(name="run")(lambda: ran.append("ran")))
        call.controller.abort(AbortReason.PANIC_STOP)
        assert (await call.result()).error == call_module.NOT_STARTED
        assert ran == []

    async def test_a_cancellation_in_the_first_instant_leaves_nothing_running(self, hanging: Hanging) -> None:
        call = Call(hanging.tool)
        await asyncio.sleep(0)  # the call has begun, its tool has not
        call.task.cancel()
        assert (await call.cancelled()).state is ToolState.ABORTED
        assert not tasks_named("tool hang")

    async def test_a_tool_that_swallows_its_cancellation_is_left_behind_as_unstoppable(self, deaf: Hanging) -> None:
        call = Call(deaf.tool)
        await ready(deaf.started)
        call.task.cancel()
        result = await call.cancelled()
        assert (result.state, result.error) == (ToolState.UNSTOPPABLE, call_module.UNSTOPPABLE)

    async def test_cancels_during_the_grace_neither_shorten_it_nor_get_lost(self, deaf: Hanging) -> None:
        call = Call(deaf.tool)
        await ready(deaf.started)
        for _ in range(5):
            call.task.cancel()
            await asyncio.sleep(0)
        assert (await call.cancelled()).state is ToolState.UNSTOPPABLE

    async def test_a_cancel_that_comes_while_an_aborted_tool_has_its_grace_is_passed_on(self, deaf: Hanging) -> None:
        call = Call(deaf.tool)
        await ready(deaf.started)
        call.controller.abort(AbortReason.SESSION_STOP)
        await ready(deaf.ignored)
        call.task.cancel()
        assert (await call.cancelled()).state is ToolState.UNSTOPPABLE

    @pytest.mark.usefixtures("short_grace")
    async def test_a_tool_that_swallows_one_cancellation_is_asked_again_on_leaving(self) -> None:
        started, ignored = asyncio.Event(), asyncio.Event()

        @tool
        async def careless() -> None:
            for heard in (started, ignored):
                heard.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

        call = Call(careless)
        await ready(started)
        [work] = tasks_named("tool careless")
        call.task.cancel()
        assert (await call.cancelled()).state is ToolState.UNSTOPPABLE
        await asyncio.wait({work}, timeout=READY_TIMEOUT_S)
        assert work.done()

    async def test_a_late_result_is_noted_and_changes_nothing(
        self, deaf: Hanging, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        call = Call(deaf.tool)
        await ready(deaf.started)
        call.controller.abort(AbortReason.SESSION_STOP)
        result = await call.result()
        [work] = tasks_named("tool hang")
        deaf.release()
        await asyncio.wait({work}, timeout=READY_TIMEOUT_S)
        await asyncio.sleep(0)
        assert call.results == [result]
        assert [record.action for record in caplog.records] == ["tool_ended_late"]
        assert work not in call_module._stopping

    async def test_the_clean_up_of_a_cancelled_tool_is_waited_for(self) -> None:
        started, cleaned = asyncio.Event(), []

        @tool
        async def careful() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                cleaned.append("closed")

        call = Call(careful)
        await ready(started)
        call.task.cancel()
        await call.cancelled()
        assert cleaned == ["closed"]

    async def test_a_result_in_the_instant_of_the_stop_still_counts(self, hanging: Hanging) -> None:
        call = Call(hanging.tool)
        await ready(hanging.started)
        hanging.release()
        await asyncio.sleep(0)  # the tool has returned, the call has not yet heard of it
        call.task.cancel()
        result = await call.cancelled()
        assert (result.state, result.output) == (ToolState.COMPLETED, "late")

    async def test_an_abort_leaves_a_blocked_thread_at_once_and_says_so(self, block: threading.Event) -> None:
        wait, started = blocking(block)
        call = Call(wait)
        await ready(started)
        call.task.cancel()
        assert (await call.cancelled()).state is ToolState.UNSTOPPABLE
        assert not block.is_set()

    async def test_stuck_threads_do_not_hold_up_later_calls(self, block: threading.Event) -> None:
        for _ in range(40):
            wait, started = blocking(block)
            call = Call(wait)
            await ready(started)
            call.controller.abort(AbortReason.SESSION_STOP)
            await call.result()
        assert (await Call(echo, {"value": "free"}).result()).output == "free"

    async def test_a_sync_tool_that_heeds_its_signal_is_stopped(self) -> None:
        loop, started = asyncio.get_running_loop(), asyncio.Event()

        @tool
        def poll(signal: AbortSignal) -> str:
            loop.call_soon_threadsafe(started.set)
            while not signal.aborted:
                threading.Event().wait(0.001)
            return str(signal.reason)

        call = Call(poll)
        await ready(started)
        call.controller.abort(AbortReason.USER_INTERRUPT)
        assert (await call.result()).state is ToolState.ABORTED

    async def test_the_signal_of_a_tool_tells_the_reason_of_the_abort(self) -> None:
        started, reasons = asyncio.Event(), []

        @tool
        async def listen(signal: AbortSignal) -> None:
            signal.listen(lambda abort: reasons.append((abort.reason, abort.by)))
            started.set()
            await asyncio.Event().wait()

        call = Call(listen)
        await ready(started)
        call.controller.abort(AbortReason.SESSION_STOP, by="ann")
        await call.result()
        assert reasons == [(AbortReason.SESSION_STOP, "ann")]


class TestLimit:
    async def test_an_async_tool_over_its_limit_is_stopped_and_an_error_for_the_model(self, hanging: Hanging) -> None:
        result = await Call(hanging.tool, limit_s=0.01).result()
        assert (result.state, result.error) == (ToolState.ERROR, "The tool ran longer than 0.01 s.")

    async def test_the_limit_of_the_tool_comes_before_the_configured_one(self) -> None:
        @tool(timeout_s=0.02)
        async def slow() -> None:
            await asyncio.Event().wait()

        assert (await Call(slow).result()).error == "The tool ran longer than 0.02 s."

    async def test_a_blocked_thread_over_its_limit_is_an_error_that_says_it_goes_on(
        self, block: threading.Event
    ) -> None:
        wait, _ = blocking(block)
        result = await Call(wait, limit_s=0.01).result()
        assert result.state is ToolState.ERROR
        assert str(result.error).endswith(call_module.UNSTOPPABLE)

    async def test_a_deaf_tool_over_its_limit_is_an_error_that_says_it_goes_on(self, deaf: Hanging) -> None:
        result = await Call(deaf.tool, limit_s=0.01).result()
        assert result.state is ToolState.ERROR
        assert str(result.error).endswith(call_module.UNSTOPPABLE)

    async def test_the_signal_of_a_tool_falls_on_its_limit_and_that_of_the_run_does_not(self) -> None:
        reasons = []

        @tool
        async def listen(signal: AbortSignal) -> None:
            signal.listen(lambda abort: reasons.append(abort.reason))
            await asyncio.Event().wait()

        call = Call(listen, limit_s=0.01)
        await call.result()
        assert reasons == [AbortReason.TIMEOUT]
        assert not call.controller.signal.aborted


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_tool_that_asks_whose_run_it_is_is_told(kind: str) -> None:
    @tool(name="whose")
    async def in_task(run: RunContext) -> str:
        return f"{run.user_id} {run.session_key} {run.execution_id}"

    @tool(name="whose")
    def in_thread(run: RunContext) -> str:
        return f"{run.user_id} {run.session_key} {run.execution_id}"

    assert (await Call(in_task if kind == "async" else in_thread).result()).output == "7 s e"


async def test_a_model_cannot_say_whose_run_it_is() -> None:
    @tool
    async def whose(run: RunContext) -> str:
        return str(run.user_id)

    result = await Call(whose, {"run": {"user_id": 8}}).result()
    assert result.state is ToolState.ERROR
    assert "run" in str(result.error)
