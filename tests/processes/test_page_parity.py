"""The page's own reducer on frames of a real studio: events applied to an old snapshot give what a fresh one says."""

import asyncio
import json
import shutil
from typing import Any

import pytest

from tests.client import StudioClient
from tests.processes.ends import assert_stopped
from tests.processes.harness import ROOT, Studio
from tests.provider import Provider
from tests.provider_script import directive
from tests.reducer import comparable

Frame = dict[str, Any]


async def played(snapshot: Frame, events: list[Frame]) -> Frame:
    """What the page knows after them."""
    node = shutil.which("node")
    assert node, "Node.js is missing. Install it (Debian: apt-get install nodejs)."
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(node, "tests/js/play.js", cwd=ROOT, stdin=pipe, stdout=pipe)
    said, _ = await process.communicate(json.dumps({"snapshot": snapshot, "events": events}).encode())
    assert process.returncode == 0
    state: Frame = json.loads(said)
    assert state.pop("stale") is False, "the page would have asked for a new snapshot"
    return state


async def test_the_page_knows_what_a_fresh_snapshot_says_after_answers_tools_a_queue_and_a_stop(
    studio: Studio, ann: StudioClient, key: str
) -> None:
    await ann.result((await ann.send(key, directive(id=f"{key}-0")))["executionId"])
    before = await ann.subscribe(key)
    seen = len(ann.events(key))
    calls = [("add", {"a": 1, "b": 2}), ("fail", {"text": "on-purpose"})]
    for number, orders in enumerate(({"reason": 4, "n": 4}, {"call": calls, "pre": 2, "n": 3}, {"n": 9, "reset": 4})):
        await ann.result((await ann.send(key, directive(id=f"{key}-{number}", **orders)))["executionId"])
    reply = await ann.send(key, directive(id=f"{key}-5", n=9, hang=5))
    first, second = [(await ann.send(key, text))["queueId"] for text in ("one", "two")]
    await ann.call("studio_chat_queue_edit", sessionKey=key, queueId=first, text="one, better")
    await ann.call("studio_chat_queue_move", sessionKey=key, queueId=second, position=0)
    await ann.wait_text(reply["executionId"], "w4 ")
    assert_stopped(await ann.stop(key))
    await ann.result(reply["executionId"])
    after = await ann.subscribe(key)
    assert [item["text"] for item in after["queue"]] == ["two", "one, better"]
    assert comparable(await played(before, ann.events(key)[seen:])) == comparable(after)


@pytest.mark.parametrize(
    "orders",
    [{"reason": 3, "n": 20, "hold": 9}, {"call": [("wait_async", {"seconds": 480})], "pre": 3}],
    ids=["text", "tool"],
)
async def test_the_page_knows_in_the_middle_of_a_run_what_a_fresh_snapshot_says(
    orders: dict[str, Any], studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.result((await ann.send(key, directive(id=f"{key}-0")))["executionId"])
    before = await ann.subscribe(key)
    seen = len(ann.events(key))
    execution_id = (await ann.send(key, directive(id=key, **orders)))["executionId"]
    if "call" in orders:
        await ann.wait(lambda frame: frame["type"] == "studio_chat_tool" and frame["state"] == "running")
    await provider.wait_deltas(key, orders.get("hold", 3))
    async with await studio.connect("ann") as late:
        fresh = await late.subscribe(key)
    seq = fresh["active"]["seq"]
    await ann.wait(lambda frame: frame.get("executionId") == execution_id and (frame.get("seq") or 0) >= seq)
    events = [e for e in ann.events(key)[seen:] if e.get("executionId") != execution_id or e["seq"] <= seq]
    assert comparable(await played(before, events)) == comparable(fresh)
    await ann.stop(key)
