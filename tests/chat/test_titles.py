"""A title is an execution of its own after the first turn: it can be stopped, and its failure costs nothing."""

import asyncio
from typing import Any

import pytest
from pytest_django import Settings

from chat import titles
from chat.models import ChatSession
from chat.titles import wants_title
from kernel.llm.model import Delta, Finished, ModelError
from kernel.models import ExecutionRecord
from tests.chat.live_studio import Studio, hanging
from tests.fakes import words
from tests.kernel.live import db
from tests.waiting import READY_TIMEOUT_S


@pytest.fixture(autouse=True)
def with_titles(studio: Studio, settings: Settings) -> None:
    settings.STUDIO_TITLE_MODEL = "test/titles"


async def title() -> str:
    return (await db(ChatSession.objects.get, key="s")).title


async def title_record() -> ExecutionRecord:
    """The title's execution, once it has ended."""
    ended = ExecutionRecord.objects.filter(kind="title").exclude(status="running")
    async with asyncio.timeout(READY_TIMEOUT_S):
        while not (found := await db(lambda: list(ended.all()))):
            await asyncio.sleep(0)
    return found[0]


async def test_after_the_first_turn_a_model_writes_the_title_and_everyone_is_told(studio: Studio) -> None:
    studio.answers(
        words(2),
        [Delta(kind="text", text=' "Trams of '), Delta(kind="text", text='Lisbon"\nmore'), Finished(reason="stop")],
    )
    await studio.result(await studio.send("Tell me about trams"))
    await studio.frame(lambda f: f["type"] == "studio_chat_session" and f["session"]["title"] == "Trams of Lisbon")
    assert await title() == "Trams of Lisbon"
    record = await title_record()
    assert (record.status, record.session_key, record.model) == ("completed", "s", "test/titles")
    request = studio.model.requests[1]
    assert request.tools == []
    assert request.model == "test/titles"
    assert "Tell me about trams" in request.messages[-1]["content"]
    assert "w0 w1" in request.messages[-1]["content"]


async def test_the_second_turn_writes_no_title(studio: Studio) -> None:
    studio.answers(words(1), words(1, word="title"), words(1))
    await studio.result(await studio.send())
    await title_record()
    await studio.result(await studio.send("again"))
    assert len(studio.model.requests) == 3


async def test_a_title_is_storable_whatever_the_model_says(studio: Studio) -> None:
    cut = [Delta(kind="text", text=text) for text in ("Trams \0 of \ud83d", "\ude8b Lisbon\ud83d")]
    studio.answers(words(1), [*cut, Finished(reason="stop")])
    await studio.result(await studio.send("the first line"))
    await title_record()
    assert await title() == "Trams \ufffd of \U0001f68b Lisbon\ufffd"


@pytest.mark.parametrize("script", [[ModelError("no")], [Finished(reason="stop")]], ids=["a failure", "an empty one"])
async def test_a_title_that_could_not_be_written_leaves_the_first_line(script: list[Any], studio: Studio) -> None:
    studio.answers(words(1), script)
    await studio.result(await studio.send("the first line"))
    await title_record()
    assert await title() == "the first line"


async def test_a_stop_of_the_session_reaches_its_title(studio: Studio) -> None:
    script, gate = hanging()
    studio.answers(words(1), script)
    await studio.result(await studio.send("the first line"))
    async with asyncio.timeout(READY_TIMEOUT_S):
        await gate.reached.wait()
    assert studio.worker.registry.abort_session("s", "session_stop") == 1
    record = await title_record()
    assert (record.status, record.abort_reason) == ("aborted", "session_stop")
    assert studio.model.open == 0
    assert await title() == "the first line"


async def test_a_title_keeps_nobody_from_sending(studio: Studio) -> None:
    script, gate = hanging()
    studio.answers(words(1), script, words(1))
    await studio.result(await studio.send())
    async with asyncio.timeout(READY_TIMEOUT_S):
        await gate.reached.wait()
    await studio.result(await studio.send("next"))


async def test_a_turn_that_was_stopped_asks_for_no_title(studio: Studio) -> None:
    script, gate = hanging()
    studio.answers(script, words(1))
    started = await studio.send()
    await gate.reached.wait()
    studio.execution(started).controller.abort("session_stop")
    await studio.result(started)
    assert not await db(ExecutionRecord.objects.filter(kind="title").exists)
    assert len(studio.model.requests) == 1


@pytest.mark.parametrize(
    ("setting", "model", "wanted"),
    [
        ("", "openai/m", True),
        ("", "demo/scripted", False),
        ("", "local/m", False),
        ("off", "openai/m", False),
        ("openai/small", "demo/scripted", True),
    ],
)
def test_whether_a_model_writes_it(setting: str, model: str, wanted: bool, settings: Settings) -> None:
    settings.STUDIO_TITLE_MODEL = setting
    assert wants_title(model) is wanted


@pytest.mark.parametrize(
    ("said", "clean"),
    [
        ("  A title \n more", "A title"),
        ("«Título»", "Título"),
        ("“A” title", "A” title"),
        ("x" * 99, "x" * 80),
        ("", ""),
    ],
)
def test_a_title_is_one_line_without_quotation_marks(said: str, clean: str) -> None:
    assert titles._clean(said) == clean
