"""The agent's loop with a scripted model: steps, tools, and what is told, counted and kept when it is cut off."""

import asyncio
from typing import Any

import pytest

from kernel import agent
from kernel.abort import ExecutionAborted
from kernel.agent import Agent
from kernel.allowance import MAX_COST, MAX_OUTPUT_TOKENS, REPEATED_CALL, Allowance, LimitReached
from kernel.clocks import Limits
from kernel.events import (
    Event,
    Phase,
    Progress,
    StepFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
    ToolState,
    Usage,
)
from kernel.llm.model import CallDelta, Delta, Finished, ModelError, ModelRequest
from kernel.llm.text import REPLACEMENT
from kernel.registry import Execution
from kernel.tools import RunContext, Toolbox, tool
from tests.fakes import Gate, ScriptedModel, words
from tests.provider_script import problems
from tests.waiting import READY_TIMEOUT_S

FOREVER = Limits(total_s=3600, first_token_s=3600, idle_s=3600)


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool
async def fail() -> str:
    """Fail."""
    raise RuntimeError("out of order")


def text(said: str) -> Delta:
    return Delta(kind="text", text=said)


def call(name: str, arguments: str, *, index: int = 0, call_id: str = "c") -> list[CallDelta]:
    """A call in pieces."""
    half = len(arguments) // 2
    return [
        CallDelta(index=index, call_id=call_id, name=name),
        CallDelta(index=index, arguments=arguments[:half]),
        CallDelta(index=index, arguments=arguments[half:]),
    ]


CALLS = Finished(reason="tool_calls")
STOP = Finished(reason="stop")


class Run:
    """One run of an agent, and everything that can be seen of it."""

    def __init__(
        self,
        *scripts: Any,
        tools: tuple[Any, ...] = (add, fail),
        max_steps: int = 8,
        abort_at_check: int | None = None,
        **more: Any,
    ):
        self.model = ScriptedModel(*scripts)
        self.execution = Execution(id="e")
        self.told: list[Event] = []
        self.checks = 0
        self._abort_at_check = abort_at_check
        self.agent = Agent(
            model=self.model,
            model_name="m",
            history=[{"role": "user", "content": "hello"}],
            system=lambda final: "final" if final else "rules",
            limits=FOREVER,
            tools=Toolbox(tools),
            max_steps=max_steps,
            checkpoint=self.checkpoint,
            **more,
        )

    async def checkpoint(self) -> None:
        self.checks += 1
        if self.checks == self._abort_at_check:
            self.execution.controller.abort("panic_stop")

    async def perform(self) -> str:
        async with asyncio.timeout(READY_TIMEOUT_S):
            return await agent.run(self.agent, self.execution, self.told.append)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]

    @property
    def requests(self) -> list[ModelRequest]:
        return self.model.requests

    def sent(self, number: int) -> list[dict[str, Any]]:
        """The messages of a request that a strict provider must accept, without the system prompt."""
        messages = self.requests[number].messages
        assert problems(messages) == []
        return messages[1:]


# Steps


async def test_an_answer_in_one_step_is_told_delta_by_delta() -> None:
    run = Run(words(3))
    assert await run.perform() == "stop"
    assert run.of(TextDelta) == [TextDelta(step=1, kind="text", text=f"w{i} ") for i in range(3)]
    assert [event.finish_reason for event in run.of(StepFinished)] == ["stop"]
    assert run.execution.steps == 1
    assert run.execution.first_output_s is not None


async def test_the_model_sees_the_system_prompt_the_history_and_the_tools() -> None:
    run = Run(words(1))
    await run.perform()
    [request] = run.requests
    assert request.model == "m"
    assert request.messages == [{"role": "system", "content": "rules"}, {"role": "user", "content": "hello"}]
    assert [each["function"]["name"] for each in request.tools] == ["add", "fail"]


async def test_a_step_with_calls_is_followed_by_one_that_sees_their_results() -> None:
    run = Run([text("let me"), *call("add", '{"a": 1, "b": 2}'), CALLS], words(1))
    assert await run.perform() == "stop"
    asked, result = run.sent(1)[1:]
    assert asked["content"] == "let me"
    assert asked["tool_calls"] == [
        {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    ]
    assert result == {"role": "tool", "tool_call_id": "c", "content": "3"}
    assert run.execution.steps == 2
    assert [event.step for event in run.of(StepFinished)] == [1, 2]


async def test_the_agents_history_is_left_as_it_was() -> None:
    run = Run([*call("add", '{"a": 1, "b": 2}'), CALLS], words(1))
    await run.perform()
    assert run.agent.history == [{"role": "user", "content": "hello"}]


async def test_on_the_last_step_tools_are_withheld_and_the_prompt_says_so() -> None:
    run = Run([*call("add", '{"a": 1, "b": 2}'), CALLS], words(1), max_steps=2)
    await run.perform()
    assert [bool(request.tools) for request in run.requests] == [True, False]
    assert [request.messages[0]["content"] for request in run.requests] == ["rules", "final"]


async def test_a_model_that_calls_without_being_offered_a_tool_is_not_obeyed() -> None:
    run = Run([text("I would"), *call("add", '{"a": 1, "b": 2}'), CALLS], max_steps=1)
    await run.perform()
    assert run.of(ToolFinished) == []
    assert len(run.requests) == 1


async def test_progress_tells_each_phase_with_its_step() -> None:
    run = Run([*call("add", '{"a": 1, "b": 2}'), CALLS], words(1), max_steps=5)
    await run.perform()
    told = [(event.phase, event.step, event.tool) for event in run.of(Progress)]
    assert told == [
        (Phase.WAITING, 1, None),
        (Phase.STREAMING, 1, None),
        (Phase.TOOL, 1, "add"),
        (Phase.WAITING, 2, None),
        (Phase.STREAMING, 2, None),
    ]
    assert {event.max_steps for event in run.of(Progress)} == {5}


async def test_a_retry_is_told_before_and_after_its_wait() -> None:
    run = Run([ModelError("busy", retryable=True, retry_after_s=0.001)], words(1))
    await run.perform()
    told = [(event.phase, event.attempt, event.retry_in_ms) for event in run.of(Progress)]
    assert told[1:3] == [(Phase.RETRYING, 2, 1), (Phase.WAITING, 2, None)]


async def test_half_characters_of_two_deltas_become_one_and_a_lonely_half_is_shown_at_the_end() -> None:
    run = Run([text("a\ud83d"), text("\ude00\0"), text("b\ud83d"), STOP])
    await run.perform()
    assert "".join(event.text for event in run.of(TextDelta)) == f"a😀{REPLACEMENT}b{REPLACEMENT}"


async def test_reasoning_is_told_and_not_sent_back() -> None:
    run = Run([Delta(kind="reasoning", text="hm"), *call("add", '{"a": 1, "b": 2}'), CALLS], words(1))
    await run.perform()
    assert run.of(TextDelta)[0] == TextDelta(step=1, kind="reasoning", text="hm")
    assert run.sent(1)[1]["content"] is None


# Tools


async def test_more_calls_than_one_step_may_make_are_answered_and_not_run() -> None:
    ran: list[int] = []

    @tool
    async def note(number: int) -> str:
        ran.append(number)
        return "noted"

    count = agent.CALLS_MAX + 2
    calls = [piece for n in range(count) for piece in call("note", f'{{"number": {n}}}', index=n, call_id=f"c{n}")]
    run = Run([*calls, CALLS], words(1), tools=(note,))
    await run.perform()
    assert sorted(ran) == list(range(agent.CALLS_MAX))
    refused = [ended.call_id for ended in run.of(ToolFinished) if ended.state is ToolState.ERROR]
    assert refused == [f"c{agent.CALLS_MAX}", f"c{agent.CALLS_MAX + 1}"]
    answers = [message for message in run.sent(1) if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in answers] == [f"c{n}" for n in range(count)]
    assert [message["content"] == "noted" for message in answers] == [True] * agent.CALLS_MAX + [False] * 2


async def test_the_calls_of_one_step_run_together_and_answer_in_order() -> None:
    gates = {"first": Gate(), "second": Gate()}

    @tool
    async def wait(name: str) -> str:
        await gates[name].wait()
        return name

    run = Run(
        [
            *call("wait", '{"name": "first"}', index=0, call_id="c1"),
            *call("wait", '{"name": "second"}', index=1, call_id="c2"),
            CALLS,
        ],
        words(1),
        tools=(wait,),
    )
    performing = asyncio.create_task(run.perform())
    async with asyncio.timeout(READY_TIMEOUT_S):
        for gate in gates.values():
            await gate.reached.wait()
        gates["second"].open()
        while not run.of(ToolFinished):
            await asyncio.sleep(0)
        assert run.of(ToolFinished)[0].call_id == "c2", "told when it ends, not when its turn comes"
        gates["first"].open()
        await performing
    assert [message["content"] for message in run.sent(1)[2:]] == ["first", "second"]
    assert next(event.tool for event in run.of(Progress) if event.phase is Phase.TOOL) == "wait, wait"


async def test_a_call_is_told_when_it_begins_and_again_when_its_input_is_whole() -> None:
    run = Run([*call("add", '{"a": 1, "b": 2}'), CALLS], words(1))
    await run.perform()
    assert [event.input for event in run.of(ToolStarted)] == [None, {"a": 1, "b": 2}]
    [finished] = run.of(ToolFinished)
    assert (finished.state, finished.output, finished.error) == (ToolState.COMPLETED, "3", None)


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("subtract", "{}", "There is no tool 'subtract'"),
        ("add", '{"a": 1', "not valid JSON"),
        ("add", "[1, 2]", "must be a JSON object"),
        ("add", '{"a": 1}', "b"),
        ("fail", "{}", "out of order"),
    ],
    ids=["unknown tool", "bad JSON", "no object", "missing argument", "failing tool"],
)
async def test_what_goes_wrong_with_a_call_is_told_to_the_model_and_the_run_goes_on(
    name: str, arguments: str, error: str
) -> None:
    run = Run([*call(name, arguments), CALLS], words(1))
    assert await run.perform() == "stop"
    [finished] = run.of(ToolFinished)
    assert finished.state is ToolState.ERROR
    assert error in finished.error
    result = run.sent(1)[2]
    assert result["content"].startswith("Error: ")
    assert error in result["content"]


async def test_calls_without_an_id_get_one_each() -> None:
    run = Run(
        [*call("add", '{"a":1,"b":1}', index=0, call_id=""), *call("add", '{"a":2,"b":2}', index=1, call_id=""), CALLS],
        words(1),
    )
    await run.perform()
    asked, *results = run.sent(1)[1:]
    ids = [each["id"] for each in asked["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(ids)
    assert [result["tool_call_id"] for result in results] == ids


async def test_calls_that_share_an_id_are_told_apart() -> None:
    run = Run(
        [*call("add", '{"a":1,"b":1}', index=0), *call("add", '{"a":2,"b":2}', index=1), CALLS],
        words(1),
    )
    await run.perform()
    _, first, second = run.sent(1)[1:]
    assert first["tool_call_id"] != second["tool_call_id"]
    assert (first["content"], second["content"]) == ("2", "4")


async def test_calls_of_two_steps_that_share_an_id_are_told_apart() -> None:
    again = [*call("add", '{"a":1,"b":1}'), CALLS]
    run = Run(again, again, words(1))
    await run.perform()
    ids = [event.call_id for event in run.of(ToolFinished)]
    assert len(set(ids)) == 2
    assert [message["tool_call_id"] for message in run.sent(2) if message["role"] == "tool"] == ids


async def test_a_call_that_never_got_a_name_is_dropped() -> None:
    run = Run([text("hm"), CallDelta(index=0, arguments="{}"), STOP])
    assert await run.perform() == "stop"
    assert run.of(ToolStarted) == []


# Usage


async def test_usage_is_the_sum_over_the_steps() -> None:
    run = Run(
        [*call("add", '{"a":1,"b":1}'), Finished(reason="tool_calls", usage=Usage(input_tokens=10, output_tokens=5))],
        [text("2"), Finished(reason="stop", usage=Usage(input_tokens=20, output_tokens=1, cost_usd=0.5))],
    )
    await run.perform()
    assert run.execution.usage == Usage(input_tokens=30, output_tokens=6, cost_usd=0.5)
    assert [event.usage.input_tokens for event in run.of(StepFinished)] == [10, 20]


async def test_usage_that_was_never_sent_is_estimated_priced_and_marked() -> None:
    run = Run([text("x" * 40), STOP], price=lambda tokens_in, tokens_out: tokens_in + tokens_out / 1000)
    await run.perform()
    usage = run.execution.usage
    assert usage.estimated
    assert usage.output_tokens == 10
    assert usage.input_tokens == -(-len("rules" + "hello") // 4)
    assert usage.cost_usd == usage.input_tokens + 0.01


async def test_an_answer_that_is_cut_off_is_counted_as_far_as_it_came() -> None:
    gate = Gate()
    run = Run([text("x" * 40), CallDelta(index=0, name="add", arguments="y" * 8), gate])
    performing = asyncio.create_task(run.perform())
    await gate.reached.wait()
    performing.cancel()
    await asyncio.wait({performing}, timeout=READY_TIMEOUT_S)
    assert performing.cancelled()
    assert run.execution.usage.estimated
    assert run.execution.usage.output_tokens == 12
    assert run.model.open == 0


async def test_half_a_character_is_kept_when_the_answer_is_cut_off() -> None:
    gate = Gate()
    run = Run([text("a\ud83d"), gate])
    performing = asyncio.create_task(run.perform())
    await gate.reached.wait()
    performing.cancel()
    await asyncio.wait({performing}, timeout=READY_TIMEOUT_S)
    assert "".join(event.text for event in run.of(TextDelta)) == f"a{REPLACEMENT}"


async def test_a_providers_failure_is_raised_with_what_had_arrived_told() -> None:
    run = Run([text("some"), ModelError("broken", retryable=True)])
    with pytest.raises(ModelError, match="broken"):
        await run.perform()
    assert run.of(TextDelta) == [TextDelta(step=1, kind="text", text="some")]
    assert run.execution.usage.estimated


# Aborts


async def test_an_abort_found_between_two_steps_stops_before_the_next_request() -> None:
    run = Run([*call("add", '{"a": 1, "b": 2}'), CALLS], words(1), abort_at_check=1)
    with pytest.raises(ExecutionAborted):
        await run.perform()
    assert len(run.requests) == 1


async def test_every_step_but_the_first_is_checked_before_its_request() -> None:
    run = Run([*call("add", '{"a": 1, "b": 2}'), CALLS], words(1))
    await run.perform()
    assert run.checks == 1


async def test_a_cancel_in_a_tool_ends_the_run_and_tells_how_the_call_ended() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    run = Run([*call("wait", "{}"), CALLS], words(1), tools=(wait,))
    performing = asyncio.create_task(run.perform())
    await started.wait()
    run.execution.controller.abort("session_stop")
    performing.cancel()
    await asyncio.wait({performing}, timeout=READY_TIMEOUT_S)
    assert performing.cancelled()
    assert [event.state for event in run.of(ToolFinished)] == [ToolState.ABORTED]
    assert len(run.requests) == 1


# Limits


async def limit_of(run: Run) -> LimitReached:
    with pytest.raises(LimitReached) as reached:
        await run.perform()
    return reached.value


async def test_an_answer_that_passes_its_output_tokens_is_closed_where_it_stands() -> None:
    never = Gate()
    run = Run([text("x" * 36), text("y" * 8), never, STOP], allowance=Allowance(output_tokens=10))
    assert (await limit_of(run)).finish_reason == MAX_OUTPUT_TOKENS
    assert run.model.open == 0, "its stream is closed"
    assert not never.reached.is_set(), "at once, not when the next piece comes"
    assert "".join(event.text for event in run.of(TextDelta)) == "x" * 36 + "y" * 8, "what had arrived is kept"
    assert (run.execution.usage.output_tokens, run.execution.usage.estimated) == (11, True)


async def test_reasoning_and_arguments_count_as_output_too() -> None:
    run = Run(
        [Delta(kind="reasoning", text="x" * 20), CallDelta(index=0, name="add", arguments="y" * 20), Gate()],
        allowance=Allowance(output_tokens=10),
    )
    assert (await limit_of(run)).finish_reason == MAX_OUTPUT_TOKENS


async def test_an_answer_that_is_whole_stands_whatever_the_provider_counts() -> None:
    run = Run(
        [text("short"), Finished(reason="stop", usage=Usage(output_tokens=500))], allowance=Allowance(output_tokens=10)
    )
    assert await run.perform() == "stop"


async def test_what_a_provider_counts_ends_the_turn_before_its_tools_run() -> None:
    counted = Finished(reason="tool_calls", usage=Usage(output_tokens=10))
    run = Run([*call("add", '{"a": 1, "b": 2}'), counted], allowance=Allowance(output_tokens=10))
    reached = await limit_of(run)
    assert reached.finish_reason == MAX_OUTPUT_TOKENS
    [finished] = run.of(ToolFinished)
    assert (finished.state, finished.error) == (ToolState.ERROR, f"Not run: {reached.message}")
    assert len(run.requests) == 1


async def test_output_tokens_are_those_of_all_steps() -> None:
    run = Run(
        [*call("add", '{"a": 1, "b": 2}'), Finished(reason="tool_calls", usage=Usage(output_tokens=6))],
        [text("x" * 12), text("y" * 4), Gate()],
        allowance=Allowance(output_tokens=10),
    )
    assert (await limit_of(run)).finish_reason == MAX_OUTPUT_TOKENS
    assert run.execution.usage.output_tokens == 10


async def test_an_answer_that_costs_too_much_is_closed_where_it_stands() -> None:
    run = Run(
        [text("x" * 36), text("y" * 4), Gate()],
        allowance=Allowance(cost_usd=1.0),
        price=lambda _input, output: output / 10,
    )
    assert (await limit_of(run)).finish_reason == MAX_COST
    assert run.execution.usage.cost_usd == 1.0


async def test_a_request_that_would_cost_too_much_is_not_made() -> None:
    run = Run(words(1), allowance=Allowance(cost_usd=1.0), price=lambda sent, _output: float(sent))
    assert (await limit_of(run)).finish_reason == MAX_COST
    assert run.requests == []


async def test_a_model_without_a_price_has_no_limit_of_cost() -> None:
    assert await Run(words(100), allowance=Allowance(cost_usd=0.01)).perform() == "stop"


@pytest.mark.parametrize(("most", "asked"), [(None, None), (10, None), (50, 20)], ids=["unknown", "less", "more"])
async def test_the_provider_is_asked_to_keep_to_it_where_the_model_could_do_more(
    most: int | None, asked: int | None
) -> None:
    run = Run(words(1), allowance=Allowance(output_tokens=20), most_tokens=most)
    await run.perform()
    assert run.requests[0].max_output_tokens == asked


async def test_a_provider_that_kept_to_it_has_reached_the_limit() -> None:
    run = Run([text("a"), Finished(reason="length")], allowance=Allowance(output_tokens=20), most_tokens=50)
    assert (await limit_of(run)).finish_reason == MAX_OUTPUT_TOKENS


async def test_a_provider_that_stops_at_a_length_of_its_own_has_reached_no_limit() -> None:
    run = Run([text("a"), Finished(reason="length")], allowance=Allowance(output_tokens=20))
    assert await run.perform() == "length"


async def test_the_same_call_over_and_over_ends_the_turn_and_is_not_run_again() -> None:
    again = [*call("add", '{"a": 1, "b": 2}'), CALLS]
    run = Run(*[again] * 8, allowance=Allowance(repeated_calls=2))
    reached = await limit_of(run)
    assert reached.finish_reason == REPEATED_CALL
    assert [event.state for event in run.of(ToolFinished)] == [ToolState.COMPLETED] * 2 + [ToolState.ERROR]
    assert run.of(ToolFinished)[-1].error == f"Not run: {reached.message}"
    assert len(run.requests) == 3


async def test_a_tool_is_told_whose_run_it_is() -> None:
    @tool
    async def whose(run: RunContext) -> str:
        return f"{run.execution_id} {run.session_key} {run.user_id}"

    run = Run([*call("whose", "{}"), CALLS], words(1), tools=(whose,))
    run.execution.session_key, run.execution.user_id = "s", 7
    await run.perform()
    assert run.of(ToolFinished)[0].output == "e s 7"


async def test_a_burst_that_never_waits_still_lets_the_loop_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "YIELD_S", 0.0)
    run = Run(words(500))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    other = asyncio.create_task(others())
    await run.perform()
    other.cancel()
    assert turns > 400
