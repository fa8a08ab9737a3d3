"""Servers at an address, over streamable HTTP, of the newer protocol and of the older one."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.abort import AbortController, AbortReason
from kernel.events import ToolState
from kernel.mcp import http
from tests.kernel.mcp.addresses import Newer, Older, served
from tests.kernel.mcp.conftest import Make, Peer
from tests.waiting import READY_TIMEOUT_S, eventually


@pytest.fixture
def newer() -> Iterator[Newer]:
    server = Newer()
    with served(server.app) as server.url:
        yield server


@pytest.fixture
def older() -> Iterator[Older]:
    server = Older()
    with served(server.app) as server.url:
        yield server


@pytest.fixture
async def reach(newer: Newer, peer: Make) -> Peer:
    return await opened(at(peer, newer))


def at(peer: Make, server: Any, **changes: Any) -> Peer:
    return peer(transport="http", command="", args=(), url=server.url, **changes)


async def opened(peer: Peer) -> Peer:
    assert await peer.link.open() is None
    return peer


async def why_not(peer: Peer) -> str:
    failure = await peer.link.open()
    assert failure is not None
    return failure.message


def stop(controller: AbortController) -> None:
    controller.abort(AbortReason.SESSION_STOP)


# The newer protocol


async def test_a_call_brings_the_servers_text(reach: Peer) -> None:
    assert (await reach.call("echo", text="привет")).output == "привет"


async def test_calls_run_together(reach: Peer) -> None:
    results = await asyncio.gather(*(reach.call("echo", text=str(n)) for n in range(20)))
    assert [result.output for result in results] == [str(n) for n in range(20)]


async def test_a_stop_ends_the_call_at_the_server_and_no_other(newer: Newer, reach: Peer) -> None:
    controllers = AbortController(), AbortController()
    one, other = (
        asyncio.create_task(reach.call("slow", controller, who=who))
        for controller, who in zip(controllers, ("one", "other"), strict=True)
    )
    await eventually(lambda: {"began one", "began other"} <= {*newer.seen})
    stop(controllers[0])
    assert (await asyncio.wait_for(one, READY_TIMEOUT_S)).state is ToolState.ABORTED
    await eventually(lambda: "ended one" in newer.seen)
    assert "ended other" not in newer.seen
    stop(controllers[1])
    await other


async def test_a_changed_list_is_asked_for_again(reach: Peer) -> None:
    await reach.call("grow")
    await eventually(lambda: "test__grown" in reach.names)


async def test_bad_arguments_are_an_error_for_the_model(reach: Peer) -> None:
    result = await reach.call("echo", wrong=1)
    assert result.state is ToolState.ERROR
    assert "text" in str(result.error)


# The older protocol


async def test_a_stop_is_told_to_the_server_with_the_id_of_the_request(older: Older, peer: Make) -> None:
    server = await opened(at(peer, older))
    controller = AbortController()
    call = asyncio.create_task(server.call("slow", controller))
    [request] = await eventually(lambda: older.of("tools/call"))
    stop(controller)
    assert (await asyncio.wait_for(call, READY_TIMEOUT_S)).state is ToolState.ABORTED
    [notice] = await eventually(lambda: older.of("notifications/cancelled"))
    assert notice["params"]["requestId"] == request["id"]


async def test_a_notice_that_nobody_takes_holds_up_nothing(
    older: Older, peer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "NOTICE_S", 0.2)
    older.deaf.add("notifications/cancelled")
    server = await opened(at(peer, older))
    controller = AbortController()
    call = asyncio.create_task(server.call("slow", controller))
    await eventually(lambda: older.of("tools/call"))
    stop(controller)
    await call
    await eventually(lambda: older.of("notifications/cancelled"))
    assert (await server.call("echo", text="next")).output == "next"
    assert len(older.of("initialize")) == 1


async def test_a_server_that_has_forgotten_the_session_is_greeted_anew(older: Older, peer: Make) -> None:
    server = await opened(at(peer, older))
    older.forget()
    assert (await server.call("echo", text="again")).output == "again"
    assert len(older.of("initialize")) == 2


async def test_an_answer_without_measure_is_an_error_and_the_next_call_works(older: Older, peer: Make) -> None:
    server = await opened(at(peer, older))
    result = await server.call("huge")
    assert result.state is ToolState.ERROR
    assert "more than any message may be" in str(result.error)
    assert (await server.call("echo", text="next")).output == "next"


async def test_an_answer_that_was_packed_unasked_is_refused(older: Older, peer: Make) -> None:
    older.packs = True
    assert await why_not(at(peer, older)) == "The MCP server 'test' answers in a packing that it was not asked for."


async def test_headers_are_sent_with_every_request(older: Older, peer: Make) -> None:
    await opened(at(peer, older, headers=(("Authorization", "Bearer abc"),)))
    assert {headers.get("authorization") for headers in older.headers} == {"Bearer abc"}


# Servers that are wrong


@pytest.mark.parametrize("code", [-32000, -32001], ids=["as the library's end", "as the library's limit"])
async def test_an_error_of_one_call_is_not_the_end_of_the_connection(code: int, older: Older, peer: Make) -> None:
    server = await opened(at(peer, older))
    older.error_of["tools/call"] = (code, "not today")
    assert (await server.call("echo", text="x")).error == "The MCP server 'test' answers: not today."
    older.error_of.clear()
    assert (await server.call("echo", text="next")).output == "next"
    assert len(older.of("initialize")) == 1


async def test_a_failure_is_told_without_the_secret_that_it_repeats(older: Older, peer: Make) -> None:
    older.error_of["initialize"] = (-32000, "Unknown: Bearer sk-0123456789, that is sk-0123456789\0")
    server = at(peer, older, headers=(("Authorization", "Bearer sk-0123456789"),))
    assert await why_not(server) == "The MCP server 'test' answers: Unknown: …, that is …\ufffd."


async def test_a_refusal_is_told_with_its_number(older: Older, peer: Make) -> None:
    older.status = 401
    assert await why_not(at(peer, older)) == "The MCP server 'test' answers 401 Unauthorized."


async def test_an_address_where_nobody_listens_is_told(peer: Make) -> None:
    server = peer(transport="http", command="", args=(), url="http://127.0.0.1:1/mcp")
    assert await why_not(server) == "The MCP server 'test' cannot be reached (ConnectError)."


async def test_an_address_that_is_no_mcp_server_is_told(older: Older, peer: Make) -> None:
    older.url = older.url.replace("/mcp", "/elsewhere")
    assert await why_not(at(peer, older)) == "The MCP server 'test' answers: Not Found."


async def test_a_silent_address_is_given_up(older: Older, peer: Make) -> None:
    older.deaf |= {"server/discover", "initialize"}
    assert "does not answer within 0.3 s" in await why_not(at(peer, older, connect_timeout_s=0.3))


async def test_a_server_that_goes_away_in_a_call_is_an_error_in_words(peer: Make) -> None:
    older = Older()
    with served(older.app) as older.url:
        server = await opened(at(peer, older))
    result = await server.call("echo", text="x")
    assert (result.state, result.error) == (
        ToolState.ERROR,
        "The MCP server 'test' cannot be reached (ConnectError).",
    )
