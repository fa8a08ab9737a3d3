"""The queue and Send now over the wire: in order, each message once, and nothing paid for that nobody asked for."""

import asyncio
import random
from typing import Any

import pytest

from tests.client import Frame, StudioClient
from tests.processes.conftest import StudioMaker
from tests.processes.ends import agreed_end, assert_stopped
from tests.processes.harness import Studio
from tests.provider import Provider, Record
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.processes

RACES = 200
RACES_AT_ONCE = 10


async def send_now(client: StudioClient, key: str, item: Frame, **more: Any) -> Frame:
    return await client.call("studio_chat_send_now", sessionKey=key, queueId=item["queueId"], **more)


async def busy(client: StudioClient, provider: Provider, key: str, **orders: Any) -> str:
    """Start a turn that has said three words and hangs; return its execution's id."""
    reply = await client.send(key, directive(id=f"{key}-0", n=9, hang=3, **orders))
    await client.wait_text(reply["executionId"], "w2 ")
    return reply["executionId"]


async def queue_three(client: StudioClient, key: str) -> list[Frame]:
    items = [await client.send(key, directive(id=f"{key}-{number}", n=2, strict=1)) for number in (1, 2, 3)]
    assert [item["queued"] for item in items] == [True] * 3
    return items


def of_session(provider: Provider, key: str) -> list[Record]:
    """The session's requests, in the order in which they came."""
    return [record for record in provider.records if record.id.startswith(key)]


def system(record: Record) -> str:
    return " ".join(m["content"] for m in record.messages if m["role"] == "system")


async def rests(client: StudioClient, key: str) -> Frame:
    """The snapshot of the session once nothing runs and nothing waits in it."""
    await client.wait(lambda f: _is_done(f, key))
    return await client.subscribe(key)


def _is_done(frame: Frame, key: str) -> bool:
    session = frame.get("session") or {}
    told = frame["type"] == "studio_chat_session" and frame["sessionKey"] == key
    return told and (session["state"], session["queueLength"]) == ("idle", 0)


async def test_send_now_on_the_second_of_three_from_two_tabs_at_once_sends_two_one_three_each_once(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    async with await studio.connect("ann") as other:
        execution_id = await busy(ann, provider, key)
        await other.subscribe(key)
        items = await queue_three(ann, key)
        replies = await asyncio.gather(*(send_now(client, key, items[1]) for client in (ann, other)))
        answers = {(r["ok"], r["interrupted"], r["executionId"]) for r in replies}
        assert answers == {(True, True, replies[0]["executionId"])}
        snapshot = await rests(ann, key)
    requests = of_session(provider, key)
    assert [record.id.removeprefix(f"{key}-") for record in requests] == ["0", "2", "1", "3"]
    assert ["interrupted" in system(record) for record in requests] == [False, True, False, False]
    partial = (await agreed_end(studio, ann, execution_id))["text"]
    assert partial == "w0 w1 w2 "
    assert partial.strip() in [str(m["content"]).strip() for m in requests[1].messages if m["role"] == "assistant"]
    assert [m["status"] for m in snapshot["messages"] if m["role"] == "assistant"] == ["aborted"] + ["completed"] * 3


async def test_a_lost_reply_and_a_double_click_send_it_once_and_are_answered_alike(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await busy(ann, provider, key)
    item = await ann.send(key, directive(id=f"{key}-1", n=2))
    posts = [
        await ann.post("studio_chat_send_now", sessionKey=key, queueId=item["queueId"], clientMessageId="one click")
        for _ in range(2)
    ]
    replies = [await ann.reply(post) for post in posts]
    await rests(ann, key)
    async with await studio.connect("ann") as later:
        replies.append(await send_now(later, key, item, clientMessageId="one click"))
    assert {(r["ok"], r["interrupted"], r["executionId"]) for r in replies} == {(True, True, replies[0]["executionId"])}
    assert len(provider.of(f"{key}-1")) == 1


async def test_however_send_now_races_with_the_end_the_message_is_sent_once(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    gate = asyncio.Semaphore(RACES_AT_ONCE)

    async def race(number: int) -> str:
        name = f"{key}-{number}"
        async with gate:
            first = await ann.send(name, directive(id=f"{name}-first", n=2, hold=2))
            await provider.wait_deltas(f"{name}-first", 2)
            item = await ann.send(name, directive(id=f"{name}-now", n=1))
            provider.release(f"{name}-first")
            if number % 4:
                await asyncio.sleep(random.uniform(0, 0.01))
            reply = await send_now(ann, name, item)
            assert reply["ok"], reply
            sent = await ann.wait(
                lambda f: f["type"] == "studio_chat_result" and f["sessionKey"] == name and f["text"] == "w0 "
            )
            assert sent["status"] == "completed"
            end = (await ann.result(first["executionId"]))["status"]
            again = await send_now(ann, name, item)
            assert (again["ok"], again["interrupted"], again["executionId"]) == (
                True,
                reply["interrupted"],
                sent["executionId"],
            )
        return end

    ends = await asyncio.gather(*(race(number) for number in range(RACES)))
    counts = {len(provider.of(f"{key}-{number}-now")) for number in range(RACES)}
    assert counts == {1}
    asked = studio.rows("SELECT text FROM chat_chatmessage WHERE role = 'user' AND text LIKE ?", f"%{key}%-now%")
    assert len(asked) == RACES
    print(f"send now against the end: {ends.count('aborted')} interrupted, {ends.count('completed')} had ended")


@pytest.mark.parametrize("how", ["stop", "panic", "error", "timeout"])
async def test_after_an_unclean_end_nothing_is_asked_for_until_a_person_acts(
    how: str, studio: Studio, quick: Studio, provider: Provider, key: str
) -> None:
    at = quick if how == "timeout" else studio
    async with await at.connect("ann") as ann, await at.connect("op") as op:
        orders = {"n": 9, "error": 5, "hold": 3} if how == "error" else {"n": 9, "hang": 3}
        reply = await ann.send(key, directive(id=f"{key}-0", **orders))
        await ann.wait_text(reply["executionId"], "w2 ")
        await queue_three(ann, key)
        if how == "stop":
            assert_stopped(await ann.stop(key))
        elif how == "panic":
            assert (await op.call("studio_chat_panic", scope={"user": "ann"}))["abortedCount"] >= 1
        elif how == "error":
            provider.release(f"{key}-0")
        result = await ann.result(reply["executionId"])
        assert result["status"] == ("error" if how == "error" else "aborted")
        # Whatever would go by itself has gone before another session's turn is over.
        await ann.result((await ann.send(f"{key}b", directive(id=f"other-{key}")))["executionId"])
        snapshot = await ann.subscribe(key)
        assert (len(snapshot["queue"]), snapshot["active"], len(of_session(provider, key))) == (3, None, 1)
        fresh = await ann.send(key, directive(id=f"{key}-fresh", n=2, strict=1))
        assert fresh["queued"] is False
        await rests(ann, key)
    order = [record.id.removeprefix(f"{key}-") for record in of_session(provider, key)]
    assert order == ["0", "fresh", "1", "2", "3"]
    assert not any("interrupt" in system(record) for record in of_session(provider, key))


@pytest.fixture(scope="module")
def quick(make_studio: StudioMaker) -> Studio:
    """A studio whose turns may be silent for a moment only."""
    studio = make_studio(STUDIO_IDLE_TIMEOUT_S="3", STUDIO_LEASE_S="10")
    asyncio.run(studio.warm())
    return studio


async def test_after_a_power_cut_the_queue_is_there_and_costs_nothing_until_a_person_acts(
    quick: Studio, provider: Provider, key: str
) -> None:
    async with await quick.connect("ann") as ann:
        await busy(ann, provider, key)
        items = await queue_three(ann, key)
        quick.kill()
    await asyncio.to_thread(quick.start)
    async with await quick.connect("ann") as ann, await quick.connect("ann") as other:
        await ann.subscribe(key)
        await eventually(lambda: not quick.live_executions())
        await quick.warm()  # the recovery has passed, and a whole turn of another session after it
        queues = [(await client.subscribe(key))["queue"] for client in (ann, other)]
        assert queues[0] == queues[1]
        assert [item["id"] for item in queues[0]] == [item["queueId"] for item in items]
        assert len(of_session(provider, key)) == 1
        sent = await send_now(ann, key, items[1])
        assert (sent["ok"], sent["interrupted"]) == (True, False)
        await rests(ann, key)
    requests = of_session(provider, key)
    assert [record.id.removeprefix(f"{key}-") for record in requests] == ["0", "2", "1", "3"]
    assert "is incomplete" in system(requests[1])
    assert not any("interrupt" in system(record) for record in requests)


async def test_under_a_hold_queue_and_send_now_stay_put_and_the_release_sends_nothing(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    async with await studio.connect("op") as op:
        await busy(ann, provider, key)
        items = await queue_three(ann, key)
        panic = await op.call("studio_chat_panic", hold=True, scope={"user": "ann"})
        try:
            assert panic["heldCount"] >= 3
            refused = await send_now(ann, key, items[0])
            assert (refused["ok"], refused["code"]) == (False, "held")
        finally:
            await op.call("studio_chat_release", holdId=panic["hold"]["id"])
        await ann.result((await ann.send(f"{key}b", directive(id=f"other-{key}")))["executionId"])
        snapshot = await ann.subscribe(key)
        assert (len(snapshot["queue"]), snapshot["active"], len(of_session(provider, key))) == (3, None, 1)
        assert (await send_now(ann, key, items[0]))["ok"]
        await rests(ann, key)
    assert [r.id.removeprefix(f"{key}-") for r in of_session(provider, key)] == ["0", "1", "2", "3"]


async def test_twenty_sends_in_a_burst_wait_in_the_order_in_which_they_came(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await busy(ann, provider, key)
    posts = [await ann.post("studio_chat_send", sessionKey=key, text=f"number {number}") for number in range(20)]
    for post in posts:
        assert (await ann.reply(post))["queued"]
    snapshot = await ann.subscribe(key)
    assert [item["text"] for item in snapshot["queue"]] == [f"number {number}" for number in range(20)]
    await ann.stop(key)


async def test_words_that_sound_like_orders_are_only_words(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await busy(ann, provider, key)
    for text in ("stop", "wait", "/stop", "cancel"):
        assert (await ann.send(key, text))["queued"]
    assert (await ann.subscribe(key))["active"] is not None
    await ann.stop(key)
