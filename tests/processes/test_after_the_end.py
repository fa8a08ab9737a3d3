"""Whatever a turn ended of, the strictest provider takes the next request, and its note tells the truth, once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.client import Frame, StudioClient
from tests.processes.conftest import StudioMaker
from tests.processes.harness import Studio
from tests.provider import Provider, Record
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.processes

INTERRUPTED, INCOMPLETE = "was interrupted by the user: it is partial, and a new message has come", "is incomplete"
SLOW = ("wait_async", {"seconds": 480})
QUICK = ("add", {"a": 1, "b": 2})

# Where the turn is when it ends: orders to the provider, and the tools whose calls have arrived whole by then.
PLACES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "before any output": ({"hdr": "inf"}, []),
    "in its reasoning": ({"reason": 9, "hang": 4}, []),
    "in its text": ({"n": 9, "hang": 4}, []),
    "in half-received arguments": ({"pre": 2, "call": [QUICK], "hangargs": 1}, []),
    "with one of two calls done": ({"call": [QUICK, SLOW]}, ["add", "wait_async"]),
    "in a tool": ({"pre": 2, "call": [SLOW]}, ["wait_async"]),
    "in a tool that cannot be stopped": ({"call": [("wait_in_thread", {"seconds": 2})]}, ["wait_in_thread"]),
    "after a step": ({"call": [QUICK], "n": 9, "hang": 1}, ["add"]),
}


async def reach(client: StudioClient, provider: Provider, key: str, place: str) -> str:
    """Start a turn and wait until it is there; return its execution's id."""
    orders, tools = PLACES[place]
    execution_id = (await client.send(key, directive(id=f"{key}-first", **orders)))["executionId"]
    if "hang" in orders:
        await provider.wait(lambda: _said(provider, f"{key}-first") >= orders["hang"])
        await client.wait(lambda f: f["type"] == "studio_chat_delta" and f["executionId"] == execution_id)
    elif "hangargs" in orders:
        await provider.wait(lambda: _pieces(provider, f"{key}-first") >= 1)
    elif tools:
        states = {"completed"} if "add" in tools else set()
        for state in states | {"running"}:
            await client.wait(lambda f, state=state: _is_tool(f, execution_id, state))
    else:
        await provider.wait_arrived(f"{key}-first")
    return execution_id


def _said(provider: Provider, name: str) -> int:
    return len(provider.of(name)[-1].sent) if provider.of(name) else 0


def _pieces(provider: Provider, name: str) -> int:
    return provider.of(name)[-1].pieces if provider.of(name) else 0


def _is_tool(frame: Frame, execution_id: str, state: str) -> bool:
    is_tool = frame["type"] == "studio_chat_tool" and frame["executionId"] == execution_id
    return is_tool and frame["state"] == state and frame.get("input") is not None


def system(record: Record) -> str:
    return " ".join(m["content"] for m in record.messages if m["role"] == "system")


def notes(record: Record) -> tuple[bool, bool]:
    """Whether it is told that it was interrupted, and whether that its answer is incomplete."""
    return INTERRUPTED in system(record), INCOMPLETE in system(record)


async def answered(client: StudioClient, provider: Provider, reply: Frame, name: str) -> Record:
    """Wait for the whole answer of the request of this name, which a strict provider took; return the request."""
    assert (await client.result(reply["executionId"]))["status"] == "completed"
    [record] = provider.of(name)
    assert record.problems == []
    return record


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["stop", "send now"])
async def test_the_strictest_provider_takes_the_next_request_wherever_the_turn_was_ended(
    how: str, place: str, ann: StudioClient, provider: Provider, key: str
) -> None:
    execution_id = await reach(ann, provider, key, place)
    text = directive(id=f"{key}-next", n=2, strict=1)
    if how == "stop":
        assert (await ann.stop(key))["abortedCount"] == 1
        reply = await ann.send(key, text)
    else:
        reply = await ann.send(key, text, whenBusy="interrupt")
    record = await answered(ann, provider, reply, f"{key}-next")
    assert notes(record) == ((False, True) if how == "stop" else (True, False))
    tools = PLACES[place][1] if how == "send now" else []
    assert (f"These tools may have run: {', '.join(tools)}." in system(record)) is bool(tools)
    assert (await ann.result(execution_id))["status"] == "aborted"
    later = await ann.send(key, directive(id=f"{key}-later", n=2, strict=1))
    assert notes(await answered(ann, provider, later, f"{key}-later")) == (False, False)
    assert "interrupt" not in system(provider.of(f"{key}-first")[0])


async def stopped(ann: StudioClient, op: StudioClient, provider: Provider, key: str, execution_id: str) -> None:
    await ann.stop(key)


async def panicked(ann: StudioClient, op: StudioClient, provider: Provider, key: str, execution_id: str) -> None:
    await op.call("studio_chat_panic", scope={"user": "ann"})


async def let_go(ann: StudioClient, op: StudioClient, provider: Provider, key: str, execution_id: str) -> None:
    provider.release(f"{key}-first")


End = Callable[[StudioClient, StudioClient, Provider, str, str], Awaitable[None]]
HANGS = {"n": 9, "hang": 3}
# How a turn ends, the orders that make it end so, its status, and the notes of what is sent next: without and with the
# claim to have interrupted it.
ENDS: dict[str, tuple[End, dict[str, Any], str, tuple[bool, bool], tuple[bool, bool]]] = {
    "a stop": (stopped, HANGS, "aborted", (False, True), (True, False)),
    "a panic": (panicked, HANGS, "aborted", (False, True), (True, False)),
    "an error": (let_go, {"n": 9, "hold": 3, "error": 4}, "error", (False, True), (False, True)),
    "a lost connection": (let_go, {"n": 9, "hold": 3, "reset": 4}, "error", (False, True), (False, True)),
    "a clean end": (let_go, {"n": 4, "hold": 3}, "completed", (False, False), (False, False)),
}


@pytest.mark.parametrize("claim", [False, True], ids=["no claim", "claimed"])
@pytest.mark.parametrize("end", ENDS)
async def test_the_note_says_what_is_true_and_one_turn_later_nothing(
    end: str, claim: bool, studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    act, orders, status, *expected = ENDS[end]
    first = await ann.send(key, directive(id=f"{key}-first", **orders))
    await ann.wait_text(first["executionId"], "w2 ")
    async with await studio.connect("op") as op:
        await act(ann, op, provider, key, first["executionId"])
    assert (await ann.result(first["executionId"]))["status"] == status
    reply = await ann.send(key, directive(id=f"{key}-next", n=2, strict=1), interrupted=claim)
    assert notes(await answered(ann, provider, reply, f"{key}-next")) == expected[claim]
    later = await ann.send(key, directive(id=f"{key}-later", n=2, strict=1), interrupted=claim)
    assert notes(await answered(ann, provider, later, f"{key}-later")) == (False, False)


@pytest.fixture(scope="module")
def fragile(make_studio: StudioMaker) -> Studio:
    """A studio whose turns may be silent for a moment only, and whose process may be killed."""
    studio = make_studio(STUDIO_IDLE_TIMEOUT_S="3", STUDIO_LEASE_S="10")
    asyncio.run(studio.warm())
    return studio


async def test_after_a_timeout_the_answer_is_said_to_be_incomplete(
    fragile: Studio, provider: Provider, key: str
) -> None:
    async with await fragile.connect("ann") as ann:
        first = await ann.send(key, directive(id=f"{key}-first", call=[QUICK], n=9, hang=1))
        result = await ann.result(first["executionId"])
        assert (result["abortReason"], result.get("timeoutKind")) == ("timeout", "idle")
        reply = await ann.send(key, directive(id=f"{key}-next", n=2, strict=1))
        assert notes(await answered(ann, provider, reply, f"{key}-next")) == (False, True)


async def test_after_a_lost_process_too_with_calls_of_which_one_was_done(
    fragile: Studio, provider: Provider, key: str
) -> None:
    async with await fragile.connect("ann") as ann:
        await reach(ann, provider, key, "with one of two calls done")
        await eventually(lambda: any('"output": "3"' in row["parts"] for row in fragile.streaming_messages()))
        fragile.kill()
    await asyncio.to_thread(fragile.start)
    await fragile.warm()
    async with await fragile.connect("ann") as ann:
        await eventually(lambda: not fragile.live_executions())
        reply = await ann.send(key, directive(id=f"{key}-next", n=2, strict=1))
        record = await answered(ann, provider, reply, f"{key}-next")
        assert notes(record) == (False, True)
        results = [m["content"] for m in record.messages if m["role"] == "tool"]
        assert results[0] == "3"
        assert len(results) == 2


async def test_a_turn_that_nobody_watches_any_more_ends_cleanly_and_leaves_no_note(
    studio: Studio, provider: Provider, key: str
) -> None:
    async with await studio.connect("ann") as ann:
        await ann.send(key, directive(id=f"{key}-first", n=4, hold=2))
        await provider.wait_deltas(f"{key}-first", 2)
        ann.vanish()
    provider.release(f"{key}-first")
    async with await studio.connect("ann") as ann:
        await eventually(lambda: [row["status"] for row in studio.executions_of(key)] == ["completed"])
        reply = await ann.send(key, directive(id=f"{key}-next", n=2, strict=1), interrupted=True)
        assert notes(await answered(ann, provider, reply, f"{key}-next")) == (False, False)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("verb", ["continue", "regenerate", "resend"])
async def test_the_strictest_provider_takes_what_is_answered_again(
    verb: str, place: str, ann: StudioClient, provider: Provider, key: str
) -> None:
    first = await reach(ann, provider, key, place)
    await ann.stop(key)
    message_id = (await ann.result(first))["messageId"]
    before = len(of_session(provider, key))
    more = {}
    if verb == "resend":
        message_id = (await ann.subscribe(key))["messages"][-2]["id"]
        more = {"text": directive(id=f"{key}-again", n=2)}
    reply = await ann.call(f"studio_chat_{verb}", sessionKey=key, messageId=message_id, **more)
    assert reply["ok"], reply
    record = await provider.wait(lambda: (found := of_session(provider, key)[before:]) and found[0])
    assert notes(record) == (False, verb == "continue")
    await ann.stop(key)  # it may have been told to do as the first one did
    await ann.result(reply["executionId"])
    last = await ann.send(key, directive(id=f"{key}-last", n=2, strict=1))
    await answered(ann, provider, last, f"{key}-last")
    assert [record.problems for record in of_session(provider, key) if record.problems] == []


def of_session(provider: Provider, key: str) -> list[Record]:
    """The requests in which this session's messages are, in the order in which they came."""
    return [record for record in provider.records if key in str(record.messages)]
