"""Defining tools, running calls under a signal, and the child processes of tools."""

import asyncio
import contextvars
import json
import logging
import os
import re
import select
import sys
import threading
import types
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from kernel import process, toolrun
from kernel.abort import AbortController, AbortReason, AbortSignal, ExecutionAborted
from kernel.events import ToolState
from kernel.process import run_process
from kernel.toolrun import CallResult, run_call
from kernel.tools import Tool, Toolbox, ToolDefinitionError, tool
from tests.waiting import READY_TIMEOUT_S

RUN = contextvars.ContextVar("RUN", default="none")


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
    monkeypatch.setattr(toolrun, "GRACE_S", 0.02)


@pytest.fixture
def block() -> Iterator[threading.Event]:
    """What a blocking tool waits for; let go at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


class Hanging:
    """An async tool that waits for ever, or until it is released; `deaf` ignores every cancellation."""

    def __init__(self, *, deaf: bool = False):
        self.started, self._released = asyncio.Event(), asyncio.Event()
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


class TestDefining:
    def test_the_hints_and_the_docstring_make_the_spec(self) -> None:
        @tool
        def search(query: str, kind: Literal["page", "file"] = "page", limit: Annotated[int, Field(ge=1)] = 5) -> str:
            """Search the archive.

            Args:
                query: What to look for,
                    in any language.
                limit (int): How many to return.

            Returns the best first.
            """
            return query

        assert search.spec == {
            "type": "function",
            "function": {
                "name": "search",
                "description": "Search the archive.\n\nReturns the best first.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "query": {"type": "string", "description": "What to look for, in any language."},
                        "kind": {"type": "string", "enum": ["page", "file"], "default": "page"},
                        "limit": {"type": "integer", "minimum": 1, "default": 5, "description": "How many to return."},
                    },
                    "required": ["query"],
                    "additionalProperties": False,
                },
            },
        }

    def test_a_tool_without_parameters_has_an_empty_object_for_a_schema(self) -> None:
        @tool
        def now() -> str:
            return "now"

        assert now.schema == {"type": "object", "properties": {}, "additionalProperties": False}

    def test_a_decorated_function_is_still_called_as_one(self) -> None:
        @tool(name="plus", timeout_s=3)
        def add(a: int, b: int = 1) -> int:
            return a + b

        assert (add(2), add.name, add.timeout_s) == (3, "plus", 3)

    def test_the_signal_is_not_in_the_schema(self) -> None:
        @tool
        async def fetch(url: str, signal: AbortSignal | None = None) -> str:
            return url

        assert (list(fetch.schema["properties"]), fetch.takes_signal) == (["url"], True)

    def test_a_parameter_that_is_only_called_signal_belongs_to_the_model(self) -> None:
        @tool
        def measure(signal: str) -> str:
            return signal

        assert (list(measure.schema["properties"]), measure.takes_signal) == (["signal"], False)

    def test_names_that_pydantic_keeps_for_itself_are_good_names(self) -> None:
        @tool
        def save(copy: bool, schema: str, _hidden: int = 1) -> str:
            return f"{copy} {schema} {_hidden}"

        assert save(**save.validate({"copy": True, "schema": "s", "_hidden": 2})) == "True s 2"

    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(lambda: tool(name="not a name")(lambda: ""), id="name"),
            pytest.param(lambda: tool(name="n", timeout_s=0)(lambda: ""), id="timeout"),
            pytest.param(lambda: tool(name="n")(lambda anything: ""), id="no hint"),
            pytest.param(lambda: tool(name="n")(lambda *anything: ""), id="no name to give"),
            pytest.param(lambda: tool(_yields), id="yields"),
            pytest.param(lambda: tool(_hinted_with("Nowhere")), id="unknown hint"),
            pytest.param(lambda: tool(_hinted_with(threading.Event)), id="hint without a schema"),
        ],
    )
    def test_what_no_provider_would_accept_is_refused_where_it_is_defined(self, make: Callable[[], Any]) -> None:
        with pytest.raises(ToolDefinitionError):
            make()

    def test_the_examples_of_the_docs_are_tools(self) -> None:
        pages = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
        for example in re.findall(r"```python\n(.+?)```", pages, re.DOTALL):
            defined: dict[str, Any] = {}
            exec(example, defined)
            assert [each.name for each in Toolbox(t for t in defined.values() if isinstance(t, Tool))]


def _yields() -> Iterator[str]:
    yield ""


def _hinted_with(hint: Any) -> Callable[..., str]:
    def function(thing: Any) -> str:
        return str(thing)

    function.__annotations__["thing"] = hint
    return function


class TestToolbox:
    @pytest.fixture
    def module(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
        def make(name: str, *names: str, **imported: Tool) -> str:
            made = types.ModuleType(name)
            for each in names:
                function = types.FunctionType((lambda: "").__code__, {"__name__": name}, each)
                setattr(made, each, tool(name=each)(function))
            vars(made).update(imported)
            monkeypatch.setitem(sys.modules, name, made)
            return name

        return make

    def test_it_gathers_the_tools_of_all_modules(self, module: Callable[..., str]) -> None:
        toolbox = Toolbox.load([module("tools_a", "one", "two"), module("tools_b", "three")])
        assert [each.name for each in toolbox] == ["one", "two", "three"]
        assert len(toolbox) == 3
        assert "two" in toolbox
        assert toolbox.get("four") is None
        assert [spec["function"]["name"] for spec in toolbox.specs()] == ["one", "two", "three"]

    def test_a_tool_that_a_module_only_imports_is_not_offered(self, module: Callable[..., str]) -> None:
        module("tools_elsewhere", "borrowed")
        borrowed = sys.modules["tools_elsewhere"].borrowed
        assert "borrowed" not in Toolbox.load([module("tools_own", "own", borrowed=borrowed)])

    def test_a_package_may_show_the_tools_of_its_own_modules(self, module: Callable[..., str]) -> None:
        module("pack.inner", "deep")
        deep = sys.modules["pack.inner"].deep
        assert "deep" in Toolbox.load([module("pack", deep=deep)])

    def test_two_tools_of_one_name_are_refused_with_both_their_places(self, module: Callable[..., str]) -> None:
        with pytest.raises(ToolDefinitionError, match=r"'same'.*tools_a.*tools_b"):
            Toolbox.load([module("tools_a", "same"), module("tools_b", "same")])

    def test_a_module_named_twice_counts_once(self, module: Callable[..., str]) -> None:
        assert len(Toolbox.load([module("tools_a", "one"), "tools_a"])) == 1

    def test_a_module_that_cannot_be_imported_is_named(self) -> None:
        with pytest.raises(ToolDefinitionError, match="'no_such_module'"):
            Toolbox.load(["no_such_module"])

    def test_a_module_without_tools_is_named(self) -> None:
        with pytest.raises(ToolDefinitionError, match="'json' defines no tool"):
            Toolbox.load(["json"])

    def test_a_choice_keeps_what_is_there_in_the_order_of_the_choice(self, module: Callable[..., str]) -> None:
        toolbox = Toolbox.load([module("tools_a", "one", "two", "three")])
        assert [each.name for each in toolbox.only(["three", "gone", "one"])] == ["three", "one"]


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
        result = await run_call(Toolbox([echo]), name="ech", arguments="{}", signal=signal, default_timeout_s=1)
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
        result = await Call(tool(name="long")(lambda: "x" * (toolrun.MAX_OUTPUT_CHARS + 7))).result()
        assert result.output == "x" * toolrun.MAX_OUTPUT_CHARS + "\n[7 more characters were cut.]"

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
        assert (result.state, result.error) == (ToolState.ABORTED, toolrun.STOPPED)

    async def test_an_abort_without_a_cancellation_ends_the_call_too(self, hanging: Hanging) -> None:
        call = Call(hanging.tool)
        await ready(hanging.started)
        call.controller.abort(AbortReason.SESSION_STOP)
        assert (await call.result()).state is ToolState.ABORTED

    async def test_after_an_abort_no_tool_is_started(self) -> None:
        ran: list[str] = []
        call = Call(tool(name="run")(lambda: ran.append("ran")))
        call.controller.abort(AbortReason.PANIC_STOP)
        assert (await call.result()).error == toolrun.NOT_STARTED
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
        assert (result.state, result.error) == (ToolState.UNSTOPPABLE, toolrun.UNSTOPPABLE)

    async def test_cancels_during_the_grace_neither_shorten_it_nor_get_lost(self, deaf: Hanging) -> None:
        call = Call(deaf.tool)
        await ready(deaf.started)
        for _ in range(5):
            call.task.cancel()
            await asyncio.sleep(0)
        assert (await call.cancelled()).state is ToolState.UNSTOPPABLE

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
        assert work not in toolrun._stopping

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
        assert str(result.error).endswith(toolrun.UNSTOPPABLE)

    async def test_a_deaf_tool_over_its_limit_is_an_error_that_says_it_goes_on(self, deaf: Hanging) -> None:
        result = await Call(deaf.tool, limit_s=0.01).result()
        assert result.state is ToolState.ERROR
        assert str(result.error).endswith(toolrun.UNSTOPPABLE)

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


class PidPipe:
    """A named pipe into which a script writes the id of a process."""

    def __init__(self, path: Path):
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    async def read(self) -> int:
        written = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, written.set)
        await ready(written)
        loop.remove_reader(self._fd)
        return int(os.read(self._fd, 100))

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def pid_pipe(tmp_path: Path) -> Iterator[PidPipe]:
    pipe = PidPipe(tmp_path / "pid")
    yield pipe
    pipe.close()


def ends(pid: int) -> bool:
    """Whether the process has ended, or is about to."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], READY_TIMEOUT_S)[0])
    finally:
        os.close(handle)


def children() -> set[int]:
    """The processes that this one has started and not yet buried."""
    return {int(pid) for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()}


class TestProcess:
    @pytest.fixture
    def signal(self) -> AbortSignal:
        return AbortController().signal

    async def test_it_returns_what_the_program_wrote_and_its_code(self, signal: AbortSignal) -> None:
        script = "cat; echo problem >&2; exit 3"
        result = await run_process("sh", "-c", script, signal=signal, timeout_s=READY_TIMEOUT_S, input="привет")
        assert (result.code, result.stdout, result.stderr) == (3, "привет", "problem\n")

    async def test_long_output_is_read_to_its_end_and_cut(
        self, signal: AbortSignal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process, "MAX_STREAM_BYTES", 10)
        result = await run_process("sh", "-c", "yes | head -c 300000", signal=signal, timeout_s=READY_TIMEOUT_S)
        assert (result.code, result.stdout) == (0, "y\n" * 5 + "\n[299990 more bytes were cut.]")

    async def test_a_program_that_does_not_exist_is_an_os_error(self, signal: AbortSignal) -> None:
        with pytest.raises(FileNotFoundError):
            await run_process("no-such-program", signal=signal, timeout_s=READY_TIMEOUT_S)

    async def test_after_an_abort_nothing_is_started(self) -> None:
        controller = AbortController()
        controller.abort(AbortReason.SESSION_STOP)
        with pytest.raises(ExecutionAborted):
            await run_process("true", signal=controller.signal, timeout_s=READY_TIMEOUT_S)

    async def test_the_limit_ends_the_whole_group(self, signal: AbortSignal, pid_pipe: PidPipe) -> None:
        with pytest.raises(TimeoutError):
            await run_process("sh", "-c", f"sleep 300 & echo $! > {pid_pipe.path}; wait", signal=signal, timeout_s=0.5)
        assert ends(await pid_pipe.read())

    async def test_what_a_program_leaves_behind_ends_with_it(self, signal: AbortSignal, pid_pipe: PidPipe) -> None:
        script = f"sleep 300 & echo $! > {pid_pipe.path}; echo done"
        result = await run_process("sh", "-c", script, signal=signal, timeout_s=READY_TIMEOUT_S)
        assert result.stdout == "done\n"
        assert ends(await pid_pipe.read())

    @pytest.mark.parametrize("how", ["cancel", "abort"])
    async def test_a_stop_ends_a_group_that_ignores_sigterm(
        self, how: str, pid_pipe: PidPipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process, "PROCESS_GRACE_S", 0.05)
        controller = AbortController()
        script = f"trap '' TERM; sleep 300 & echo $! > {pid_pipe.path}; wait"
        running = run_process("sh", "-c", script, signal=controller.signal, timeout_s=READY_TIMEOUT_S)
        task = asyncio.create_task(running)
        pid = await pid_pipe.read()
        if how == "cancel":
            task.cancel()
        else:
            controller.abort(AbortReason.SESSION_STOP)
        with pytest.raises(asyncio.CancelledError if how == "cancel" else ExecutionAborted):
            await asyncio.wait_for(task, READY_TIMEOUT_S)
        assert ends(pid)

    async def test_a_cancellation_during_the_start_leaves_no_process(self, signal: AbortSignal) -> None:
        before = children()
        task = asyncio.create_task(run_process("sleep", "300", signal=signal, timeout_s=READY_TIMEOUT_S))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=READY_TIMEOUT_S)
        assert task.cancelled()
        assert all(ends(pid) for pid in children() - before)
