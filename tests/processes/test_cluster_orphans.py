"""An owner that dies or freezes: its runs are ended by another worker, once, and it may not write them any more."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.processes.cluster import Cluster, assert_foreign_end, assert_stored_abort, hang
from tests.processes.conftest import ClusterMaker
from tests.processes.ends import agreed_end, assert_closed_by_us
from tests.processes.servers import Redis
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.processes

LEASE_S = 5
RECOVERY_S = 5.0  # after the lease, at most, by the contract
LOST_S = 0.5  # of text, at most, by the contract
FORGIVEN_S = 1.0  # to a busy machine


@pytest.fixture(scope="module")
def shared_cluster(make_cluster: ClusterMaker, redis: Redis) -> Cluster:
    return make_cluster(2, REDIS_URL=redis.url, STUDIO_LEASE_S=str(LEASE_S))


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Every test finds both workers running and may leave any dead or frozen."""
    shared_cluster.start()
    yield shared_cluster
    for worker in shared_cluster:
        if worker.runs:
            worker.continue_process()


async def test_a_killed_owners_run_is_ended_as_lost_by_the_other_worker_with_its_text_kept(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(two) as watcher:
        async with await cluster.connect(one) as runner:
            execution_id = (await runner.send(key, directive(id=key, n=3000, rate=40)))["executionId"]
            await provider.wait_deltas(key, 100)
            await watcher.subscribe(key)
            killed = time.monotonic()
            one.kill()
        result = await watcher.result(execution_id, LEASE_S + RECOVERY_S + FORGIVEN_S)
        print(f"settled {time.monotonic() - killed:.1f} s after the kill; the lease is {LEASE_S} s")
        assert_foreign_end(watcher, execution_id, "worker_lost")
        answer = assert_stored_abort(cluster, execution_id, "worker_lost", "")
        record = await provider.wait_closed(key)
        assert result["text"] == answer["text"]
        assert record.text.startswith(answer["text"])
        assert len(answer["text"].split()) >= sum(sent < killed - LOST_S - FORGIVEN_S for sent in record.times) > 0
        print(f"lost with the owner: {(len(record.sent) - len(answer['text'].split())) / 40:.2f} s of text")
        after = await watcher.send(key, directive(id=f"{key}-next", strict=1))
        assert (await agreed_end(two, watcher, after["executionId"]))["status"] == "completed"
    assert len(provider.of(key)) == 1


async def test_a_stop_that_was_stored_before_its_owner_was_lost_is_the_end_of_the_run(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(two) as other:
        async with await cluster.connect(one) as runner:
            execution_id = await hang(runner, provider, key)
            await other.subscribe(key)
            one.kill()
        stop = await other.stop(key)
        assert (stop["ok"], stop["abortedCount"] + stop["unconfirmedCount"]) == (True, 1)
        assert stop["activeCount"] == stop["unconfirmedCount"]
        await other.result(execution_id)
        assert_foreign_end(other, execution_id, "session_stop")
        assert_stored_abort(cluster, execution_id, "session_stop", "ann")


async def test_an_owner_that_was_frozen_for_longer_than_its_lease_may_not_write_and_closes_its_call(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as watcher:
        execution_id = (await runner.send(key, directive(id=key, n=3000, rate=40)))["executionId"]
        await runner.wait_text(execution_id, "w20 ")
        await watcher.subscribe(key)
        one.stop_process()
        await watcher.result(execution_id)
        assert_foreign_end(watcher, execution_id, "worker_lost")
        ended = cluster.execution_row(execution_id), cluster.answer_row(execution_id)
        assert provider.of(key)[0].end == "open"
        one.continue_process()
        assert_closed_by_us(await provider.wait_closed(key))
        assert (await runner.result(execution_id))["abortReason"] == "worker_lost"
        assert (cluster.execution_row(execution_id), cluster.answer_row(execution_id)) == ended
        after = await runner.send(key, directive(id=f"{key}-next", strict=1))
        assert (await agreed_end(one, runner, after["executionId"]))["status"] == "completed"


async def test_a_frozen_workers_run_is_unconfirmed_by_a_panic_and_settled_as_panic_later(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two, "op") as op:
        frozen = await hang(runner, provider, f"{key}-frozen")
        awake = await hang(op, provider, f"{key}-awake")
        one.stop_process()
        panic = await op.call("studio_chat_panic", reason="fire")
        counts = {name: panic[f"{name}Count"] for name in ("aborted", "unconfirmed", "alreadyFinished", "active")}
        assert counts == {"aborted": 1, "unconfirmed": 1, "alreadyFinished": 0, "active": 1}
        assert_stored_abort(cluster, awake, "panic_stop", "op")
        await cluster.settled(frozen)
        assert_stored_abort(cluster, frozen, "panic_stop", "op")
        one.continue_process()
        assert_closed_by_us(await provider.wait_closed(f"{key}-frozen"))
        assert (await runner.result(frozen))["abortReason"] == "panic_stop"


async def test_a_slow_living_run_is_not_taken_by_the_other_worker(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, _ = cluster
    async with await cluster.connect(one) as runner:
        calls = [("wait_async", {"seconds": 2 * LEASE_S})]
        reply = await runner.send(key, directive(id=key, call=calls, n=3))
        assert (await agreed_end(one, runner, reply["executionId"]))["status"] == "completed"


async def test_a_promised_message_of_a_lost_turn_is_sent_by_the_worker_that_takes_over(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(two) as other:
        async with await cluster.connect(one) as runner:
            execution_id = await hang(runner, provider, key)
            item = await other.send(key, directive(id=f"{key}-next"))
            one.kill()
        sent = await other.call("studio_chat_send_now", sessionKey=key, queueId=item["queueId"])
        assert (sent["ok"], sent["interrupted"]) == (True, True)
        await provider.wait_closed(f"{key}-next")
        await eventually(lambda: not cluster.live(key))
    assert_stored_abort(cluster, execution_id, "user_interrupt", "ann")
    assert [row["status"] for row in one.executions_of(key)] == ["aborted", "completed"]
    assert len(provider.of(f"{key}-next")) == 1


async def test_a_drained_workers_runs_end_as_shutdown_and_are_seen_at_the_other(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as watcher:
        execution_id = await hang(runner, provider, key)
        await watcher.subscribe(key)
        one.terminate()
        assert (await watcher.result(execution_id))["abortReason"] == "shutdown"
        assert await runner.closed() == 1001
        await asyncio.to_thread(one.wait_exit)
        after = await watcher.send(key, directive(id=f"{key}-next"))
        assert (await watcher.result(after["executionId"]))["status"] == "completed"
