"""One session at two workers: the same stream, the same queue, one turn at a time, with a broker and without."""

import asyncio
import itertools
from collections.abc import Iterator

import aiohttp
import pytest

from tests.client import CSRF_FIELD, Frame, StudioClient
from tests.processes.cluster import NO_POLL_S, Cluster, hang
from tests.processes.conftest import ClusterMaker
from tests.processes.ends import assert_whole_run
from tests.processes.harness import Studio
from tests.processes.servers import Redis
from tests.provider import Provider
from tests.provider_script import directive
from tests.reducer import apply, comparable
from tests.waiting import READY_TIMEOUT_S, eventually

pytestmark = pytest.mark.processes

BROKER, NONE = "a broker and no poll", "a poll and no broker"


@pytest.fixture(scope="module", params=[BROKER, NONE])
def cluster(request: pytest.FixtureRequest, make_cluster: ClusterMaker, redis: Redis) -> Iterator[Cluster]:
    changes = {"REDIS_URL": redis.url, "STUDIO_POLL_S": NO_POLL_S} if request.param == BROKER else {}
    cluster = make_cluster(2, **changes)
    yield cluster
    cluster.end()


@pytest.fixture
def hinted(cluster: Cluster) -> bool:
    """Whether the workers hear each other."""
    return "STUDIO_POLL_S" in cluster.changes


def results_of(client: StudioClient, execution_id: str) -> list[Frame]:
    return [event for event in client.run_events(execution_id) if event["type"] == "studio_chat_result"]


async def assert_parity(client: StudioClient, snapshot: Frame) -> None:
    """What came since the snapshot, applied to it, is what a fresh one says."""
    came = client.frames.index(snapshot) + 1
    key = snapshot["sessionKey"]
    fresh = await client.subscribe(key)
    events = [frame for frame in client.frames[came : client.frames.index(fresh)] if frame in client.events(key)]
    assert comparable(apply(events, snapshot)) == comparable(fresh)


async def follow(watcher: StudioClient, runner: StudioClient, key: str) -> Frame:
    """Subscribe where nothing runs yet, and wait until news of the other worker arrives; return the snapshot."""
    snapshot = await watcher.subscribe(key)
    titles: list[str] = []

    def is_heard(frame: Frame) -> bool:
        return frame["type"] == "studio_chat_session" and frame["session"]["title"] in titles

    async with asyncio.timeout(READY_TIMEOUT_S):
        while not any(is_heard(frame) for frame in watcher.frames):
            titles.append(f"title {len(titles)}")
            await runner.call("studio_chat_session_rename", sessionKey=key, title=titles[-1])
            await watcher.ping()
    await watcher.wait(lambda f: is_heard(f) and f["session"]["title"] == titles[-1])
    return snapshot


async def test_a_run_joined_in_mid_stream_at_the_other_worker_is_seen_whole(
    cluster: Cluster, provider: Provider, key: str, hinted: bool
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as watcher:
        execution_id = (await runner.send(key, directive(id=key, n=120, rate=100, reason=5)))["executionId"]
        await provider.wait_deltas(key, 30)
        snapshot = await watcher.subscribe(key)
        assert snapshot["active"]["executionId"] == execution_id
        ours = await runner.result(execution_id)
        theirs = await watcher.result(execution_id)
        assert (theirs["status"], theirs["text"]) == ("completed", ours["text"])
        if hinted:
            numbers = [event["seq"] for event in watcher.run_events(execution_id)]
            first = snapshot["active"]["seq"] + 1
            assert first > 1
            assert numbers == list(range(first, first + len(numbers)))
        else:
            assert {event["seq"] for event in watcher.run_events(execution_id)} == {None}
        await assert_parity(watcher, snapshot)
        assert len(results_of(watcher, execution_id)) == 1
    assert_whole_run(runner, execution_id)


async def test_a_session_followed_at_the_other_worker_shows_each_run_and_each_result_once(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as watcher:
        await runner.result((await runner.send(key, directive(id=f"{key}-0")))["executionId"])
        snapshot = await follow(watcher, runner, key)
        executions = []
        for number, orders in enumerate(({"n": 3}, {"n": 40, "rate": 60}, {"call": [("add", {"a": 1, "b": 2})]})):
            sent = await runner.send(key, directive(id=f"{key}-{number + 1}", **orders))
            executions.append(sent["executionId"])
            await runner.result(sent["executionId"])
        for execution_id in executions:
            assert (await watcher.result(execution_id))["status"] == "completed"
        await assert_parity(watcher, snapshot)
        assert [len(results_of(watcher, execution_id)) for execution_id in executions] == [1, 1, 1]


async def test_a_stopped_run_is_seen_to_end_once_by_every_worker(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as watcher:
        execution_id = await hang(runner, provider, key)
        snapshot = await watcher.subscribe(key)
        await watcher.stop(key)
        ours, theirs = await runner.result(execution_id), await watcher.result(execution_id)
        assert (theirs["abortReason"], theirs["text"]) == ("session_stop", ours["text"])
        await assert_parity(watcher, snapshot)
        assert [len(results_of(client, execution_id)) for client in (runner, watcher)] == [1, 1]


async def test_sends_at_both_workers_in_the_same_instant_run_one_by_one_in_the_order_of_the_queue(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as first, await cluster.connect(two) as second:
        names = [f"{key}-{number}" for number in range(6)]
        posts = [
            (client, name, await client.post("studio_chat_send", sessionKey=key, text=directive(id=name, n=6, hold=3)))
            for client, name in zip(itertools.cycle((first, second)), names, strict=False)
        ]
        replies = {name: await client.reply(post) for client, name, post in posts}
        [head] = [name for name, reply in replies.items() if not reply["queued"]]
        assert len(cluster.live(key)) == 1
        queued = [item["text"] for item in (await second.subscribe(key))["queue"]]
        order = [head, *(name for text in queued for name in names if text == directive(id=name, n=6, hold=3))]
        assert sorted(order) == names
        for number, name in enumerate(order):
            await provider.wait_arrived(name)
            assert len(cluster.live(key)) == 1
            assert sum(len(provider.of(other)) for other in names) == number + 1
            provider.release(name)
        await eventually(lambda: not cluster.live(key))
    statuses = [row["status"] for row in one.executions_of(key)]
    assert statuses == ["completed"] * len(names)
    asked = [record for record in provider.records if record.id in names]
    assert [record.id for record in asked] == order
    assert all(not record.problems for record in asked)


async def test_send_now_at_the_other_worker_interrupts_and_sends_exactly_that_message_once_with_the_note(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as other:
        first = await hang(runner, provider, f"{key}-first")
        key_of = f"{key}-first"
        await other.subscribe(key_of)
        queued = [await other.send(key_of, directive(id=f"{key}-{number}", n=3, hold=1)) for number in range(2)]
        replies = await asyncio.gather(
            other.call("studio_chat_send_now", sessionKey=key_of, queueId=queued[1]["queueId"]),
            runner.call("studio_chat_send_now", sessionKey=key_of, queueId=queued[1]["queueId"]),
        )
        assert [(reply["ok"], reply["interrupted"]) for reply in replies] == [(True, True)] * 2
        assert (await runner.result(first))["abortReason"] == "user_interrupt"
        sent = await provider.wait_arrived(f"{key}-1")
        assert "interrupt" in system_of(sent.messages)
        provider.release(f"{key}-1")
        after = await provider.wait_arrived(f"{key}-0")
        assert "interrupt" not in system_of(after.messages)
        provider.release(f"{key}-0")
        await eventually(lambda: not cluster.live(key))
    assert [len(provider.of(f"{key}-{name}")) for name in ("first", 0, 1)] == [1, 1, 1]


def system_of(messages: list[Frame]) -> str:
    return " ".join(str(message["content"]) for message in messages if message["role"] == "system").lower()


async def test_the_queue_is_the_same_at_both_workers_after_each_change(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as other:
        await hang(runner, provider, key)
        snapshot = await runner.subscribe(key)
        first = await other.send(key, "first")
        await other.send(key, "second")
        await other.call("studio_chat_queue_edit", sessionKey=key, queueId=first["queueId"], text="changed")
        await runner.wait(
            lambda f: (
                f["type"] == "studio_chat_queue" and [item["text"] for item in f["queue"]] == ["changed", "second"]
            )
        )
        await assert_parity(runner, snapshot)
        await other.stop(key)


async def test_a_hold_made_at_one_worker_is_told_at_the_other_and_its_release_too(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one, "op") as op, await cluster.connect(two, "bob") as bob:
        scope = {"user": "bob"}
        panic = await op.call("studio_chat_panic", hold=True, reason="a drill of the tests", scope=scope)
        told = await bob.wait(lambda f: f["type"] == "studio_chat_hold" and f["holds"])
        assert told["holds"] == [panic["hold"]]
        await op.call("studio_chat_release", holdId=panic["hold"]["id"])
        await bob.wait(lambda f: f["type"] == "studio_chat_hold" and not f["holds"])


async def test_logging_out_at_one_worker_closes_the_sockets_of_that_login_at_the_other(
    cluster: Cluster, key: str, hinted: bool
) -> None:
    if not hinted:
        pytest.skip("without a broker a socket outlives its login until it is closed")
    one, two = cluster
    cookies = await cluster.log_in(two, "bob")
    async with await StudioClient.connect(two.base_url, cookies) as bob, await cluster.connect(two) as ann:
        await bob.ping()
        await log_out(one, cookies)
        assert await bob.closed() == 4401
        await ann.ping()


async def log_out(worker: Studio, cookies: dict[str, str]) -> None:
    """Press the page's button."""
    async with aiohttp.ClientSession(cookies=cookies, cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        async with browser.get(f"{worker.base_url}/") as page:
            token = CSRF_FIELD.search(await page.text())
        assert token, "the studio's page has no form to log out"
        form = {"csrfmiddlewaretoken": token[1]}
        headers = {"Referer": f"{worker.base_url}/"}
        async with browser.post(f"{worker.base_url}/accounts/logout/", data=form, headers=headers) as answer:
            assert answer.ok
