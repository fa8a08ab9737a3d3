"""The live list of executions, as an operator's program follows it."""

import pytest

from tests.client import Frame, StudioClient
from tests.processes.harness import Studio, directive
from tests.provider import Provider

pytestmark = pytest.mark.processes


async def test_an_operator_sees_a_run_come_and_go(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    async with await studio.connect("op") as op:
        before = await op.call("studio_chat_executions_subscribe")
        assert before["ok"]
        reply = await ann.send(key, directive(id=key, n=1000, rate=50))

        def shows(frame: Frame) -> bool:
            return frame["type"] == "studio_chat_executions" and reply["executionId"] in ids(frame)

        shown = await op.wait(shows)
        [run] = [each for each in shown["executions"] if each["id"] == reply["executionId"]]
        assert (run["kind"], run["status"], run["user"], run["sessionKey"]) == ("turn", "running", "ann", key)
        seen = len(op.frames)
        await ann.stop(key)

        def shows_its_end(frame: Frame) -> bool:
            later = any(frame is each for each in op.frames[seen:])
            return later and frame["type"] == "studio_chat_executions" and reply["executionId"] not in ids(frame)

        shown = await op.wait(shows_its_end)
        [end] = [each for each in shown["ended"] if each["id"] == reply["executionId"]]
        assert (end["status"], end["abortReason"], end["requestedBy"]) == ("aborted", "session_stop", "ann")


async def test_who_has_unsubscribed_hears_no_more_of_it(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    async with await studio.connect("op") as watcher, await studio.connect("op") as op:
        await watcher.call("studio_chat_executions_subscribe")
        await op.call("studio_chat_executions_subscribe")
        assert (await op.call("studio_chat_executions_unsubscribe"))["ok"]
        seen = len(op.frames)
        reply = await ann.send(key, directive(id=key, n=1000, rate=50))
        await watcher.wait(lambda frame: reply["executionId"] in str(frame.get("executions")))
        await op.call("studio_chat_ping")  # what had been told before this answer has come before it
        assert [frame for frame in op.frames[seen:] if frame["type"] == "studio_chat_executions"] == []
        await ann.stop(key)


async def test_who_may_not_panic_may_not_watch(ann: StudioClient) -> None:
    refused = await ann.call("studio_chat_executions_subscribe")
    assert (refused["ok"], refused["code"]) == (False, "forbidden")


def ids(frame: Frame) -> list[str]:
    return [each["id"] for each in frame["executions"]]
