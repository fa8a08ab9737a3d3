"""Fixtures of the process tests. Starting a studio costs seconds, so one is shared by all that need no own settings."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.client import StudioClient
from tests.processes.cluster import Cluster
from tests.processes.harness import API_KEY, Studio, make_template
from tests.processes.servers import Postgres, Redis, Server
from tests.provider import Provider

LOG_OF_A_BUG = ("Traceback", "never retrieved", "was destroyed but", "never awaited", API_KEY)

# A tool of the tests that raises is the tool's bug, and its author needs the traceback.
ON_PURPOSE = re.compile(r"Traceback \(most recent call last\):\n(?:  .*\n)+RuntimeError: .*on-purpose")

StudioMaker = Callable[..., Studio]
ClusterMaker = Callable[..., Cluster]
ServerT = TypeVar("ServerT", bound=Server)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="session")
def shared_studio(tmp_path_factory: pytest.TempPathFactory, template: Path, provider: Provider) -> Iterator[Studio]:
    studio = Studio(tmp_path_factory.mktemp("shared"), template, provider.url).start()
    asyncio.run(studio.warm())
    yield studio
    studio.end()


@pytest.fixture
def studio(shared_studio: Studio) -> Iterator[Studio]:
    """The shared studio. Afterwards its log must tell of no bug, whatever the test did to it."""
    before = len(shared_studio.log.read_bytes())
    yield shared_studio
    assert_no_bug_logged(shared_studio, before)


@pytest.fixture(scope="module")
def make_studio(tmp_path_factory: pytest.TempPathFactory, template: Path, provider: Provider) -> Iterator[StudioMaker]:
    """Makes studios with their own settings (`make_studio(STUDIO_LEASE_S="2")`); they end with the module."""
    made: list[Studio] = []

    def make(provider_url: str = provider.url, **changes: str) -> Studio:
        studio = Studio(tmp_path_factory.mktemp("own"), template, provider_url, **changes)
        made.append(studio)
        return studio.start()

    yield make
    for studio in made:
        studio.end()
    for studio in made:
        assert_no_bug_logged(studio)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with ending(Postgres()) as postgres:
        postgres.make_template()
        yield postgres


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with ending(Redis()) as redis:
        yield redis


@pytest.fixture(scope="module")
def make_cluster(
    tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, redis: Redis, provider: Provider
) -> Iterator[ClusterMaker]:
    """Makes clusters on a database of their own: `make_cluster(2, REDIS_URL=redis.url)`. They end with the module.

    Before their servers do: hence `redis` here, though not every cluster is told of it. With `faulted`, those servers
    fail on purpose, and the workers' logs may tell of it.
    """
    made: list[Cluster] = []
    checked: list[Cluster] = []

    def make(size: int, *, faulted: bool = False, **changes: str) -> Cluster:
        directories = [tmp_path_factory.mktemp("worker") for _ in range(size)]
        cluster = Cluster(directories, provider.url, DATABASE_URL=postgres.make_database(), **changes)
        made.append(cluster)
        if not faulted:
            checked.append(cluster)
        return cluster.start()

    yield make
    for cluster in made:
        cluster.end()
    for cluster in checked:
        for worker in cluster:
            assert_no_bug_logged(worker)


@pytest.fixture
async def ann(studio: Studio) -> AsyncIterator[StudioClient]:
    async with await studio.connect("ann") as client:
        yield client


@pytest.fixture
def key() -> str:
    """A session key, and a name for the provider's requests, that no other test uses."""
    return uuid.uuid4().hex


@contextmanager
def ending(server: ServerT) -> Iterator[ServerT]:
    """Start a server; end it whatever happens."""
    try:
        server.start()
        yield server
    finally:
        server.end()


def assert_no_bug_logged(studio: Studio, since: int = 0) -> None:
    log = ON_PURPOSE.sub("", studio.log_text(since))
    assert not [trace for trace in LOG_OF_A_BUG if trace in log], log
