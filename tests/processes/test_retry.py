"""Retries are the kernel's own: shown, polite, ended by an abort, and never after the first output."""

import pytest

from tests.client import StudioClient
from tests.processes.ends import agreed_end, assert_stopped
from tests.processes.harness import API_KEY, Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.processes


async def test_a_busy_provider_is_asked_again_after_the_wait_that_it_named(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, status=429, after=1, fails=1, n=5))
    retrying = await ann.wait_phase(reply["executionId"], "retrying")
    result = await agreed_end(studio, ann, reply["executionId"])
    assert result["status"] == "completed"
    first, second = provider.of(key)
    assert second.arrived - (first.closed or 0) >= 1
    assert retrying["retryInMs"] >= 1000
    assert retrying["attempt"]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_two_failures_are_survived(
    status: int, studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, status=status, after=0, fails=2, n=5))
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "completed"
    assert len(provider.of(key)) == 3


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_a_refusal_is_not_retried_and_its_message_says_what_to_do(
    status: int, studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, status=status))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (result["status"], result.get("abortReason")) == ("error", None)
    assert len(provider.of(key)) == 1
    assert len(result["error"]) > 20
    assert API_KEY not in str(ann.frames)
    assert "Traceback" not in result["error"]


async def test_a_provider_that_always_fails_is_asked_at_least_three_times_and_then_told_as_an_error(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, status=503, after=0))
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "error"
    assert 3 <= len(provider.of(key)) <= 6


async def test_a_connection_that_breaks_before_any_output_is_retried(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, reset=0))
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "error"
    assert len(provider.of(key)) >= 3


FAULTS = ["reset", "cut", "eof", "error"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_after_the_first_output_a_fault_is_an_error_that_keeps_the_text_and_is_not_retried(
    fault: str, studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=10, rate=50, **{fault: 4}))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (result["status"], result.get("abortReason")) == ("error", None)
    assert result["text"] == "w0 w1 w2 w3 "
    assert result["error"]
    assert len(provider.of(key)) == 1


@pytest.mark.parametrize("fault", FAULTS)
async def test_reasoning_counts_as_output(
    fault: str, studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, reason=9, n=3, **{fault: 4}))
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "error"
    assert len(provider.of(key)) == 1


async def test_stop_ends_the_sleep_before_a_retry_and_nothing_is_asked_again(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, status=429, after=2))
    await ann.wait_phase(reply["executionId"], "retrying")
    assert_stopped(await ann.stop(key))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (result["status"], result["abortReason"]) == ("aborted", "session_stop")
    # A second run that waits as long for its own retry shows that the first one's time has come and gone.
    after = await ann.send(key, directive(id=f"{key}-next", status=429, after=2, fails=1))
    assert (await ann.result(after["executionId"]))["status"] == "completed"
    assert len(provider.of(key)) == 1


async def test_a_stop_while_the_provider_fails_is_a_stop(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=10, hold=5, reset=5))
    await provider.wait_deltas(key, 5)
    assert_stopped(await ann.stop(key))
    provider.release(key)
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (result["status"], result["abortReason"]) == ("aborted", "session_stop")


async def test_an_error_is_followed_by_a_turn_as_if_nothing_had_been(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await ann.result((await ann.send(key, directive(id=key, n=10, reset=4)))["executionId"])
    reply = await ann.send(key, directive(id=f"{key}-next", n=5, strict=1))
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "completed"
