"""Stop at a worker that does not own the run: by a hint alone with a broker, by the poll alone without one."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.client import StudioClient
from tests.processes.cluster import NO_POLL_S, PHASES, Cluster, assert_stored_abort, hang, reach, tell
from tests.processes.conftest import ClusterMaker
from tests.processes.ends import agreed_end, assert_closed_by_us, assert_stopped
from tests.processes.servers import Redis
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.processes

STOPS = 4  # in each phase


@pytest.fixture(scope="module", params=["a broker and no poll", "a poll and no broker"])
def cluster(request: pytest.FixtureRequest, make_cluster: ClusterMaker, redis: Redis) -> Iterator[Cluster]:
    changes = {"REDIS_URL": redis.url, "STUDIO_POLL_S": NO_POLL_S} if "no poll" in request.param else {}
    cluster = make_cluster(2, **changes)
    yield cluster
    cluster.end()


async def timed_stop(stopper: StudioClient, provider: Provider, key: str) -> float:
    """Stop the session elsewhere, have it confirmed, and return the seconds from the frame to the provider's close."""
    asked = time.monotonic()
    assert_stopped(await stopper.stop(key))
    record = await provider.wait_closed(key)
    if record.end == "failed":  # between two attempts nothing is open
        return 0.0
    if record.end != "finished":  # a tool's step has been answered whole
        assert_closed_by_us(record)
    assert record.closed is not None
    return max(0.0, record.closed - asked)


@pytest.mark.parametrize("phase", PHASES)
async def test_a_stop_at_the_other_worker_is_confirmed_in_every_phase(
    cluster: Cluster, provider: Provider, key: str, phase: str
) -> None:
    one, two = cluster
    times = []
    async with await cluster.connect(one) as runner, await cluster.connect(two) as stopper:
        for number in range(STOPS):
            name = f"{key}-{number}"
            execution_id = await reach(runner, provider, name, phase)
            times.append(await timed_stop(stopper, provider, name))
            result = await agreed_end(one, runner, execution_id)
            assert (result["abortReason"], result["stop"]["by"]) == ("session_stop", "ann")
            assert len(provider.of(name)) == 1
    tell(f"stop at the other worker, {phase}", times)
    assert cluster.live(key) == []


async def test_many_stops_at_the_other_worker_at_once_are_all_confirmed(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    names = [f"{key}-{number}" for number in range(30)]
    async with await cluster.connect(one) as runner, await cluster.connect(two) as stopper:
        executions = [await hang(runner, provider, name) for name in names]
        asked = time.monotonic()
        posts = [await stopper.post("studio_chat_stop_session", sessionKey=name) for name in names]
        replies = [await stopper.reply(post) for post in posts]
        closed = [(await provider.wait_closed(name)).closed or 0.0 for name in names]
        tell("30 stops at the other worker at once", [moment - asked for moment in closed])
        assert [reply["abortedCount"] for reply in replies] == [1] * len(names)
        assert [reply["unconfirmedCount"] for reply in replies] == [0] * len(names)
        assert cluster.live(key) == []
        for execution_id in executions:
            assert_stored_abort(cluster, execution_id, "session_stop", "ann")


async def test_a_panic_at_one_worker_aborts_what_both_run(cluster: Cluster, provider: Provider, key: str) -> None:
    one, two = cluster
    names = [f"{key}-{number}" for number in range(30)]
    async with (
        await cluster.connect(one) as first,
        await cluster.connect(two) as second,
        await cluster.connect(two, "op") as op,
    ):
        clients = [first, second] * 15
        executions = [await hang(client, provider, name) for client, name in zip(clients, names, strict=True)]
        asked = time.monotonic()
        panic = await op.call("studio_chat_panic")
        assert (panic["abortedCount"], panic["unconfirmedCount"], panic["activeCount"]) == (len(names), 0, 0)
        tell("panic of 30 runs", [((await provider.wait_closed(name)).closed or 0.0) - asked for name in names])
        for client, execution_id in zip(clients, executions, strict=True):
            assert (await client.result(execution_id))["abortReason"] == "panic_stop"
            assert_stored_abort(cluster, execution_id, "panic_stop", "op")


async def test_after_a_confirmed_stop_the_next_send_at_any_worker_starts_at_once(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as first, await cluster.connect(two) as second:
        for number in range(6):
            runner, other = (first, second) if number % 2 else (second, first)
            name = f"{key}-{number}"
            reply = await runner.send(key, directive(id=name, hang=2))
            assert reply["queued"] is False
            await provider.wait_deltas(name, 2)
            assert_stopped(await other.stop(key))


async def test_a_stop_in_the_same_instant_as_a_send_at_the_other_worker_leaves_one_truth(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as stopper:
        await runner.result((await runner.send(key, directive(id=key)))["executionId"])
        for number in range(12):
            name = f"{key}-{number}"
            send = await runner.post("studio_chat_send", sessionKey=key, text=directive(id=name, hang=1))
            await asyncio.sleep(0.002 * (number % 4))  # from just before it is admitted to just after
            stop = await stopper.stop(key)
            sent = await runner.reply(send)
            assert sent["queued"] is False
            assert stop["abortedCount"] + stop["activeCount"] <= 1
            if not stop["abortedCount"]:
                assert_stopped(await stopper.stop(key))
            assert (await runner.result(sent["executionId"]))["abortReason"] == "session_stop"
    assert cluster.live(key) == []


async def test_an_execution_id_is_a_fence_for_a_stop_at_the_other_worker(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as runner, await cluster.connect(two) as stopper:
        first = await runner.send(key, directive(id=f"{key}-first"))
        await runner.result(first["executionId"])
        second = await hang(runner, provider, key)
        late = await stopper.stop(key, executionId=first["executionId"])
        assert (late["abortedCount"], late["alreadyFinishedCount"], late["activeCount"]) == (0, 1, 1)
        assert_stopped(await stopper.stop(key, executionId=second))


async def test_another_persons_session_is_not_found_at_the_other_worker(
    cluster: Cluster, provider: Provider, key: str
) -> None:
    one, two = cluster
    async with await cluster.connect(one) as ann, await cluster.connect(two, "bob") as bob:
        execution_id = await hang(ann, provider, key)
        refused = await bob.stop(key)
        assert (refused["ok"], refused["code"], refused["abortedCount"]) == (False, "not_found", 0)
        assert cluster.execution_row(execution_id)["status"] == "running"
        async with await cluster.connect(two, "op") as op:
            stop = await op.stop(key)
            assert (stop["abortedCount"], stop["unconfirmedCount"]) == (1, 0)
        assert_stored_abort(cluster, execution_id, "session_stop", "op")
