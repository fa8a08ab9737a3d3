"""The operator's commands beside several workers, living and dead.

Nobody polls here: what a living owner is not told by a hint it does not do.
"""

import os
import pwd
from collections.abc import Iterator

import pytest

from tests.processes.cluster import NO_POLL_S, Cluster, assert_stored_abort, hang
from tests.processes.conftest import ClusterMaker
from tests.processes.ends import assert_closed_by_us, assert_stopped
from tests.processes.servers import Redis
from tests.provider import Provider

pytestmark = pytest.mark.processes

ME = pwd.getpwuid(os.getuid()).pw_name
# Long, so that a lease ends when a test says so.
LEASE_S = "300"
EXPIRE = """
UPDATE kernel_worker SET lease_until = now() - interval '1 second'
WHERE id IN (SELECT worker_id FROM kernel_executionrecord WHERE id = ?) RETURNING id
"""


@pytest.fixture(scope="module")
def shared_cluster(make_cluster: ClusterMaker, redis: Redis) -> Cluster:
    return make_cluster(2, REDIS_URL=redis.url, STUDIO_LEASE_S=LEASE_S, STUDIO_POLL_S=NO_POLL_S)


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Every test finds both workers running and may leave them dead or frozen."""
    yield shared_cluster.start()
    for worker in shared_cluster:
        if worker.runs:
            worker.continue_process()


async def make_orphan(cluster: Cluster, provider: Provider, key: str) -> str:
    """A run whose owner, the first worker, is dead and has lost its lease; the second is frozen and looks at nothing.

    Returns its execution's id.
    """
    one, two = cluster
    async with await cluster.connect(one) as runner:
        execution_id = await hang(runner, provider, key)
        two.stop_process()
        one.kill()
    assert cluster.rows(EXPIRE, execution_id)
    return execution_id


async def test_a_stop_on_an_orphan_ends_it_at_once_as_a_stop(cluster: Cluster, provider: Provider, key: str) -> None:
    execution_id = await make_orphan(cluster, provider, key)
    code, told = await cluster.manage("stop_session", key)
    assert (code, told["abortedCount"], told["unconfirmedCount"], told["activeCount"]) == (0, 1, 0, 0)
    assert_stored_abort(cluster, execution_id, "session_stop", ME)


async def test_reap_settles_orphans_and_leaves_alone_what_is_slow_but_has_a_lease(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    _, two = cluster
    async with await cluster.connect(two, "bob") as bob:
        slow = await hang(bob, provider, f"{key}-slow")
        execution_id = await make_orphan(cluster, provider, key)
        code, told = await cluster.manage("reap")
        assert (code, told["settled"], told["activeCount"]) == (0, [execution_id], 1)
        assert_stored_abort(cluster, execution_id, "worker_lost", "")
        assert cluster.execution_row(slow)["status"] == "running"
        assert (await cluster.manage("reap"))[1]["settledCount"] == 0
        two.continue_process()
        assert_stopped(await bob.stop(f"{key}-slow"))


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


async def test_with_all_workers_dead_a_run_is_unconfirmed_until_its_lease_is_over_and_settled_then(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    executions = []
    for number, worker in enumerate(cluster):
        async with await cluster.connect(worker) as client:
            executions.append(await hang(client, provider, f"{key}-{number}"))
    for worker in cluster:
        worker.kill()
    code, told = await cluster.manage("panic_all", "--hold", "--reason", "fire", "--wait", "0.2")
    try:
        assert (code, told["abortedCount"], told["unconfirmedCount"], told["activeCount"]) == (3, 0, 2, 2)
        assert told["hold"]["reason"] == "fire"
        code, listed = await cluster.manage("executions", "--live")
        assert (code, [row["id"] for row in listed]) == (0, executions[::-1])  # the newest first
        for execution_id in executions:
            assert cluster.rows(EXPIRE, execution_id)
        code, told = await cluster.manage("panic_all", "--reason", "flood")
        assert (code, told["abortedCount"], told["unconfirmedCount"], told["activeCount"]) == (0, 2, 0, 0)
        for execution_id in executions:
            assert_stored_abort(cluster, execution_id, "panic_stop", ME)
        assert await cluster.manage("executions", "--live") == (0, [])
    finally:
        assert (await cluster.manage("panic_release"))[1]["releasedCount"] == 1


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
        assert (await runner.result(execution_id))["abortReason"] == "panic_stop"
        assert_closed_by_us(await provider.wait_closed(key))
    assert_stored_abort(cluster, execution_id, "panic_stop", ME)
