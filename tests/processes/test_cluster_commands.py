"""The operator's commands beside several workers, living and dead.

Nobody polls here: what is not told is not done, and an orphan stays one until somebody is asked about it.
"""

import os
import pwd

import pytest

from tests.processes.cluster import NO_POLL_S, Cluster, assert_foreign_end, assert_stored_abort, hang
from tests.processes.conftest import ClusterMaker
from tests.processes.ends import assert_closed_by_us, assert_stopped
from tests.processes.servers import Redis
from tests.provider import Provider
from tests.waiting import eventually

pytestmark = pytest.mark.processes

LEASE_S = 3
ME = pwd.getpwuid(os.getuid()).pw_name
ORPHANED = (
    "SELECT 1 FROM kernel_executionrecord e JOIN kernel_worker w ON w.id = e.worker_id"
    " WHERE e.id = ? AND e.status = 'running' AND w.lease_until < now()"
)


@pytest.fixture(scope="module")
def shared_cluster(make_cluster: ClusterMaker, redis: Redis) -> Cluster:
    return make_cluster(2, REDIS_URL=redis.url, STUDIO_LEASE_S=str(LEASE_S), STUDIO_POLL_S=NO_POLL_S)


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """Every test finds both workers running and may leave them dead."""
    return shared_cluster.start()


async def make_orphan(cluster: Cluster, provider: Provider, key: str) -> str:
    """A run whose owner, the first worker, is dead and has lost its lease; return its execution's id."""
    one, _ = cluster
    async with await cluster.connect(one) as runner:
        execution_id = await hang(runner, provider, key)
        one.kill()
    await eventually(lambda: cluster.rows(ORPHANED, execution_id))
    return execution_id


async def test_a_stop_on_an_orphan_ends_it_at_once(cluster: Cluster, provider: Provider, key: str) -> None:
    execution_id = await make_orphan(cluster, provider, key)
    async with await cluster.connect(cluster.workers[1]) as other:
        await other.subscribe(key)
        assert_stopped(await other.stop(key))
        await other.result(execution_id)
        assert_foreign_end(other, execution_id, "session_stop")
    assert_stored_abort(cluster, execution_id, "session_stop", "ann")


async def test_reap_settles_orphans_and_leaves_the_living_alone(cluster: Cluster, provider: Provider, key: str) -> None:
    execution_id = await make_orphan(cluster, provider, key)
    async with await cluster.connect(cluster.workers[1], "bob") as bob:
        living = await hang(bob, provider, f"{key}-living")
        code, told = await cluster.manage("reap")
        assert (code, told["settled"], told["activeCount"]) == (0, [execution_id], 1)
        assert_stored_abort(cluster, execution_id, "worker_lost", "")
        assert cluster.execution_row(living)["status"] == "running"
        await bob.stop(f"{key}-living")
    assert (await cluster.manage("reap"))[1]["settledCount"] == 0


async def test_panic_all_and_stop_session_reach_the_owners_on_every_worker_by_a_hint(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    names = [f"{key}-{number}" for number in range(4)]
    async with await cluster.connect(one) as ann, await cluster.connect(two, "bob") as bob:
        executions = [await hang(client, provider, name) for client, name in zip((ann, bob) * 2, names, strict=True)]
        code, listed = await cluster.manage("executions", "--live")
        assert (code, {row["id"] for row in listed}) == (0, set(executions))
        assert [row["user"] for row in listed] == ["bob", "ann", "bob", "ann"]  # the newest first
        assert len({row["worker"] for row in listed}) == 2
        code, told = await cluster.manage("stop_session", names[0])
        assert (code, told["abortedCount"], told["unconfirmedCount"], told["activeCount"]) == (0, 1, 0, 3)
        code, told = await cluster.manage("panic_all", "--reason", "fire")
        assert (code, told["abortedCount"], told["unconfirmedCount"], told["activeCount"]) == (0, 3, 0, 0)
        for client, execution_id in zip((bob, ann, bob), executions[1:], strict=True):
            assert (await client.result(execution_id))["abortReason"] == "panic_stop"
    for name in names:
        assert_closed_by_us(await provider.wait_closed(name))


async def test_with_all_workers_dead_the_commands_say_what_is_unconfirmed_and_settle_it_after_the_lease(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    names = [f"{key}-{number}" for number in range(3)]
    executions = []
    for worker, name in zip((*cluster, cluster.workers[0]), names, strict=True):
        async with await cluster.connect(worker) as client:
            executions.append(await hang(client, provider, name))
    for worker in cluster:
        worker.kill()
    code, told = await cluster.manage("stop_session", names[0], "--wait", "15")
    assert (code, told["abortedCount"], told["unconfirmedCount"]) == (0, 1, 0)
    assert_stored_abort(cluster, executions[0], "session_stop", ME)
    code, told = await cluster.manage("panic_all", "--hold", "--reason", "fire", "--wait", "15")
    try:
        assert (code, told["unconfirmedCount"], told["activeCount"], told["hold"]["reason"]) == (0, 0, 0, "fire")
        assert {cluster.execution_row(pk)["status"] for pk in executions} == {"aborted"}
        assert (await cluster.manage("executions", "--live")) == (0, [])
    finally:
        assert (await cluster.manage("panic_release"))[1]["releasedCount"] == 1
    assert (await cluster.manage("panic_all"))[0] == 0


async def test_a_frozen_owner_is_exit_code_three_until_it_wakes_and_obeys(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, _ = cluster
    async with await cluster.connect(one) as runner:
        execution_id = await hang(runner, provider, key)
        one.stop_process()
        try:
            code, told = await cluster.manage("panic_all", "--wait", "0.2")
            assert (code, told["abortedCount"], told["unconfirmedCount"], told["activeCount"]) == (3, 0, 1, 1)
        finally:
            one.continue_process()
        assert (await runner.result(execution_id))["abortReason"] in ("panic_stop", "worker_lost")
        assert_closed_by_us(await provider.wait_closed(key))
    assert_stored_abort(cluster, execution_id, "panic_stop", ME)
