"""The process dies, freezes or is told to go: partial output is kept, every row gets an end, every socket a word."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.client import Frame, StudioClient
from tests.processes.conftest import StudioMaker
from tests.processes.ends import agreed_end, assert_closed_by_us, assert_stopped
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.processes

LEASE_S = 4
LOST_S = 0.5  # of text, at most, by the contract
FORGIVEN_S = 1.0  # to a busy machine


@pytest.fixture(scope="module")
def mortal(make_studio: StudioMaker) -> Studio:
    return make_studio(STUDIO_LEASE_S=str(LEASE_S), STUDIO_SHUTDOWN_GRACE_S="5")


@pytest.fixture(autouse=True)
def running(mortal: Studio) -> Iterator[None]:
    """Every test finds it running and may leave it dead."""
    if not mortal.runs:
        mortal.start()
    yield
    if mortal.runs:
        mortal.continue_process()


async def settled(client: StudioClient, key: str) -> Frame:
    """The last message of a session once it has ended."""
    last = (await client.subscribe(key))["messages"][-1]
    if last["status"] != "streaming":
        return last
    news = await client.wait(
        lambda f: (
            f["type"] == "studio_chat_message"
            and f["message"]["id"] == last["id"]
            and f["message"]["status"] != "streaming"
        )
    )
    return news["message"]


async def test_after_a_power_cut_the_partial_answer_is_kept_and_no_row_is_left_streaming(
    mortal: Studio, provider: Provider, key: str
) -> None:
    async with await mortal.connect("ann") as ann:
        await ann.send(key, directive(id=key, n=2000, rate=40))
        await provider.wait_deltas(key, 100)
        killed = time.monotonic()
        mortal.kill()
        record = await provider.wait_closed(key)
    mortal.start()
    async with await mortal.connect("ann") as ann:
        message = await settled(ann, key)
        assert (message["status"], message["abortReason"]) == ("aborted", "worker_lost")
        assert message["error"] == "Execução perdida: o processo responsável parou."
        assert record.text.startswith(message["text"])
        must_be_kept = sum(sent < killed - LOST_S - FORGIVEN_S for sent in record.times)
        assert len(message["text"].split()) >= must_be_kept > 0
        lost = len(record.sent) - len(message["text"].split())
        print(f"lost with the process: {lost} of {len(record.sent)} deltas, {lost / 40:.2f} s")
        assert mortal.live_executions() == []
        assert mortal.streaming_messages() == []
        reply = await ann.send(key, directive(id=f"{key}-next", strict=1))
        assert reply["queued"] is False
        assert (await ann.result(reply["executionId"]))["status"] == "completed"
    assert len(provider.of(key)) == 1


async def test_a_run_lost_inside_a_tool_leaves_a_history_that_a_strict_provider_accepts(
    mortal: Studio, provider: Provider, key: str
) -> None:
    async with await mortal.connect("ann") as ann:
        await ann.send(key, directive(id=key, call=[("wait_async", {"seconds": 480})], pre=2))
        await ann.wait(lambda f: f["type"] == "studio_chat_tool" and f["state"] == "running" and f.get("input"))
        await eventually(lambda: any("wait_async" in row["parts"] for row in mortal.streaming_messages()))
        mortal.kill()
    mortal.start()
    async with await mortal.connect("ann") as ann:
        message = await settled(ann, key)
        [tool] = [part for part in message["parts"] if part["kind"] == "tool"]
        assert tool["state"] != "running"
        reply = await ann.send(key, directive(id=f"{key}-next", strict=1))
        assert (await ann.result(reply["executionId"]))["status"] == "completed"


async def test_told_to_go_it_ends_its_runs_as_shutdown_keeps_their_text_and_closes_with_1001(
    mortal: Studio, provider: Provider, key: str
) -> None:
    names = [f"{key}-{number}" for number in range(3)]
    async with await mortal.connect("ann") as ann:
        replies = [await ann.send(name, directive(id=name, n=2000, rate=50)) for name in names]
        for name in names:
            await provider.wait_deltas(name, 5)
        mortal.terminate()
        try:
            results = [await ann.result(reply["executionId"]) for reply in replies]
            assert await ann.closed() == 1001
        finally:
            await asyncio.to_thread(mortal.wait_exit)
    for name, result in zip(names, results, strict=True):
        assert (result["status"], result["abortReason"]) == ("aborted", "shutdown")
        record = await provider.wait_closed(name)
        assert_closed_by_us(record)
        assert result["text"]
        assert record.text.startswith(result["text"])
    assert mortal.live_executions() == []
    assert mortal.streaming_messages() == []


async def test_a_fresh_process_confirms_a_stop_of_its_very_first_turn(mortal: Studio, key: str) -> None:
    await asyncio.to_thread(mortal.restart)
    async with await mortal.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key, hdr="inf"))
        assert_stopped(await ann.stop(key))
        assert (await agreed_end(mortal, ann, reply["executionId"]))["abortReason"] == "session_stop"


async def test_a_process_that_comes_back_from_the_dead_ends_its_run_as_lost_and_works_on(
    mortal: Studio, provider: Provider, key: str
) -> None:
    async with await mortal.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key, n=5, hang=3))
        await ann.wait_text(reply["executionId"], "w2 ")
        mortal.stop_process()
        await asyncio.sleep(LEASE_S + 1)  # not a wait for the product, which is frozen: the time it must miss
        mortal.continue_process()
        result = await ann.result(reply["executionId"])
        assert (result["status"], result["abortReason"]) == ("aborted", "worker_lost")
        assert_closed_by_us(await provider.wait_closed(key))
        after = await ann.send(key, directive(id=f"{key}-next"))
        assert (await agreed_end(mortal, ann, after["executionId"]))["status"] == "completed"


async def test_a_short_freeze_loses_nothing(mortal: Studio, provider: Provider, key: str) -> None:
    async with await mortal.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key, n=60, rate=60))
        await provider.wait_deltas(key, 5)
        mortal.stop_process()
        await provider.wait_deltas(key, 40)
        mortal.continue_process()
        assert (await agreed_end(mortal, ann, reply["executionId"]))["text"] == provider.of(key)[0].text


async def test_a_slow_run_outlives_many_leases(mortal: Studio, provider: Provider, key: str) -> None:
    async with await mortal.connect("ann") as ann:
        calls = [("wait_async", {"seconds": 2.5 * LEASE_S})]
        reply = await ann.send(key, directive(id=key, call=calls, n=3))
        assert (await agreed_end(mortal, ann, reply["executionId"]))["status"] == "completed"
