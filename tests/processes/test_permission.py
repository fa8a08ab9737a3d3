"""A stranger finds no session: every door answers `not_found`, before any other judgement, and nothing changes."""

import pytest

from tests.client import StudioClient
from tests.processes.ends import agreed_end, assert_stopped
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.processes

DOORS = {
    "studio_chat_stop_session": {},
    "studio_chat_send": {"text": "hello"},
    "studio_chat_subscribe": {},
    "studio_chat_session_rename": {"title": "mine"},
    "studio_chat_session_delete": {},
}


@pytest.mark.parametrize("door", DOORS)
async def test_a_stranger_finds_nothing_and_the_run_goes_on(
    door: str, studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=9, hold=3))
    await provider.wait_deltas(key, 3)
    async with await studio.connect("bob") as bob:
        answer = await bob.call(door, sessionKey=key, **DOORS[door])
        unknown = await bob.call(door, sessionKey=f"{key}-unknown", **DOORS[door])
    assert (answer["type"], answer["ok"], answer["code"]) == (f"{door}_ok", False, "not_found")
    if door != "studio_chat_send":  # an unknown key is a new session for its sender
        assert [answer[name] for name in ("code", "error")] == [unknown[name] for name in ("code", "error")]
    provider.release(key)
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "completed"


async def test_a_strangers_stop_counts_nothing(studio: Studio, ann: StudioClient, provider: Provider, key: str) -> None:
    reply = await ann.send(key, directive(id=key, n=9, hold=3))
    async with await studio.connect("bob") as bob:
        for fields in ({}, {"executionId": reply["executionId"]}):
            stop = await bob.stop(key, **fields)
            counts = [stop[name] for name in ("abortedCount", "activeCount", "unconfirmedCount")]
            assert (stop["code"], counts) == ("not_found", [0, 0, 0])
    provider.release(key)
    assert (await ann.result(reply["executionId"]))["status"] == "completed"


async def test_an_operator_stops_another_persons_session_under_his_own_name(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, hang=3, n=9))
    await provider.wait_deltas(key, 3)
    async with await studio.connect("op") as op:
        assert (await op.stop(key))["abortedCount"] == 1
    assert (await agreed_end(studio, ann, reply["executionId"]))["stop"]["by"] == "op"


async def test_a_stranger_hears_nothing_of_a_session(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    async with await studio.connect("bob") as bob:
        await bob.call("studio_chat_subscribe", sessionKey=key)
        await ann.result((await ann.send(key, directive(id=key)))["executionId"])
        await bob.ping()
        assert bob.events(key) == []
        assert key not in str((await bob.call("studio_chat_sessions"))["sessions"])


async def test_a_message_to_somebody_elses_session_opens_no_way_to_stop_its_run(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    """A message that will be refused is on its way in when the stop is read: it must not vouch for its sender."""
    reply = await ann.send(key, directive(id=key, n=1000, rate=100))
    await provider.wait_deltas(key, 5)
    async with await studio.connect("bob") as bob:
        for _ in range(20):
            sent = await bob.post("studio_chat_send", sessionKey=key, text="mine now")
            stopped = await bob.post("studio_chat_stop_session", sessionKey=key)
            assert (await bob.reply(sent))["code"] == "not_found"
            refused = await bob.reply(stopped)
            assert (refused["ok"], refused.get("code"), refused["abortedCount"]) == (False, "not_found", 0)
    assert provider.of(key)[0].closed is None
    assert_stopped(await ann.stop(key))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["stop"]["by"] == "ann"
