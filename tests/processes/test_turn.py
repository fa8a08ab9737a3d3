"""A turn that nobody disturbs: it arrives whole, is stored, and its transcript tells the same."""

import pytest

from tests.client import StudioClient
from tests.processes.ends import agreed_end
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.processes


async def test_a_turn_of_sixty_deltas_arrives_whole_and_is_stored(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=60, rate=60))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["status"] == "completed"
    assert result["text"] == provider.of(key)[0].text
    assert len(result["text"].split()) == 60


async def test_the_result_carries_the_request_the_usage_and_the_steps(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=7), requestId="my-own-request")
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["requestId"] == "my-own-request"
    assert (result["usage"]["inputTokens"], result["usage"]["outputTokens"]) == (10, 7)
    assert result["usage"]["estimated"] is False
    assert (result["finishReason"], result["steps"]) == ("stop", 1)
    assert result.get("abortReason") is None


async def test_usage_that_the_provider_never_sends_is_estimated_and_marked(
    studio: Studio, ann: StudioClient, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=40, usage=0))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["usage"]["estimated"] is True
    assert result["usage"]["outputTokens"] > 0


async def test_a_burst_of_a_thousand_deltas_arrives_whole_and_coalesced(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=1000))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["text"] == provider.of(key)[0].text
    deltas = [event for event in ann.run_events(reply["executionId"]) if event["type"] == "studio_chat_delta"]
    assert len(deltas) < 300


async def test_characters_beyond_the_basic_plane_keep_their_offsets(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=40, rate=100, word="👩‍🚀ж"))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["text"] == provider.of(key)[0].text
    offset = 0
    for event in ann.run_events(reply["executionId"]):
        if event["type"] == "studio_chat_delta":
            assert event["offset"] == offset
            offset += len(event["text"])


async def test_reasoning_is_kept_apart_from_the_answer(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, reason=5, n=5))
    result = await agreed_end(studio, ann, reply["executionId"])
    [record] = provider.of(key)
    assert result["text"] == record.text
    [assistant] = [m for m in (await ann.subscribe(key))["messages"] if m["role"] == "assistant"]
    assert [part["kind"] for part in assistant["parts"]] == ["reasoning", "text"]
    assert assistant["parts"][0]["text"] == "".join(record.sent[:5])


async def test_tools_of_one_step_run_together_and_the_next_step_has_their_results(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    calls = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
    reply = await ann.send(key, directive(id=key, call=calls, pre=2, n=4, strict=1))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (result["status"], result["steps"]) == ("completed", 2)
    results = [m["content"] for m in provider.of(key)[1].messages if m["role"] == "tool"]
    assert results == ["3", "7"]
    assert [record.problems for record in provider.of(key)] == [[], []]


async def test_usage_is_the_sum_of_the_steps_everywhere(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, call=[("add", {"a": 1, "b": 2})], pre=2, n=4))
    usage = (await agreed_end(studio, ann, reply["executionId"]))["usage"]
    assert (usage["inputTokens"], usage["outputTokens"], usage["estimated"]) == (20, 6, False)
    record = studio.execution_row(reply["executionId"])
    assert (record["input_tokens"], record["output_tokens"]) == (20, 6)
    assert (await ann.subscribe(key))["messages"][-1]["usage"] == usage


async def test_arguments_that_are_no_json_become_an_error_that_the_model_can_read(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, call=[("add", '{"a":1,')], n=2, strict=1))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["status"] == "completed"
    [tool] = [part for part in await _parts(ann, key) if part["kind"] == "tool"]
    assert tool["state"] == "error"
    assert tool["error"]
    assert provider.of(key)[1].problems == []


async def test_a_tool_that_raises_is_told_to_the_model_and_the_turn_goes_on(
    studio: Studio, ann: StudioClient, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, call=[("fail", {"text": "broken-on-purpose"})], n=2))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["status"] == "completed"
    [tool] = [part for part in await _parts(ann, key) if part["kind"] == "tool"]
    assert tool["state"] == "error"


async def test_an_endless_tool_loop_ends_at_the_step_limit_without_tools(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, call=[("add", {"a": 1, "b": 1})], turns=50, n=2))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (result["status"], result["steps"]) == ("completed", 8)
    assert [bool(record.body.get("tools")) for record in provider.of(key)] == [True] * 7 + [False]


async def test_the_same_client_message_twice_is_one_message_and_one_answer(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    text = directive(id=key, n=5)
    first = await ann.send(key, text, clientMessageId="once")
    await ann.result(first["executionId"])
    again = await ann.send(key, text, clientMessageId="once")
    assert again["messageId"] == first["messageId"]
    assert again["executionId"] == first["executionId"]
    assert len((await ann.subscribe(key))["messages"]) == 2
    assert len(provider.of(key)) == 1


async def test_the_transcript_holds_each_message_as_created_and_as_settled(
    studio: Studio, ann: StudioClient, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=5))
    result = await agreed_end(studio, ann, reply["executionId"])
    lines = await eventually(lambda: len(found := studio.transcript(key)) == 3 and found)
    told = [(line["role"], line["status"]) for line in lines]
    assert told == [("user", "completed"), ("assistant", "streaming"), ("assistant", "completed")]
    assert lines[-1]["text"] == result["text"]


async def test_a_transcript_that_cannot_be_written_never_disturbs_the_turn(
    studio: Studio, ann: StudioClient, key: str
) -> None:
    studio.transcripts.mkdir(exist_ok=True)
    (studio.transcripts / f"{key}.jsonl").mkdir()
    before = len(studio.log_text())
    reply = await ann.send(key, directive(id=key, n=5))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["status"] == "completed"
    await eventually(lambda: "transcript" in studio.log_text()[before:])


async def _parts(client: StudioClient, key: str) -> list[dict[str, object]]:
    snapshot = await client.subscribe(key)
    return [part for message in snapshot["messages"] if message["role"] == "assistant" for part in message["parts"]]
