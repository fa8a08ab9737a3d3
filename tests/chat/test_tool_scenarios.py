"""Tools and what people do meanwhile: they steer, stop, and answer a question that nobody waits for any more."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pytest_django import Settings

from chat.live import session_topic
from chat.models import ChatMessage
from kernel.hub import Frame, hub
from kernel.llm.model import CallDelta, Finished
from kernel.tools import Tool, Toolbox, tool
from tests.chat.live_studio import Studio
from tests.fakes import GatedTool, words
from tests.kernel.live import db
from tests.waiting import READY_TIMEOUT_S


def calling(name: str) -> list[Any]:
    return [CallDelta(index=0, call_id="c", name=name, arguments="{}"), Finished(reason="tool_calls")]


def gated(gate: GatedTool) -> Tool:
    @tool(name=gate.name)
    async def wait() -> str:
        """Wait for the test."""
        return await gate()

    return wait


@pytest.fixture
async def mail(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> AsyncIterator[GatedTool]:
    """A tool with effects that cannot be taken back, or one that waits for a person: it ends when the test says so."""
    gate = GatedTool("send_mail", output="sent")
    settings.STUDIO_TOOLS_CHOSEN = True
    monkeypatch.setattr("chat.answering.toolbox", lambda: Toolbox([gated(gate)]))
    yield gate
    gate.release()


async def ready(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), READY_TIMEOUT_S)


async def test_a_message_that_waits_lets_a_tool_with_effects_finish_and_is_sent_after_the_turn(
    studio: Studio, mail: GatedTool
) -> None:
    studio.answers(calling("send_mail"), words(1), words(2))
    first = await studio.send("mail it")
    await ready(mail.started)
    await studio.send("and thank them")
    mail.release()
    assert (await studio.result(first))["status"] == "completed"
    await studio.frame(lambda f: f["type"] == "studio_chat_result" and f["text"] == "w0 w1 ")
    assert (len(mail.calls), mail.cancelled.is_set()) == (1, False)
    system, *_, last = studio.model.requests[-1].messages
    assert last["content"] == "and thank them"
    assert "interrupt" not in system["content"]


async def test_send_now_interrupts_such_a_tool_and_warns_the_model_that_it_may_have_run(
    studio: Studio, mail: GatedTool
) -> None:
    studio.answers(calling("send_mail"), words(1))
    first = await studio.send("mail it")
    await ready(mail.started)
    await studio.send("no, wait", when_busy="interrupt")
    assert (await studio.result(first))["abortReason"] == "user_interrupt"
    await studio.frame(lambda f: f["type"] == "studio_chat_result" and f["text"] == "w0 ")
    await ready(mail.cancelled)
    system, *said, last = studio.model.requests[-1].messages
    assert "These tools may have run: send_mail." in system["content"]
    [result] = [message for message in said if message["role"] == "tool"]
    assert "may have had effects" in result["content"]
    assert last["content"] == "no, wait"


async def test_a_stop_while_a_tool_waits_for_a_person_ends_the_run_for_every_reader_and_a_late_yes_does_nothing(
    studio: Studio, mail: GatedTool
) -> None:
    studio.answers(calling("send_mail"))
    started = await studio.send("mail it when I say yes")
    second_tab: list[dict[str, Any]] = []

    def deliver(frame: Frame) -> None:
        second_tab.append(frame.data)

    topic = session_topic(started.session.pk)
    hub.subscribe(topic, deliver)
    await ready(mail.started)
    studio.execution(started).controller.abort("session_stop", by="ann", source="web")
    result = await studio.result(started)
    hub.unsubscribe(topic, deliver)
    assert result["abortReason"] == "session_stop"
    assert [frame for frame in second_tab if frame["type"] == "studio_chat_result"] == [result]

    row = await db(lambda: ChatMessage.objects.get(pk=result["messageId"]))
    told = len(studio.frames)
    mail.release()  # the person says yes
    await ready(mail.cancelled)
    await asyncio.sleep(0)
    assert not mail.finished.is_set()
    assert len(studio.frames) == told
    after = await db(lambda: ChatMessage.objects.get(pk=result["messageId"]))
    assert (after.parts, after.status) == (row.parts, "aborted")
    assert row.parts[0]["state"] == "aborted"


async def test_a_stop_in_the_third_step_of_an_endless_loop_of_tools_ends_it_there(
    studio: Studio, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = asyncio.Event()
    calls = 0

    @tool
    async def look() -> str:
        """Look around; the third time, for ever."""
        nonlocal calls
        calls += 1
        if calls == 3:
            third.set()
            await asyncio.Event().wait()
        return "nothing new"

    settings.STUDIO_TOOLS_CHOSEN, settings.STUDIO_MAX_STEPS = True, 50
    settings.STUDIO_MAX_REPEATED_CALLS = None
    monkeypatch.setattr("chat.answering.toolbox", lambda: Toolbox([look]))
    studio.answers(*[calling("look")] * 50)
    started = await studio.send()
    await ready(third)
    studio.execution(started).controller.abort("session_stop", by="ann", source="web")
    result = await studio.result(started)
    assert (result["abortReason"], result["steps"], calls) == ("session_stop", 3, 3)
    assert len(studio.model.requests) == 3
    row = await db(lambda: ChatMessage.objects.get(pk=result["messageId"]))
    assert [(part["step"], part["state"]) for part in row.parts] == [
        (1, "completed"),
        (2, "completed"),
        (3, "aborted"),
    ]
