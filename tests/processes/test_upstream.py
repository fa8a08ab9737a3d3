"""Stop closes the provider's connection, in every phase, and nothing more is asked of the provider for that run."""

import time

import pytest

from tests.client import StudioClient
from tests.processes.ends import agreed_end, assert_closed_by_us, assert_stopped
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.processes

# Phases that end at the provider: the orders, and how many deltas to have seen before the stop.
PHASES = {
    "waiting for headers": ({"hdr": "inf"}, 0),
    "reading the prompt": ({"ttft": "inf"}, 0),
    "saying nothing for ever": ({"empty": 0.02}, 0),
    "hanging before the first delta": ({"hang": 0}, 0),
    "in the middle of reasoning": ({"reason": 1000, "rate": 100}, 5),
    "in the middle of the text": ({"n": 1000, "rate": 100}, 5),
    "in the middle of a flood": ({"n": 200_000, "rate": 2000}, 100),
    "hanging in the middle": ({"n": 20, "hang": 7}, 7),
    "sending the arguments of a call": ({"call": [("add", {"a": 1, "b": 2})], "pre": 2, "hangargs": 1}, 2),
}


@pytest.mark.parametrize("phase", PHASES)
async def test_stop_closes_the_connection_while(
    phase: str, studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    orders, deltas = PHASES[phase]
    reply = await ann.send(key, directive(id=key, **orders))
    await provider.wait_deltas(key, deltas)
    assert_stopped(await ann.stop(key))
    assert_closed_by_us(await provider.wait_closed(key))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (result["status"], result["abortReason"]) == ("aborted", "session_stop")
    assert provider.of(key)[0].text.startswith(result["text"])
    assert len(provider.of(key)) == 1


@pytest.mark.parametrize("phase", ["waiting for headers", "in the middle of the text", "hanging in the middle"])
async def test_the_next_message_starts_at_once_after_a_stop_while(
    phase: str, studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    orders, deltas = PHASES[phase]
    await ann.send(key, directive(id=key, **orders))
    await provider.wait_deltas(key, deltas)
    assert_stopped(await ann.stop(key))
    reply = await ann.send(key, directive(id=f"{key}-next", n=3, strict=1))
    assert reply["queued"] is False
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["status"] == "completed"
    assert provider.of(f"{key}-next")[0].problems == []


async def test_twenty_stops_close_twenty_connections_and_keep_exactly_what_was_delivered(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    latencies_ms = []
    for number in range(20):
        id_ = f"{key}-{number}"
        reply = await ann.send(id_, directive(id=id_, n=2000, rate=100))
        seen = await ann.wait_text(reply["executionId"], "w5 ")
        started = time.monotonic()
        assert_stopped(await ann.stop(id_))
        record = await provider.wait_closed(id_)
        assert_closed_by_us(record)
        latencies_ms.append(((record.closed or 0) - started) * 1000)
        result = await agreed_end(studio, ann, reply["executionId"])
        assert result["text"].startswith(seen)
        assert record.text.startswith(result["text"])
    latencies_ms.sort()
    print(
        f"stop frame to close: p50 {latencies_ms[9]:.1f} ms, p95 {latencies_ms[18]:.1f} ms, max {latencies_ms[-1]:.1f}"
    )


async def test_fifty_stops_at_once_leave_no_connection_open(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    names = [f"{key}-{number}" for number in range(50)]
    requests = [await ann.post("studio_chat_send", sessionKey=n, text=directive(id=n, n=2000, rate=10)) for n in names]
    for request, name in zip(requests, names, strict=True):
        assert (await ann.reply(request))["ok"]
        await provider.wait_deltas(name, 2)
    stops = [await ann.post("studio_chat_stop_session", sessionKey=name) for name in names]
    for stop, name in zip(stops, names, strict=True):
        assert (await ann.reply(stop))["abortedCount"] == 1
        assert_closed_by_us(await provider.wait_closed(name))
    assert studio.streaming_messages() == []


async def test_a_stop_in_one_tab_is_seen_in_the_other_with_the_same_text(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=1000, rate=100))
    async with await studio.connect("ann") as other:
        await other.subscribe(key)
        await provider.wait_deltas(key, 10)
        assert_stopped(await other.stop(key))
        seen = await other.result(reply["executionId"])
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (seen["text"], seen["abortReason"]) == (result["text"], "session_stop")


async def test_the_stop_card_knows_who_stopped_from_where_and_how_long_it_took(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, hang=3, n=5))
    await provider.wait_deltas(key, 3)
    await ann.stop(key)
    stop = (await agreed_end(studio, ann, reply["executionId"]))["stop"]
    assert stop["by"] == "ann"
    assert stop["source"]
    assert stop["requestedAt"]
    assert stop["upstreamClosedMs"] >= 0
    assert stop["settledMs"] >= stop["upstreamClosedMs"]


async def test_nothing_running_is_a_stop_of_nothing(studio: Studio, ann: StudioClient, key: str) -> None:
    await ann.result((await ann.send(key, directive(id=key)))["executionId"])
    reply = await ann.stop(key)
    assert (reply["ok"], reply["abortedCount"], reply["activeCount"]) == (True, 0, 0)


async def test_panic_ends_everything_with_its_own_reason(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    names = [f"{key}-{number}" for number in range(5)]
    replies = [await ann.send(name, directive(id=name, n=1000, rate=50)) for name in names]
    for name in names:
        await provider.wait_deltas(name, 2)
    async with await studio.connect("op") as op:
        panic = await op.call("studio_chat_panic")
    assert (panic["ok"], panic["abortedCount"], panic["activeCount"]) == (True, 5, 0)
    for name, reply in zip(names, replies, strict=True):
        assert_closed_by_us(await provider.wait_closed(name))
        result = await agreed_end(studio, ann, reply["executionId"])
        assert (result["abortReason"], result["stop"]["by"]) == ("panic_stop", "op")


async def test_panic_is_refused_to_people_without_the_permission_and_stops_nothing(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=20, rate=50))
    await provider.wait_deltas(key, 1)
    panic = await ann.call("studio_chat_panic")
    assert (panic["ok"], panic["code"]) == (False, "forbidden")
    assert (await ann.result(reply["executionId"]))["status"] == "completed"
