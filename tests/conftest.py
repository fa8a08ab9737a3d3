"""Fixtures for all tests."""

from collections.abc import Iterator

import pytest

from tests.provider import Provider


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    """The scripted provider, one for all tests: each test gives its requests a name of its own."""
    provider = Provider().start()
    yield provider
    provider.close()
