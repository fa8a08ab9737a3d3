"""The title is a second registered execution: it never keeps the session busy, and stop and panic end it too."""

from collections.abc import AsyncIterator

import pytest

from tests.client import StudioClient
from tests.processes.conftest import StudioMaker
from tests.processes.ends import agreed_end, assert_closed_by_us
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import Script, directive

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def titling(make_studio: StudioMaker) -> Studio:
    return make_studio(STUDIO_TITLE_MODEL="openai/title-model")


@pytest.fixture
async def ann(titling: Studio) -> AsyncIterator[StudioClient]:
    async with await titling.connect("ann") as client:
        yield client


async def test_the_first_turn_gives_the_session_a_title_in_every_tab(
    titling: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    provider.models["title-model"] = Script(id=f"{key}-title", n=3, word="T")
    async with await titling.connect("ann") as other:
        await other.ping()
        await ann.send(key, directive(id=key))
        for client in (ann, other):
            await client.wait(lambda f: f["type"] == "studio_chat_session" and f["session"]["title"] == "T0 T1 T2")
    kinds = [row["kind"] for row in titling.executions_of(key)]
    assert sorted(kinds) == ["title", "turn"]


async def test_a_title_that_hangs_leaves_the_session_free(
    titling: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    provider.models["title-model"] = Script(id=f"{key}-title", hdr=float("inf"))
    first = await ann.send(key, directive(id=key))
    await agreed_end(titling, ann, first["executionId"])
    await provider.wait_arrived(f"{key}-title")
    assert (await ann.subscribe(key))["session"]["state"] == "idle"
    second = await ann.send(key, directive(id=f"{key}-2"))
    assert second["queued"] is False
    await ann.result(second["executionId"])
    await ann.stop(key)
    assert_closed_by_us(await provider.wait_closed(f"{key}-title"))


@pytest.mark.parametrize("door", ["stop", "panic"])
async def test_a_title_call_is_ended_and_counted_by(
    door: str, titling: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    provider.models["title-model"] = Script(id=f"{key}-title", hdr=float("inf"))
    reply = await ann.send(key, directive(id=key))
    await ann.result(reply["executionId"])
    await provider.wait_arrived(f"{key}-title")
    if door == "stop":
        counts = await ann.stop(key)
    else:
        async with await titling.connect("op") as op:
            counts = await op.call("studio_chat_panic")
    assert (counts["ok"], counts["abortedCount"], counts["activeCount"]) == (True, 1, 0)
    assert_closed_by_us(await provider.wait_closed(f"{key}-title"))
    assert titling.live_executions() == []
    assert len(provider.of(f"{key}-title")) == 1


async def test_no_title_is_asked_for_after_a_stop(
    titling: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    provider.models["title-model"] = Script(id=f"{key}-title")
    await ann.send(key, directive(id=key, hang=3, n=9))
    await provider.wait_deltas(key, 3)
    await ann.stop(key)
    for _ in range(5):
        await ann.ping()
    assert provider.of(f"{key}-title") == []
