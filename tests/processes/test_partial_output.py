"""What had arrived is kept, once, by whatever the run is ended; and what is deleted stays deleted."""

import json

import pytest

from tests.client import StudioClient
from tests.processes.ends import agreed_end, assert_closed_by_us, assert_stopped
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.processes


async def test_a_reload_right_after_a_stop_shows_the_message_the_partial_answer_and_who_stopped(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.send(key, directive(id=key, n=1000, rate=100))
    await provider.wait_deltas(key, 40)
    assert_stopped(await ann.stop(key))
    async with await studio.connect("ann") as reloaded:
        user, assistant = (await reloaded.subscribe(key))["messages"]
    assert (user["role"], user["status"]) == ("user", "completed")
    assert (assistant["status"], assistant["abortReason"]) == ("aborted", "session_stop")
    assert assistant["stop"]["by"] == "ann"
    assert assistant["text"].split()[:30] == [f"w{number}" for number in range(30)]


async def test_a_stop_before_any_output_leaves_a_row_that_says_so(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, hdr="inf"))
    await provider.wait_arrived(key)
    assert_stopped(await ann.stop(key))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (result["text"], result["abortReason"]) == ("", "session_stop")
    snapshot = await ann.subscribe(key)
    assert (snapshot["session"]["state"], snapshot["active"]) == ("idle", None)
    assert len(snapshot["messages"]) == 2


async def test_finished_steps_and_the_text_of_the_stopped_one_are_kept(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    orders = {"call": [("add", {"a": 1, "b": 2})], "pre": 3, "n": 1000, "rate": 100}
    reply = await ann.send(key, directive(id=key, **orders))
    await provider.wait_arrived(key, 2)
    await ann.wait_text(reply["executionId"], "w9 ")
    assert_stopped(await ann.stop(key))
    result = await agreed_end(studio, ann, reply["executionId"])
    parts = (await ann.subscribe(key))["messages"][-1]["parts"]
    assert [part["kind"] for part in parts] == ["text", "tool", "text"]
    assert [part["step"] for part in parts] == [1, 1, 2]
    assert parts[0]["text"] == "w0 w1 w2 "
    assert (parts[1]["state"], parts[1]["output"]) == ("completed", "3")
    assert len(provider.of(key)) == 2
    assert result["steps"] in (1, 2)


async def test_usage_of_a_stopped_run_is_kept_and_marked_as_estimated(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=1000, rate=200))
    await ann.wait_text(reply["executionId"], "w40 ")
    await ann.stop(key)
    usage = (await agreed_end(studio, ann, reply["executionId"]))["usage"]
    assert usage["estimated"] is True
    assert usage["outputTokens"] > 0
    assert usage["inputTokens"] > 0
    assert (await ann.subscribe(key))["messages"][-1]["usage"] == usage


async def test_text_is_in_the_database_while_it_flows(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.send(key, directive(id=key, n=100, rate=20, hang=40))
    await provider.wait_deltas(key, 40)
    kept = [row["text"] for row in studio.streaming_messages() if row["text"]]
    # Two seconds have flowed; at most half a second of them may be missing, and one more is forgiven to a busy machine.
    assert any("w10 " in text for text in kept)
    await ann.stop(key)


async def test_the_interrupted_answer_is_in_the_next_request_without_a_placeholder(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=1000, rate=100))
    await ann.wait_text(reply["executionId"], "w9 ")
    await ann.stop(key)
    text = (await ann.result(reply["executionId"]))["text"]
    await ann.result((await ann.send(key, directive(id=f"{key}-next", strict=1)))["executionId"])
    answers = [m["content"] for m in provider.of(f"{key}-next")[0].messages if m["role"] == "assistant"]
    assert answers == [text] or answers == [text.strip()]


async def test_a_stop_after_the_end_changes_nothing(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=5))
    result = await agreed_end(studio, ann, reply["executionId"])
    before = (await ann.subscribe(key))["messages"]
    stop = await ann.stop(key, executionId=reply["executionId"])
    assert (stop["ok"], stop["abortedCount"], stop["alreadyFinishedCount"]) == (True, 0, 1)
    assert (await ann.subscribe(key))["messages"] == before
    assert ann.run_events(reply["executionId"])[-1] == result


async def test_deleting_a_session_ends_its_run_and_no_row_comes_back(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=1000, rate=100))
    await provider.wait_deltas(key, 5)
    deleted = await ann.call("studio_chat_session_delete", sessionKey=key)
    assert deleted["ok"], deleted
    assert_closed_by_us(await provider.wait_closed(key))
    assert studio.execution_row(reply["executionId"])["abort_reason"] == "deleted"
    assert studio.rows("SELECT * FROM chat_chatsession WHERE key = ?", key) == []
    assert key not in json.dumps((await ann.call("studio_chat_sessions"))["sessions"])
    unknown = await ann.call("studio_chat_subscribe", sessionKey=key)
    assert (unknown["ok"], unknown["code"]) == (False, "not_found")
    assert studio.streaming_messages() == []


async def test_a_session_that_was_deleted_can_begin_anew_under_its_key(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.send(key, directive(id=key, n=1000, rate=100))
    await provider.wait_deltas(key, 5)
    await ann.call("studio_chat_session_delete", sessionKey=key)
    reply = await ann.send(key, directive(id=f"{key}-anew", n=5))
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "completed"
    assert len((await ann.subscribe(key))["messages"]) == 2


async def test_the_transcript_tells_of_the_abort(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=1000, rate=100))
    await provider.wait_deltas(key, 5)
    await ann.stop(key)
    result = await agreed_end(studio, ann, reply["executionId"])
    last = await eventually(lambda: len(lines := studio.transcript(key)) == 3 and lines[-1])
    assert (last["status"], last["abortReason"], last["text"]) == ("aborted", "session_stop", result["text"])
