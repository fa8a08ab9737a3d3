"""Panic over four workers: everything, everywhere, while more is being started; and the hold that outlives them all."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.client import Frame, StudioClient
from tests.processes.cluster import Cluster, assert_stored_abort, hang, tell
from tests.processes.conftest import ClusterMaker
from tests.processes.ends import assert_closed_by_us
from tests.processes.servers import Redis
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.processes

WORKERS, RUNS = 4, 100


@pytest.fixture(scope="module")
def shared_cluster(make_cluster: ClusterMaker, redis: Redis) -> Cluster:
    return make_cluster(WORKERS, REDIS_URL=redis.url)


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """Every test finds all workers running."""
    return shared_cluster.start()


@asynccontextmanager
async def at_every_worker(cluster: Cluster, user: str = "ann") -> AsyncIterator[list[StudioClient]]:
    clients = await asyncio.gather(*(cluster.connect(worker, user) for worker in cluster))
    yield clients
    await asyncio.gather(*(client.close() for client in clients))


async def start_runs(clients: list[StudioClient], provider: Provider, key: str) -> list[str]:
    """Runs that speak and hang, evenly over the clients; return their executions' ids."""
    names = [f"{key}-{number}" for number in range(RUNS)]
    posts = []
    for number, name in enumerate(names):
        client = clients[number % len(clients)]
        text = directive(id=name, n=9, hang=3)
        posts.append((client, await client.post("studio_chat_send", sessionKey=name, text=text)))
    executions = [(await client.reply(post))["executionId"] for client, post in posts]
    for name in names:
        await provider.wait_deltas(name, 3)
    return executions


async def test_a_panic_at_one_worker_aborts_a_hundred_runs_on_four(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    async with at_every_worker(cluster) as clients, await cluster.connect(cluster.workers[0], "op") as op:
        executions = await start_runs(clients, provider, key)
        asked = time.monotonic()
        panic = await op.call("studio_chat_panic")
        replied = time.monotonic()
        # A machine that cannot write a hundred ends in a second says so, and counts them exactly.
        assert (panic["abortedCount"] + panic["unconfirmedCount"], panic["alreadyFinishedCount"]) == (RUNS, 0)
        assert panic["activeCount"] >= panic["unconfirmedCount"]
        records = [record for record in provider.records if record.id.startswith(key)]
        for record in records:
            assert_closed_by_us(record)
        tell(f"panic of {RUNS} runs on {WORKERS} workers: closed", [(record.closed or 0) - asked for record in records])
        print(f"replied after {(replied - asked) * 1000:.0f} ms, {panic['unconfirmedCount']} unconfirmed")
        for number, execution_id in enumerate(executions):
            assert (await clients[number % WORKERS].result(execution_id))["abortReason"] == "panic_stop"
            assert_stored_abort(cluster, execution_id, "panic_stop", "op")
        assert len([record for record in provider.records if record.id.startswith(key)]) == RUNS


async def test_no_run_that_starts_on_any_worker_during_a_panic_with_hold_escapes_it(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    async with at_every_worker(cluster) as clients, await cluster.connect(cluster.workers[0], "op") as op:
        enough = asyncio.Event()

        async def keep_starting(client: StudioClient, number: int) -> list[Frame]:
            replies = []
            while not enough.is_set():
                name = f"{key}-{number}-{len(replies)}"
                text = directive(id=name, n=9, hang=3)
                replies.append(await client.call("studio_chat_send", sessionKey=name, text=text))
            return replies

        starting = [asyncio.create_task(keep_starting(client, number)) for number, client in enumerate(clients)]
        await provider.wait(lambda: len([r for r in provider.records if r.id.startswith(key)]) >= 40)
        panic = await op.call("studio_chat_panic", hold=True, reason="a drill of the tests")
        begun = {record.id for record in provider.records if record.id.startswith(key)}
        try:
            enough.set()
            replies = [reply for task in starting for reply in await task]
            started = [reply["executionId"] for reply in replies if reply["ok"]]
            assert {reply["code"] for reply in replies if not reply["ok"]} <= {"held"}
            assert panic["activeCount"] >= panic["unconfirmedCount"]
            print(f"started {len(started)}, refused {len(replies) - len(started)}, aborted {panic['abortedCount']}")
            assert panic["abortedCount"] + panic["unconfirmedCount"] == len(started)
            await eventually(lambda: not cluster.live(key))
            for execution_id in started:
                assert_stored_abort(cluster, execution_id, "panic_stop", "op")
            for client in clients:
                refused = await client.call("studio_chat_send", sessionKey=f"{key}-late", text="hello")
                assert (refused["ok"], refused["code"]) == (False, "held")
            assert {record.id for record in provider.records if record.id.startswith(key)} == begun
        finally:
            assert (await release_elsewhere(cluster, panic))["released"] is True
        after = await clients[1].send(f"{key}-after", directive(id=f"{key}-after"))
        assert (await clients[1].result(after["executionId"]))["status"] == "completed"


async def release_elsewhere(cluster: Cluster, panic: Frame) -> Frame:
    """Release a hold at another worker than the one that made it."""
    async with await cluster.connect(cluster.workers[-1], "op") as op:
        return await op.call("studio_chat_release", holdId=panic["hold"]["id"])


async def test_a_hold_of_a_person_or_a_model_refuses_only_them_on_every_worker(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two, three, _ = cluster
    async with (
        await cluster.connect(one, "op") as op,
        await cluster.connect(two, "ann") as ann,
        await cluster.connect(three, "bob") as bob,
    ):
        mine, other = await hang(ann, provider, f"{key}-ann"), await hang(bob, provider, f"{key}-bob")
        waiting = await ann.send(f"{key}-ann", "a message that waits")
        panic = await op.call("studio_chat_panic", hold=True, reason="enough", scope={"user": "ann"})
        try:
            assert (panic["abortedCount"], panic["activeCount"], panic["heldCount"]) == (1, 1, 1)
            assert (await ann.result(mine))["abortReason"] == "panic_stop"
            refused = await ann.call("studio_chat_send", sessionKey=f"{key}-ann", text="hello")
            assert refused["code"] == "held"
            assert cluster.execution_row(other)["status"] == "running"
        finally:
            await release_elsewhere(cluster, panic)
        await ann.call("studio_chat_queue_remove", sessionKey=f"{key}-ann", queueId=waiting["queueId"])
        await bob.stop(f"{key}-bob")
        scope = {"model": "openai/another-model"}
        panic = await op.call("studio_chat_panic", hold=True, reason="enough", scope=scope)
        try:
            fields = {"sessionKey": f"{key}-model", "text": "hello"}
            refused = await bob.call("studio_chat_send", model="openai/another-model", **fields)
            assert refused["code"] == "held"
            assert (await bob.call("studio_chat_send", **fields))["ok"]
        finally:
            await release_elsewhere(cluster, panic)


async def test_a_hold_survives_a_restart_of_all_workers_and_is_released_at_any(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two, *_ = cluster
    async with await cluster.connect(one, "op") as op:
        await hang(op, provider, key)
        await op.send(key, directive(id=f"{key}-queued"))
        panic = await op.call("studio_chat_panic", hold=True, reason="over the weekend")
        assert (panic["abortedCount"], panic["heldCount"]) == (1, 1)
    await asyncio.to_thread(cluster.end)
    for worker in (one, two):
        worker.launch()
    for worker in (one, two):
        await asyncio.to_thread(worker.wait_until_ready)
    try:
        async with await cluster.connect(one, "op") as op:
            snapshot = await op.subscribe(key)
            assert snapshot["holds"] == [panic["hold"]]
            assert len(snapshot["queue"]) == 1
            refused = await op.call("studio_chat_send", sessionKey=key, text="hello")
            assert (refused["code"], provider.of(f"{key}-queued")) == ("held", [])
    finally:
        async with await cluster.connect(two, "op") as op:
            assert (await op.call("studio_chat_release", holdId=panic["hold"]["id"]))["released"] is True
    async with await cluster.connect(one, "op") as op:
        assert (await op.subscribe(key))["holds"] == []
        sent = await op.send(key, directive(id=f"{key}-after", n=1))
        assert sent["queued"] is False
