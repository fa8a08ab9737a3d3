"""People come and go; the run stays, is found again at the same character, and ends by the policy that was set."""

import pytest

from tests.client import StudioClient
from tests.processes.conftest import StudioMaker
from tests.processes.ends import agreed_end, assert_closed_by_us, assert_stopped
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive
from tests.reducer import apply, comparable

pytestmark = pytest.mark.processes


async def test_a_run_goes_on_when_everybody_has_left_and_is_whole_when_they_return(
    studio: Studio, provider: Provider, key: str
) -> None:
    async with await studio.connect("ann") as ann:
        await ann.send(key, directive(id=key, n=30, rate=60))
        await provider.wait_deltas(key, 5)
        ann.vanish()
    record = await provider.wait_closed(key)
    assert record.end == "finished"
    async with await studio.connect("ann") as back:
        snapshot = await back.subscribe(key)
        if snapshot["active"]:
            await back.result(snapshot["active"]["executionId"])
            snapshot = await back.subscribe(key)
    assert snapshot["messages"][-1]["text"] == record.text
    assert snapshot["messages"][-1]["status"] == "completed"


async def test_who_comes_back_in_the_middle_finds_the_same_stream_at_the_same_character(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.send(key, directive(id=key, n=60, rate=60))
    await provider.wait_deltas(key, 20)
    async with await studio.connect("ann") as late:
        before = await late.subscribe(key)
        assert before["active"]
        await late.result(before["active"]["executionId"])
        after = await late.subscribe(key)
        assert comparable(apply(late.events(key), before)) == comparable(after)
        assert after["messages"][-1]["text"] == provider.of(key)[0].text


async def test_events_applied_to_an_old_snapshot_give_a_fresh_one_after_every_kind_of_end(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.result((await ann.send(key, directive(id=f"{key}-0")))["executionId"])
    before = await ann.subscribe(key)
    seen = len(ann.events(key))
    calls = [("add", {"a": 1, "b": 2}), ("fail", {"text": "on-purpose"})]
    for number, orders in enumerate(
        ({"reason": 4, "n": 4}, {"call": calls, "pre": 2, "n": 3}, {"n": 9, "reset": 4}, {"status": 401}), start=1
    ):
        await ann.result((await ann.send(key, directive(id=f"{key}-{number}", **orders)))["executionId"])
    reply = await ann.send(key, directive(id=f"{key}-5", n=9, hang=5))
    await ann.wait_text(reply["executionId"], "w4 ")
    assert_stopped(await ann.stop(key))
    await ann.result(reply["executionId"])
    after = await ann.subscribe(key)
    assert comparable(apply(ann.events(key)[seen:], before)) == comparable(after)


@pytest.mark.parametrize(
    "orders",
    [
        {"n": 20, "hold": 7},
        {"reason": 20, "hold": 7},
        {"reason": 3, "n": 20, "hold": 9},
        {"call": [("wait_async", {"seconds": 480})], "pre": 3},
        {"hdr": "inf"},
    ],
    ids=["text", "reasoning", "both", "tool", "nothing yet"],
)
async def test_a_snapshot_in_the_middle_of_a_run_equals_the_events_so_far(
    orders: dict[str, object], studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.result((await ann.send(key, directive(id=f"{key}-0")))["executionId"])
    before = await ann.subscribe(key)
    seen = len(ann.events(key))
    reply = await ann.send(key, directive(id=key, **orders))
    execution_id = reply["executionId"]
    if "call" in orders:
        await ann.wait(lambda frame: frame["type"] == "studio_chat_tool" and frame["state"] == "running")
    await provider.wait_deltas(key, int(str(orders.get("hold", orders.get("pre", 0)))))
    async with await studio.connect("ann") as late:
        fresh = await late.subscribe(key)
    seq = fresh["active"]["seq"]
    await ann.wait(lambda frame: frame.get("executionId") == execution_id and (frame.get("seq") or 0) >= seq)
    events = [e for e in ann.events(key)[seen:] if e.get("executionId") != execution_id or e["seq"] <= seq]
    assert comparable(apply(events, before)) == comparable(fresh)
    await ann.stop(key)


async def test_a_ping_is_answered_while_a_run_is_live_on_the_same_socket(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, hdr="inf"))
    await provider.wait_arrived(key)
    assert (await ann.ping())["ok"]
    assert not [f for f in ann.frames if f["type"] == "studio_chat_result"]
    assert_stopped(await ann.stop(key))
    await ann.result(reply["executionId"])


async def test_an_unsubscribed_socket_hears_no_more_of_the_session(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    async with await studio.connect("ann") as other:
        reply = await ann.send(key, directive(id=key, n=9, hold=3))
        await other.subscribe(key)
        await other.call("studio_chat_unsubscribe", sessionKey=key)
        heard = len(other.run_events(reply["executionId"]))
        provider.release(key)
        await ann.result(reply["executionId"])
        await other.ping()
        assert len(other.run_events(reply["executionId"])) == heard


@pytest.fixture(scope="module")
def leaving(make_studio: StudioMaker) -> Studio:
    """A studio that ends runs nobody watches."""
    return make_studio(STUDIO_ON_DISCONNECT="abort", STUDIO_DISCONNECT_GRACE_S="1")


async def test_by_policy_a_run_that_nobody_watches_is_aborted(leaving: Studio, provider: Provider, key: str) -> None:
    async with await leaving.connect("ann") as ann:
        await ann.send(key, directive(id=key, n=5, hang=3))
        await provider.wait_deltas(key, 3)
        ann.vanish()
    assert_closed_by_us(await provider.wait_closed(key))
    async with await leaving.connect("ann") as back:
        snapshot = await back.subscribe(key)
        if snapshot["active"]:
            await back.result(snapshot["active"]["executionId"])
            snapshot = await back.subscribe(key)
    message = snapshot["messages"][-1]
    assert (message["status"], message["abortReason"], message["text"]) == ("aborted", "disconnect", "w0 w1 w2 ")


async def test_by_policy_a_run_goes_on_for_those_who_return_in_time(
    leaving: Studio, provider: Provider, key: str
) -> None:
    async with await leaving.connect("ann") as ann:
        await ann.send(key, directive(id=key, n=60, rate=20))
        await provider.wait_deltas(key, 3)
        ann.vanish()
    async with await leaving.connect("ann") as back:
        snapshot = await back.subscribe(key)
        result = await back.result(snapshot["active"]["executionId"])
    assert result["status"] == "completed"


async def test_by_policy_a_run_with_one_tab_left_goes_on(leaving: Studio, provider: Provider, key: str) -> None:
    async with await leaving.connect("ann") as stays, await leaving.connect("ann") as leaves:
        reply = await stays.send(key, directive(id=key, n=50, rate=20))
        await leaves.subscribe(key)
        leaves.vanish()
        assert (await agreed_end(leaving, stays, reply["executionId"]))["status"] == "completed"
