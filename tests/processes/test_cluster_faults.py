"""Redis dies and comes back, PostgreSQL is restarted: stops work throughout, nothing is lost, and health tells."""

import asyncio
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.client import StudioClient
from tests.processes.cluster import PHASES, Cluster, assert_stored_abort, hang, reach
from tests.processes.conftest import ClusterMaker
from tests.processes.ends import agreed_end, assert_closed_by_us, assert_stopped
from tests.processes.harness import Studio
from tests.processes.servers import Postgres, Redis
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import READY_TIMEOUT_S

pytestmark = pytest.mark.processes

# An admission that has passed the gate and, as in a frozen process, never comes to its end.
STUCK = """
from django.db import transaction
from kernel import gate
with transaction.atomic():
    gate.pass_shared()
    print("admitting", flush=True)
    input()
"""


@pytest.fixture(scope="module")
def shared_cluster(make_cluster: ClusterMaker, redis: Redis) -> Cluster:
    return make_cluster(2, faulted=True, REDIS_URL=redis.url)


@pytest.fixture
def cluster(shared_cluster: Cluster, redis: Redis, postgres: Postgres) -> Iterator[Cluster]:
    """Every test finds the servers running and may leave them dead."""
    yield shared_cluster
    for server in (redis, postgres):
        server.revive()


async def health(worker: Studio) -> dict[str, Any]:
    async with aiohttp.ClientSession() as browser, browser.get(f"{worker.base_url}/readyz") as answer:
        told = await answer.json()
        assert (answer.status == 200) == told["ok"]
        return told["wrong"]


async def until_health(cluster: Cluster, *wrong: str) -> None:
    """Wait until every worker's health says that exactly this is wrong."""
    async with asyncio.timeout(READY_TIMEOUT_S):
        for worker in cluster:
            while set(await health(worker)) != set(wrong):
                await asyncio.sleep(0.1)


async def stop_in_every_phase(cluster: Cluster, provider: Provider, key: str) -> None:
    """Stop a run of the first worker at the second, once in each phase."""
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as stopper:
        for number, phase in enumerate(PHASES):
            name = f"{key}-{number}"
            execution_id = await reach(runner, provider, name, phase)
            assert_stopped(await stopper.stop(name))
            await provider.wait_closed(name)
            assert (await agreed_end(one, runner, execution_id))["abortReason"] == "session_stop"


async def is_relayed(runner: StudioClient, watcher: StudioClient, provider: Provider, key: str) -> bool:
    """Whether a run of one worker is seen delta by delta at the other."""
    reply = await runner.send(key, directive(id=key, n=30, rate=60))
    await provider.wait_deltas(key, 3)
    await watcher.subscribe(key)
    await watcher.result(reply["executionId"])
    return any(event["seq"] is not None for event in watcher.run_events(reply["executionId"]))


async def test_with_the_broker_killed_stops_work_in_every_phase_and_after_its_return_news_flows_again(
    cluster: Cluster, provider: Provider, redis: Redis, key: str
) -> None:
    one, two = cluster
    await until_health(cluster)
    async with await cluster.connect(one) as runner, await cluster.connect(two) as watcher:
        assert await is_relayed(runner, watcher, provider, f"{key}-before")
        redis.kill()
        await stop_in_every_phase(cluster, provider, f"{key}-down")
        await until_health(cluster, "broker")
        assert not await is_relayed(runner, watcher, provider, f"{key}-without")
        redis.revive()
        await until_health(cluster)
        await stop_in_every_phase(cluster, provider, f"{key}-up")
        assert await is_relayed(runner, watcher, provider, f"{key}-after")
        await runner.ping()
        await watcher.ping()


async def test_with_a_broker_that_answers_nothing_stops_work_in_every_phase(
    cluster: Cluster, provider: Provider, redis: Redis, key: str
) -> None:
    await until_health(cluster)
    redis.freeze()
    await stop_in_every_phase(cluster, provider, key)
    await until_health(cluster, "broker")
    redis.revive()
    await until_health(cluster)


async def test_a_worker_that_starts_without_its_broker_works_and_joins_it_when_it_comes(
    cluster: Cluster, provider: Provider, redis: Redis, key: str
) -> None:
    one, two = cluster
    redis.kill()
    await asyncio.to_thread(one.restart)
    await until_health(cluster, "broker")
    async with await cluster.connect(one) as runner, await cluster.connect(two) as stopper:
        await hang(runner, provider, key)
        assert_stopped(await stopper.stop(key))
        redis.revive()
        await until_health(cluster)
        assert await is_relayed(runner, stopper, provider, f"{key}-after")


async def test_runs_that_the_broker_dies_under_are_answered_whole_and_seen_to_end_once(
    cluster: Cluster, provider: Provider, redis: Redis, key: str
) -> None:
    one, two = cluster
    names = [f"{key}-{number}" for number in range(10)]
    async with await cluster.connect(one) as runner, await cluster.connect(two) as watcher:
        executions = []
        for name in names:
            executions.append((await runner.send(name, directive(id=name, n=150, rate=50)))["executionId"])
            await watcher.subscribe(name)
        await provider.wait_deltas(names[-1], 20)
        redis.kill()
        await provider.wait_deltas(names[-1], 80)
        redis.revive()
        for name, execution_id in zip(names, executions, strict=True):
            result = await agreed_end(one, runner, execution_id)
            assert (result["status"], result["text"]) == ("completed", provider.of(name)[0].text)
            assert (await watcher.result(execution_id))["text"] == result["text"]
        for execution_id in executions:
            told = [f for f in watcher.run_events(execution_id) if f["type"] == "studio_chat_result"]
            assert len(told) == 1


async def test_while_the_database_is_away_a_stop_closes_the_call_at_once_and_its_end_is_written_afterwards(
    cluster: Cluster, provider: Provider, postgres: Postgres, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as other:
        execution_id = await hang(runner, provider, key)
        streaming = (await other.send(f"{key}-long", directive(id=f"{key}-long", n=150, rate=50)))["executionId"]
        await provider.wait_deltas(f"{key}-long", 20)
        postgres.kill()
        stop = await runner.post("studio_chat_stop_session", sessionKey=key)
        assert_closed_by_us(await provider.wait_closed(key))
        reply = await runner.reply(stop)
        assert (reply["ok"], reply["code"], reply["unconfirmedCount"]) == (False, "internal", 1)
        postgres.revive()
        assert (await agreed_end(one, runner, execution_id))["abortReason"] == "session_stop"
        assert_stored_abort(cluster, execution_id, "session_stop", "ann")
        whole = await agreed_end(two, other, streaming)
        assert (whole["status"], whole["text"]) == ("completed", provider.of(f"{key}-long")[0].text)
        await until_health(cluster)
        for client in (runner, other):
            after = await client.send(key, directive(id=f"{key}-{id(client)}", strict=1))
            assert (await client.result(after["executionId"]))["status"] == "completed"


async def test_a_process_that_is_stuck_in_the_middle_of_an_admission_does_not_hold_up_a_panic(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two, "op") as op:
        execution_id = await hang(runner, provider, key)
        stuck = await cluster.start_command("shell", "--verbosity", "0", "-c", STUCK)
        try:
            assert stuck.stdout is not None
            assert "admitting" in (await stuck.stdout.readline()).decode()
            panic = await op.call("studio_chat_panic")
            assert (panic["ok"], panic["abortedCount"], panic["activeCount"]) == (True, 1, 0), panic
        finally:
            stuck.kill()
            await stuck.communicate()
        assert_stored_abort(cluster, execution_id, "panic_stop", "op")
