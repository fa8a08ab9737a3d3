"""A turn that runs away is ended by its limits: an error with a code, its partial kept, and nothing after it."""

from typing import Any

import pytest
from pytest_django import Settings

from chat import again
from chat.admission import Owner, Queued
from chat.models import AgentRole
from kernel.events import ToolState
from kernel.llm import catalog
from kernel.llm.model import CallDelta, Delta, Finished
from kernel.models import ExecutionRecord
from kernel.tools import Toolbox, tool
from tests.chat.live_studio import Studio
from tests.fakes import Gate, words
from tests.kernel.live import db
from tests.provider_script import problems

LONG = [Delta(kind="text", text="x" * 400), Gate()]


@tool
async def look() -> str:
    """Look around."""
    return "nothing new"


@pytest.fixture(autouse=True)
def small_limits(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.STUDIO_MAX_OUTPUT_TOKENS = 100
    settings.STUDIO_MAX_COST_USD = 0.5
    settings.STUDIO_MAX_REPEATED_CALLS = 2
    settings.STUDIO_TOOLS_CHOSEN = True
    monkeypatch.setattr("chat.answering.toolbox", lambda: Toolbox([look]))


def looking() -> list[Any]:
    return [CallDelta(index=0, call_id="c", name="look", arguments="{}"), Finished(reason="tool_calls")]


async def continued(studio: Studio, result: dict[str, Any]) -> dict[str, Any]:
    """Continue the answer, and return the end of what came of it."""
    record = await db(lambda: ExecutionRecord.objects.get(pk=result["executionId"]))
    assert record.user_id is not None
    admitted: list[Any] = []

    def admit(owner: Owner) -> Any:
        return again.continue_answer("s", record.user_id, result["messageId"], "r", owner)

    await studio.turns.start("s", record.user_id, admit, admitted.append)
    return await studio.result(admitted[0])


async def test_too_long_an_answer_ends_in_an_error_with_its_code_and_its_partial(studio: Studio) -> None:
    studio.answers(LONG)
    result = await studio.result(await studio.send())
    assert (result["ok"], result["status"], result["finishReason"]) == (False, "error", "max_output_tokens")
    assert "100 output tokens" in result["error"]
    assert "abortReason" not in result
    assert result["text"] == "x" * 400
    assert studio.model.open == 0
    [settled] = [f["message"] for f in studio.of("message") if f["message"]["status"] == "error"]
    assert settled["finishReason"] == "max_output_tokens"
    assert settled["usage"]["outputTokens"] == 100
    record = await db(ExecutionRecord.objects.get)
    assert (record.status, record.finish_reason) == ("error", "max_output_tokens")


async def test_too_dear_an_answer_ends_so_too(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "price", lambda _model, _sent, received: received / 100)
    studio.answers([Delta(kind="text", text="x" * 240), Gate()])
    result = await studio.result(await studio.send())
    assert (result["status"], result["finishReason"]) == ("error", "max_cost")
    assert result["usage"]["costUsd"] == 0.6


async def test_the_same_call_over_and_over_ends_so_too_and_says_that_it_was_not_run(studio: Studio) -> None:
    studio.answers(*[looking()] * 8)
    result = await studio.result(await studio.send())
    assert (result["status"], result["finishReason"], result["steps"]) == ("error", "repeated_call", 3)
    [settled] = [f["message"] for f in studio.of("message") if f["message"]["status"] == "error"]
    tools = [part for part in settled["parts"] if part["kind"] == "tool"]
    assert [part["state"] for part in tools] == [ToolState.COMPLETED, ToolState.COMPLETED, ToolState.ERROR]
    assert tools[-1]["error"].startswith("Not run:")


async def test_nothing_is_sent_by_itself_after_it(studio: Studio) -> None:
    gate = Gate()
    studio.answers([gate, *LONG])
    started = await studio.send()
    await gate.reached.wait()
    queued = await studio.send("waits")
    assert isinstance(queued, Queued)
    gate.open()
    await studio.result(started)
    assert [item.text for item in await db(lambda: list(queued.session.queue.all()))] == ["waits"]
    assert len(studio.model.requests) == 1


@pytest.mark.parametrize("script", [LONG, looking()], ids=["text", "calls"])
async def test_it_is_continued_with_a_new_allowance(script: list[Any], studio: Studio) -> None:
    studio.answers(*[script] * (1 if script is LONG else 3), words(1))
    result = await studio.result(await studio.send())
    assert result["status"] == "error"
    assert (await continued(studio, result))["status"] == "completed"
    request = studio.model.requests[-1]
    assert problems(request.messages) == []
    assert "incomplete" in request.messages[0]["content"]


async def test_a_roles_limits_hold_instead_of_the_servers(studio: Studio) -> None:
    roles = AgentRole.objects.create
    short = await db(lambda: roles(name="short", max_output_tokens=10))
    long = await db(lambda: roles(name="long", max_output_tokens=1000))
    studio.answers(LONG, [Delta(kind="text", text="x" * 800), Finished(reason="stop")])
    assert (await studio.result(await studio.send(role_id=str(short.pk))))["usage"]["outputTokens"] == 100
    assert (await studio.result(await studio.send("again", role_id=str(long.pk))))["status"] == "completed"
    errors = [f["error"] for f in studio.of("result") if "error" in f]
    assert ["10 output tokens" in error for error in errors] == [True]


async def test_without_limits_nothing_is_ended(studio: Studio, settings: Settings) -> None:
    settings.STUDIO_MAX_OUTPUT_TOKENS = settings.STUDIO_MAX_COST_USD = settings.STUDIO_MAX_REPEATED_CALLS = None
    studio.answers(*[looking()] * 5, [Delta(kind="text", text="x" * 10_000), Finished(reason="stop")])
    assert (await studio.result(await studio.send()))["status"] == "completed"
