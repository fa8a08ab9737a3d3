"""The scripted provider tells the truth: every other test rests on that."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.provider import Provider
from tests.provider_script import directive, problems

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
USER = {"role": "user", "content": "hello"}


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


def request_of(text: str) -> dict[str, Any]:
    options = {"include_usage": True}
    return {"stream": True, "stream_options": options, "messages": [{"role": "user", "content": text}], "tools": [{}]}


async def answer(http: aiohttp.ClientSession, provider: Provider, **orders: Any) -> tuple[int, list[dict[str, Any]]]:
    """Ask and read to the end; return the status and the events."""
    async with http.post(f"{provider.url}/chat/completions", json=request_of(directive(**orders))) as response:
        lines = (await response.text()).splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return response.status, [json.loads(each) for each in data if each != "[DONE]"]


async def test_an_answer_is_booked_as_it_was_sent(http: aiohttp.ClientSession, provider: Provider, name: str) -> None:
    _, events = await answer(http, provider, id=name, n=4)
    record = await provider.wait_closed(name)
    assert (record.end, record.text, len(record.times)) == ("finished", "w0 w1 w2 w3 ", 4)
    assert events[-1]["usage"]["completion_tokens"] == 4


async def test_a_client_that_leaves_is_booked_in_every_phase(
    http: aiohttp.ClientSession, provider: Provider, name: str
) -> None:
    for number, orders in enumerate(
        ({"hdr": "inf"}, {"ttft": "inf"}, {"empty": 0.01}, {"hang": 2}, {"rate": 50, "n": 999})
    ):
        id_ = f"{name}-{number}"
        asking = asyncio.create_task(answer(http, provider, id=id_, **orders))
        await provider.wait_arrived(id_)
        asking.cancel()
        assert (await provider.wait_closed(id_)).end in ("client_closed", "client_reset")


@pytest.mark.parametrize("fault", ["reset", "cut", "garbage"])
async def test_a_broken_answer_breaks_at_its_position(
    fault: str, http: aiohttp.ClientSession, provider: Provider, name: str
) -> None:
    with pytest.raises(aiohttp.ClientPayloadError):
        await answer(http, provider, id=name, n=9, **{fault: 3})
    record = await provider.wait_closed(name)
    assert (record.end, record.text) == (fault, "w0 w1 w2 ")


async def test_half_an_answer_ends_cleanly_without_a_reason(
    http: aiohttp.ClientSession, provider: Provider, name: str
) -> None:
    _, events = await answer(http, provider, id=name, n=9, eof=3)
    assert {event["choices"][0]["finish_reason"] for event in events} == {None}
    assert (await provider.wait_closed(name)).end == "eof"


async def test_ordered_failures_come_first_and_are_counted(
    http: aiohttp.ClientSession, provider: Provider, name: str
) -> None:
    statuses = [(await answer(http, provider, id=name, status=429, after=2, fails=2))[0] for _ in range(3)]
    assert statuses == [429, 429, 200]
    await provider.wait_closed(name)
    assert [record.end for record in provider.of(name)] == ["failed", "failed", "finished"]


async def test_a_held_answer_goes_on_when_it_is_released(
    http: aiohttp.ClientSession, provider: Provider, name: str
) -> None:
    asking = asyncio.create_task(answer(http, provider, id=name, n=4, hold=2))
    assert (await provider.wait_deltas(name, 2)).end == "open"
    provider.release(name)
    await asking
    assert (await provider.wait_closed(name)).text == "w0 w1 w2 w3 "


async def test_calls_come_in_pieces_and_only_for_the_ordered_steps(
    http: aiohttp.ClientSession, provider: Provider, name: str
) -> None:
    _, events = await answer(http, provider, id=name, call=[("add", {"a": 1}), ("add", "{bad")])
    calls = [event["choices"][0]["delta"].get("tool_calls", [{}])[0] for event in events if event["choices"]]
    for index, arguments in enumerate(('{"a":1}', "{bad")):
        pieces = [call["function"]["arguments"] for call in calls if call and call["index"] == index]
        assert "".join(pieces) == arguments
        assert len(pieces) > 2


def test_the_strict_reader_accepts_a_paired_history() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "3"}
    assert problems([{"role": "system", "content": "s"}, USER, asked, result]) == []
    assert problems([USER, asked, result, {"role": "assistant", "content": "3"}, USER]) == []


@pytest.mark.parametrize(
    "messages",
    [
        [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, USER],
        [USER, {"role": "tool", "tool_call_id": "c1", "content": "3"}],
        [USER, USER],
        [USER, {"role": "assistant", "content": "a"}],
        [USER, {"role": "assistant", "content": ""}, USER],
        [{"role": "assistant", "content": "a"}, USER],
    ],
)
def test_the_strict_reader_refuses(messages: list[dict[str, Any]]) -> None:
    assert problems(messages)
