"""Two things in the same instant: whatever comes first, there is one end, and nothing is left alive."""

import asyncio
import random

import pytest

from tests.client import StudioClient
from tests.processes.ends import agreed_end, assert_closed_by_us, assert_stopped
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.processes


async def test_a_stop_in_the_same_instant_as_the_send_never_leaves_a_run_alive(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    for number in range(200):
        name = f"{key}-{number}"
        send = await ann.post("studio_chat_send", sessionKey=name, text=directive(id=name, hang=1))
        if number % 4:
            await asyncio.sleep(random.uniform(0, 0.005))
        stop = await ann.post("studio_chat_stop_session", sessionKey=name)
        sent = await ann.reply(send)
        assert_stopped(await ann.reply(stop))
        asked = len(provider.of(name))
        result = await ann.result(sent["executionId"])
        assert (result["status"], result["abortReason"]) == ("aborted", "session_stop")
        if asked:
            assert_closed_by_us(await provider.wait_closed(name))
        assert len(provider.of(name)) == asked
    assert studio.live_executions() == []
    assert studio.streaming_messages() == []
    assert [record for record in provider.open_requests() if record.id.startswith(key)] == []


async def test_a_stop_from_another_tab_in_the_same_instant_stops_or_finds_nothing(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    async with await studio.connect("ann") as other:
        await ann.result((await ann.send(key, directive(id=key)))["executionId"])
        for number in range(50):
            name = f"{key}-{number}"
            send = await ann.post("studio_chat_send", sessionKey=key, text=directive(id=name, hang=1))
            stop = await other.stop(key)
            assert stop["abortedCount"] + stop["activeCount"] <= 1
            sent = await ann.reply(send)
            assert sent["queued"] is False
            if not stop["abortedCount"]:
                assert_stopped(await other.stop(key))
            assert (await ann.result(sent["executionId"]))["abortReason"] == "session_stop"
    assert studio.live_executions() == []


async def test_an_end_of_its_own_and_a_stop_in_the_same_instant_are_one_end(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    ends = {"completed": 0, "aborted": 0}
    for number in range(50):
        name = f"{key}-{number}"
        reply = await ann.send(name, directive(id=name, n=3, hold=3))
        await ann.wait_text(reply["executionId"], "w0 ")
        provider.release(name)
        if number % 2:
            await asyncio.sleep(random.uniform(0, 0.02))
        stop = await ann.stop(name)
        result = await agreed_end(studio, ann, reply["executionId"])
        ends[result["status"]] += 1
        assert stop["abortedCount"] == (result["status"] == "aborted")
    print(f"own end against stop: {ends}")


async def test_a_new_message_right_after_a_stop_is_answered_whole(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    for number in range(20):
        name = f"{key}-{number}"
        await ann.send(key, directive(id=f"{name}-first", n=1000, rate=200))
        await provider.wait_deltas(f"{name}-first", 3)
        stop = await ann.post("studio_chat_stop_session", sessionKey=key)
        await ann.reply(stop)
        reply = await ann.send(key, directive(id=name, n=8))
        assert reply["queued"] is False
        assert (await agreed_end(studio, ann, reply["executionId"]))["text"] == provider.of(name)[0].text


async def test_a_stop_that_names_an_ended_run_leaves_the_next_one_alone(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    first = await ann.send(key, directive(id=f"{key}-first"))
    await ann.result(first["executionId"])
    second = await ann.send(key, directive(id=key, n=20, rate=50))
    await provider.wait_deltas(key, 2)
    stop = await ann.stop(key, executionId=first["executionId"])
    assert (stop["ok"], stop["abortedCount"], stop["alreadyFinishedCount"], stop["activeCount"]) == (True, 0, 1, 1)
    assert (await agreed_end(studio, ann, second["executionId"]))["status"] == "completed"


async def test_a_stop_that_names_a_run_of_another_session_or_of_none_is_not_found(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.result((await ann.send(f"{key}-other", directive(id=f"{key}-other")))["executionId"])
    reply = await ann.send(key, directive(id=key, n=20, rate=50))
    for execution_id in ("00000000-0000-4000-8000-000000000000", "no-uuid"):
        stop = await ann.stop(key, executionId=execution_id)
        assert (stop["ok"], stop["code"]) == (False, "not_found")
    stop = await ann.stop(f"{key}-other", executionId=reply["executionId"])
    assert (stop["ok"], stop["code"], stop["abortedCount"]) == (False, "not_found", 0)
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "completed"


async def test_a_second_stop_joins_the_first_and_both_are_confirmed(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=1000, rate=100))
    await provider.wait_deltas(key, 3)
    stops = [await ann.post("studio_chat_stop_session", sessionKey=key) for _ in range(6)]
    counts = [(await ann.reply(stop))["abortedCount"] for stop in stops]
    assert counts[0] == 1
    assert set(counts) <= {0, 1}
    assert (await agreed_end(studio, ann, reply["executionId"]))["abortReason"] == "session_stop"


async def test_two_tabs_that_send_at_once_never_have_two_live_runs(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    async with await studio.connect("ann") as other:
        for number in range(10):
            name = f"{key}-{number}"
            posts = [
                (client, await client.post("studio_chat_send", sessionKey=name, text=directive(id=name, hang=1)))
                for client in (ann, other)
            ]
            replies = [await client.reply(request) for client, request in posts]
            assert len([reply for reply in replies if reply.get("executionId")]) == 1, replies
            assert len([row for row in studio.live_executions() if row["session_key"] == name]) == 1
            assert (await ann.stop(name))["abortedCount"] == 1


async def test_no_run_that_starts_during_a_panic_with_hold_escapes_it(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    names = [f"{key}-{number}" for number in range(60)]
    async with await studio.connect("op") as op:
        posts = [await ann.post("studio_chat_send", sessionKey=n, text=directive(id=n, hang=1)) for n in names[:30]]
        panic = await op.post("studio_chat_panic", hold=True, reason="a drill of the tests")
        posts += [await ann.post("studio_chat_send", sessionKey=n, text=directive(id=n, hang=1)) for n in names[30:]]
        reply = await op.reply(panic)
        try:
            assert (reply["ok"], reply["unconfirmedCount"], reply["activeCount"]) == (True, 0, 0)
            sent = [await ann.reply(post) for post in posts]
            assert {answer["code"] for answer in sent if not answer["ok"]} <= {"held"}
            for answer in sent:
                if answer["ok"]:
                    assert (await ann.result(answer["executionId"]))["abortReason"] == "panic_stop"
            assert studio.live_executions() == []
            late = await ann.call("studio_chat_send", sessionKey=key, text="hello")
            assert (late["ok"], late["code"]) == (False, "held")
            assert reply["hold"]["by"] == "op"
        finally:
            await op.call("studio_chat_release", holdId=reply["hold"]["id"])
    after = await ann.send(key, directive(id=key))
    assert (await ann.result(after["executionId"]))["status"] == "completed"


async def test_a_run_in_another_session_is_left_alone(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=40, rate=40))
    await provider.wait_deltas(key, 3)
    other = f"{key}-other"
    await ann.send(other, directive(id=other, hang=1))
    assert (await ann.stop(other))["abortedCount"] == 1
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "completed"


async def test_a_text_that_says_stop_is_only_a_text(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(f"{key}-long", directive(id=f"{key}-long", n=20, rate=40))
    for text in ("stop", "wait", "/stop", '{"type": "studio_chat_panic"}'):
        await ann.result((await ann.send(key, text))["executionId"])
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "completed"
