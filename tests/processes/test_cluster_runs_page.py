"""The Runs page at one worker, and what runs at another: seen, stopped alone, and ended by a panic with the rest."""

from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Browse, browse
from tests.browser.runs import RunsPage
from tests.processes.cluster import Cluster, assert_stored_abort, hang
from tests.processes.conftest import ClusterMaker
from tests.processes.ends import assert_closed_by_us
from tests.processes.servers import Redis
from tests.provider import Provider

__all__ = ["browse"]

pytestmark = [pytest.mark.processes, pytest.mark.browser]


@pytest.fixture(scope="module")
def cluster(make_cluster: ClusterMaker, redis: Redis) -> Iterator[Cluster]:
    cluster = make_cluster(2, REDIS_URL=redis.url)
    yield cluster
    cluster.end()


async def test_an_operator_stops_a_run_of_another_worker_and_a_panic_ends_those_of_both(
    cluster: Cluster, provider: Provider, browse: Browse, key: str
) -> None:
    here, there = cluster
    op = await RunsPage.open(await browse(here, "op"), text=key)
    async with await cluster.connect(here) as near, await cluster.connect(there, "bob") as far:
        stopped = await hang(far, provider, f"{key}-1")
        row = op.row(f"{key}-1")
        await expect(row.locator("[data-slot=worker]")).to_contain_text(f":{there.pid}")
        await row.get_by_role("button", name="Stop the run of bob").click()
        await op.confirm("Stop 1 run")
        await expect(op.told).to_have_text("1 stopped and confirmed.")
        await expect(row.locator("[data-slot=state]")).to_have_text("stopped")
        assert_closed_by_us(await provider.wait_closed(f"{key}-1"))
        assert_stored_abort(cluster, stopped, "session_stop", "op")

        both = [await hang(near, provider, f"{key}-2"), await hang(far, provider, f"{key}-3")]
        await expect(op.row(f"{key}-3")).to_contain_text("running")
        await op.tab.panic_button.click()
        await expect(op.dialog.locator(".panic-hit")).to_have_text("It stops 2 runs of 2 people.")
        await op.confirm("Stop everything")
        await expect(op.page.locator("studio-panic-outcome")).to_contain_text("2 runs were stopped")
        for name, execution_id in zip(("2", "3"), both, strict=True):
            assert_closed_by_us(await provider.wait_closed(f"{key}-{name}"))
            assert_stored_abort(cluster, execution_id, "panic_stop", "op")
            await expect(op.row(f"{key}-{name}").locator("[data-slot=state]")).to_have_text("stopped by Panic")
