"""A short campaign of faults: the rounds that once broke something are played again (see docs/chaos.md)."""

import asyncio
from collections.abc import Iterator

import pytest

from chaos import plan
from chaos.campaign import Campaign
from chaos.seeds import KEPT
from chaos.stage import Stage
from tests.processes.servers import Postgres, Redis
from tests.provider import Provider

pytestmark = pytest.mark.processes

WORKERS = 3


@pytest.fixture(scope="module")
def campaign(
    tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, redis: Redis, provider: Provider
) -> Iterator[Campaign]:
    stage = Stage([tmp_path_factory.mktemp("worker") for _ in range(WORKERS)], provider, postgres, redis)
    try:
        yield Campaign(stage.start())
    finally:
        stage.end()


@pytest.mark.timeout(600)  # each wait has its own bound; this one is for them all
@pytest.mark.parametrize("kept", [kept for kept in KEPT if kept.in_tests], ids=str)
def test_every_invariant_holds_while_everything_breaks(campaign: Campaign, kept) -> None:
    asyncio.run(campaign.play(plan.plan(kept.seed, kept.round)))
    print(campaign.tally)


def test_a_plan_is_a_function_of_its_seed_alone() -> None:
    assert plan.plan(7, 3) == plan.plan(7, 3)
    assert plan.plan(7, 3) != plan.plan(7, 4)
    assert plan.plan(7, 3) != plan.plan(8, 3)


def test_the_rounds_of_a_campaign_have_every_operation_and_every_fault() -> None:
    rounds = list(plan.rounds(1, 10_000))
    assert sum(len(round_.operations) for round_ in rounds) >= 10_000
    assert {operation.verb for round_ in rounds for operation in round_.operations} == set(plan.OPERATORS_VERBS)
    faults = {fault.kind for round_ in rounds for fault in round_.faults}
    assert faults == {*plan.WORKER_FAULTS, *plan.SERVER_FAULTS}
