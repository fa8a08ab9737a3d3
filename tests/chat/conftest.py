"""Fixtures for the chat's tests."""

from collections.abc import AsyncIterator

import pytest
from pytest_django import Settings

from kernel.llm import catalog
from kernel.worker import ThisWorker
from tests.chat.live_studio import Studio
from tests.fakes import ScriptedModel
from tests.kernel.conftest import worker

__all__ = ["studio", "worker"]


@pytest.fixture
async def studio(worker: ThisWorker, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Studio]:
    """A studio whose model is scripted, and which writes no titles unless a test says so."""
    settings.STUDIO_MODEL = "test/model"
    settings.STUDIO_TITLE_MODEL = "off"
    studio = Studio(worker)

    async def ready_model(_name: str) -> ScriptedModel:
        return studio.model

    monkeypatch.setattr(catalog, "ready_model", ready_model)
    # To know these is to load litellm.
    monkeypatch.setattr(catalog, "price", lambda *_: None)
    monkeypatch.setattr(catalog, "calls_tools", lambda _: False)
    yield studio
    studio.leave()
