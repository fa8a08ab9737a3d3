"""Stop inside tools: the run ends at once, whatever the tool does, and a strict provider accepts the next request."""

import pytest

from tests.client import Frame, StudioClient
from tests.processes.ends import agreed_end, assert_stopped
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.processes


async def tool_running(client: StudioClient, execution_id: str, name: str) -> Frame:
    return await client.wait(
        lambda frame: (
            frame["type"] == "studio_chat_tool"
            and frame["executionId"] == execution_id
            and (frame["name"], frame["state"]) == (name, "running")
            and frame.get("input") is not None
        )
    )


async def tool_parts(client: StudioClient, key: str) -> dict[str, Frame]:
    messages = (await client.subscribe(key))["messages"]
    return {part["name"]: part for message in messages for part in message["parts"] if part["kind"] == "tool"}


async def test_stop_ends_a_run_inside_an_async_tool(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, call=[("wait_async", {"seconds": 480})]))
    await tool_running(ann, reply["executionId"], "wait_async")
    assert_stopped(await ann.stop(key))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["abortReason"] == "session_stop"
    assert (await tool_parts(ann, key))["wait_async"]["state"] == "aborted"
    assert len(provider.of(key)) == 1


async def test_stop_ends_a_run_inside_a_thread_and_says_that_the_tool_could_not_be_stopped(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, call=[("wait_in_thread", {"seconds": 2})]))
    await tool_running(ann, reply["executionId"], "wait_in_thread")
    assert_stopped(await ann.stop(key))
    await agreed_end(studio, ann, reply["executionId"])
    assert (await tool_parts(ann, key))["wait_in_thread"]["state"] == "unstoppable"
    assert len(provider.of(key)) == 1


async def test_the_late_result_of_a_thread_writes_nothing(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, call=[("wait_in_thread", {"seconds": 1})]))
    await tool_running(ann, reply["executionId"], "wait_in_thread")
    await ann.stop(key)
    result = await ann.result(reply["executionId"])
    before = (await ann.subscribe(key))["messages"][-1]
    # A second call of the same length begins after the first and so ends after it.
    later = await ann.send(key, directive(id=f"{key}-next", call=[("wait_in_thread", {"seconds": 1})], strict=1))
    await ann.result(later["executionId"])
    assert next(m for m in (await ann.subscribe(key))["messages"] if m["id"] == result["messageId"]) == before
    assert ann.run_events(reply["executionId"])[-1] == result


async def test_stop_ends_a_run_whose_tool_swallows_the_cancellation(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, call=[("wait_deaf", {"seconds": 4})]))
    await tool_running(ann, reply["executionId"], "wait_deaf")
    await ann.stop(key)
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["abortReason"] == "session_stop"
    assert (await ann.send(key, directive(id=f"{key}-next")))["queued"] is False


async def test_after_a_stop_between_two_results_a_strict_provider_accepts_the_next_request(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    calls = [("add", {"a": 1, "b": 2}), ("wait_async", {"seconds": 480})]
    reply = await ann.send(key, directive(id=key, call=calls))
    await ann.wait(lambda frame: frame["type"] == "studio_chat_tool" and frame["state"] == "completed")
    await tool_running(ann, reply["executionId"], "wait_async")
    await ann.stop(key)
    after = await ann.send(key, directive(id=f"{key}-next", strict=1))
    assert (await ann.result(after["executionId"]))["status"] == "completed"
    parts = await tool_parts(ann, key)
    assert (parts["add"]["state"], parts["add"]["output"]) == ("completed", "3")
    assert parts["wait_async"]["state"] == "aborted"
    results = [m for m in provider.of(f"{key}-next")[0].messages if m["role"] == "tool"]
    assert len(results) == 2


async def test_a_half_received_call_is_never_sent_back_to_the_provider(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    calls = [("add", {"a": 1, "b": 2})]
    await ann.send(key, directive(id=key, call=calls, hangargs=1))
    await provider.wait(lambda: provider.of(key) and provider.of(key)[0].pieces >= 1)
    assert_stopped(await ann.stop(key))
    after = await ann.send(key, directive(id=f"{key}-next", strict=1))
    assert (await ann.result(after["executionId"]))["status"] == "completed"
    [record] = provider.of(f"{key}-next")
    assert not [message for message in record.messages if message.get("tool_calls")]


async def test_stop_in_a_tool_loop_ends_the_loop(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.send(key, directive(id=key, call=[("wait_async", {"seconds": 0.05})], turns=50))
    await provider.wait_arrived(key, 3)
    assert_stopped(await ann.stop(key))
    stopped_at = len(provider.of(key))
    await ann.result((await ann.send(key, directive(id=f"{key}-next", n=20, rate=40)))["executionId"])
    assert len(provider.of(key)) == stopped_at
