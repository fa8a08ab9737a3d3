"""Tools that nobody asked for are offered only to models that are known to call tools."""

import pytest
from pytest_django import Settings

from kernel.llm import catalog
from tests.chat.live_studio import Studio
from tests.fakes import words

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("chosen", "known", "offered"), [(True, False, True), (False, True, True), (False, False, False)]
)
async def test_a_model_is_offered_tools_if_they_were_chosen_or_it_is_known_to_call_them(
    chosen: bool,
    known: bool,
    offered: bool,
    studio: Studio,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.STUDIO_TOOLS_CHOSEN = chosen
    monkeypatch.setattr(catalog, "calls_tools", lambda _name: known)
    studio.answers(words(3))
    await studio.result(await studio.send())
    assert bool(studio.model.requests[0].tools) is offered
