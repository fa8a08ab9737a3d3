"""Three clocks and the tools' limit: each ends what it measures with its own name, whatever else ticks."""

import asyncio
from collections import Counter

import pytest

from tests.client import StudioClient
from tests.processes.conftest import StudioMaker
from tests.processes.ends import agreed_end, assert_closed_by_us
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.processes

TOTAL_S = 4.0
RACES = 50


@pytest.fixture(scope="module")
def hasty(make_studio: StudioMaker) -> Studio:
    """A studio whose clocks run out within a test's patience. Its first call, which loads the SDK, is behind it."""
    studio = make_studio(
        STUDIO_FIRST_TOKEN_TIMEOUT_S="1",
        STUDIO_IDLE_TIMEOUT_S="1.2",
        STUDIO_TIMEOUT_S=str(TOTAL_S),
        STUDIO_TOOL_TIMEOUT_S="0.7",
    )
    asyncio.run(studio.warm())
    return studio


CLOCKS = {
    "no headers": ({"hdr": "inf"}, "first_token"),
    "headers and nothing more": ({"ttft": "inf"}, "first_token"),
    "a heartbeat of empty deltas": ({"empty": 0.05}, "first_token"),
    "silence after some text": ({"n": 9, "hang": 4}, "idle"),
    "a heartbeat of empty deltas after some text": ({"n": 9, "empty": 0.05, "emptyat": 4}, "idle"),
    "silence after some reasoning": ({"reason": 9, "hang": 4}, "idle"),
    "silence in the arguments of a call": ({"call": [("add", {"a": 1, "b": 2})], "hangargs": 1}, "idle"),
    "an answer without an end": ({"n": 5000, "rate": 20}, "total"),
    "a provider that is always busy": ({"status": 503, "after": 30}, "total"),
    "tools without an end": ({"call": [("wait_async", {"seconds": 0.65})], "turns": 99}, "total"),
}


@pytest.mark.parametrize("cause", CLOCKS)
async def test_the_right_clock_ends(cause: str, hasty: Studio, provider: Provider, key: str) -> None:
    orders, kind = CLOCKS[cause]
    async with await hasty.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key, **orders))
        result = await agreed_end(hasty, ann, reply["executionId"])
    assert (result["status"], result["abortReason"], result["timeoutKind"]) == ("aborted", "timeout", kind)
    record = await provider.wait_closed(key)
    if record.end not in ("failed", "finished"):
        assert_closed_by_us(record)
    assert provider.of(key)[-1].text.endswith(result["text"])


async def test_after_a_timeout_the_session_is_free_at_once(hasty: Studio, provider: Provider, key: str) -> None:
    async with await hasty.connect("ann") as ann:
        await ann.result((await ann.send(key, directive(id=key, hdr="inf")))["executionId"])
        reply = await ann.send(key, directive(id=f"{key}-next", strict=1))
        assert reply["queued"] is False
        assert (await agreed_end(hasty, ann, reply["executionId"]))["status"] == "completed"


async def test_an_answer_slower_than_any_silence_but_never_silent_is_not_ended(hasty: Studio, key: str) -> None:
    async with await hasty.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key, n=9, rate=4))
        assert (await agreed_end(hasty, ann, reply["executionId"]))["status"] == "completed"


async def test_the_clocks_of_silence_do_not_run_while_a_tool_works(hasty: Studio, key: str) -> None:
    async with await hasty.connect("ann") as ann:
        calls = [("wait_async", {"seconds": 0.6})]
        reply = await ann.send(key, directive(id=key, call=calls, turns=3, n=2))
        assert (await agreed_end(hasty, ann, reply["executionId"]))["status"] == "completed"


async def test_a_hundred_hung_runs_all_end_and_leave_nothing_behind(
    hasty: Studio, provider: Provider, key: str
) -> None:
    async with await hasty.connect("ann") as ann:
        names = [f"{key}-{number}" for number in range(100)]
        posts = [
            await ann.post("studio_chat_send", sessionKey=name, text=directive(id=name, hdr="inf")) for name in names
        ]
        for post, name in zip(posts, names, strict=True):
            result = await ann.result((await ann.reply(post))["executionId"])
            assert (result["abortReason"], result["timeoutKind"]) == ("timeout", "first_token")
            if provider.of(name):  # a clock may run out before the request is on its way
                assert_closed_by_us(await provider.wait_closed(name))
        assert hasty.live_executions() == []
        assert hasty.streaming_messages() == []


@pytest.mark.parametrize("tool", ["wait_async", "wait_in_thread", "wait_deaf"])
async def test_a_tool_over_its_limit_is_an_error_for_the_model_and_the_turn_goes_on(
    tool: str, hasty: Studio, provider: Provider, key: str
) -> None:
    async with await hasty.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key, call=[(tool, {"seconds": 3})], n=3, strict=1))
        result = await agreed_end(hasty, ann, reply["executionId"])
        [part] = [part for part in (await ann.subscribe(key))["messages"][-1]["parts"] if part["kind"] == "tool"]
    assert result["status"] == "completed"
    assert part["state"] in ("error", "unstoppable")
    assert part["error"]
    assert len(provider.of(key)) == 2


async def test_a_timeout_and_a_stop_in_the_same_instant_leave_one_reason_everywhere(
    hasty: Studio, provider: Provider, key: str
) -> None:
    async with await hasty.connect("ann") as ann:
        ends = await asyncio.gather(*(_race(hasty, ann, f"{key}-{number}", number) for number in range(RACES)))
        reasons = Counter(result["abortReason"] for result in ends)
        print(f"timeout against stop: {dict(reasons)}")
        assert set(reasons) <= {"timeout", "session_stop"}
        for number in range(RACES):
            assert_closed_by_us(await provider.wait_closed(f"{key}-{number}"))
        assert hasty.live_executions() == []


async def _race(hasty: Studio, ann: StudioClient, name: str, number: int) -> dict[str, object]:
    """Stop a run as its clock runs out, a little earlier or later each time."""
    reply = await ann.send(name, directive(id=name, hdr="inf"))
    await asyncio.sleep(1.0 + (number - RACES / 2) / 1000)
    await ann.stop(name)
    return await agreed_end(hasty, ann, reply["executionId"])
