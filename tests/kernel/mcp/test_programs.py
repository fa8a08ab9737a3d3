"""Servers that are programs on this machine: called, stopped, lost, and wrong in every way."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernel.abort import AbortController, AbortReason
from kernel.events import ToolState
from kernel.mcp import link as link_module
from kernel.mcp import program as program_module
from kernel.mcp.errors import McpFailure, Silent
from tests.kernel.mcp.conftest import PROGRAM, Make, Peer
from tests.kernel.test_process import ends
from tests.waiting import READY_TIMEOUT_S, eventually

PARENT = """
import os, subprocess, sys, time
words = [str(os.getpid()) if word == "PARENT" else word for word in sys.argv[1:]]
subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
time.sleep(600)
"""


async def opened(peer: Peer) -> Peer:
    assert await peer.link.open() is None
    return peer


async def refused(peer: Peer) -> McpFailure:
    failure = await asyncio.wait_for(peer.link.open(), READY_TIMEOUT_S)
    assert failure is not None
    return failure


async def stopped_call(peer: Peer, name: str) -> Any:
    """A call that a stop ends while the server is at it."""
    controller = AbortController()
    call = asyncio.create_task(peer.call(name, controller))
    await peer.begun()
    controller.abort(AbortReason.SESSION_STOP)
    return await asyncio.wait_for(call, READY_TIMEOUT_S)


# Calls


async def test_a_call_brings_the_servers_text(peer: Make) -> None:
    result = await (await opened(peer())).call("echo", text="привет")
    assert (result.state, result.output) == (ToolState.COMPLETED, "привет")


async def test_tools_are_named_after_their_server_and_described_by_it(peer: Make) -> None:
    server = await opened(peer(name="files"))
    assert server.names == ["files__echo", "files__slow", "files__late", "files__die"]
    assert server.link.tools[0].spec["function"]["description"] == "To echo."
    assert server.link.tools[0].schema["properties"] == {"text": {"type": "string"}}


async def test_calls_of_several_runs_share_one_program(peer: Make) -> None:
    server = await opened(peer())
    results = await asyncio.gather(*(server.call("echo", text=str(n)) for n in range(20)))
    assert [result.output for result in results] == [str(n) for n in range(20)]
    assert len(server.of("initialize")) == 1


async def test_what_a_tool_reports_as_an_error_is_one_for_the_model(peer: Make) -> None:
    server = await opened(peer())
    with pytest.raises(McpFailure, match="no tool missing"):
        await server.link.call("missing", {})


# Stop


async def test_a_stop_calls_the_request_off_at_the_server_and_waits_for_nothing(peer: Make) -> None:
    server = await opened(peer())
    result = await stopped_call(server, "slow")
    assert result.state is ToolState.ABORTED
    [call] = server.of("tools/call")
    [notice] = await eventually(lambda: server.of("notifications/cancelled"))
    assert notice["params"]["requestId"] == call["id"]


async def test_a_result_that_comes_after_the_stop_is_dropped(peer: Make) -> None:
    server = await opened(peer())
    result = await stopped_call(server, "late")
    assert (result.state, result.output) == (ToolState.ABORTED, None)
    await eventually(lambda: server.of("notifications/cancelled"))
    assert (await server.call("echo", text="next")).output == "next"  # it came after the late one


async def test_a_stop_of_one_call_leaves_the_others_alone(peer: Make) -> None:
    server = await opened(peer())
    others = [asyncio.create_task(server.call("slow")) for _ in range(3)]
    await server.begun(3)
    controller = AbortController()
    call = asyncio.create_task(server.call("slow", controller))
    *_, last = await server.begun(4)
    controller.abort(AbortReason.SESSION_STOP)
    assert (await call).state is ToolState.ABORTED
    notices = await eventually(lambda: server.of("notifications/cancelled"))
    assert [notice["params"]["requestId"] for notice in notices] == [last["id"]]
    assert not any(other.done() for other in others)
    for other in others:
        other.cancel()
    await asyncio.wait(others)


async def test_a_call_over_its_limit_is_called_off_and_is_an_error(peer: Make) -> None:
    server = await opened(peer(call_timeout_s=1))
    result = await server.call("slow")
    assert (result.state, result.error) == (ToolState.ERROR, "The tool ran longer than 1 s.")
    assert await eventually(lambda: server.of("notifications/cancelled"))


async def test_a_stop_while_connecting_leaves_the_connecting_to_others(peer: Make) -> None:
    server = peer()
    first, second = (asyncio.create_task(server.link.open()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is None
    assert first.cancelled()


# Loss


async def test_a_program_that_dies_in_a_call_is_an_error_in_words_and_the_next_call_starts_it_anew(peer: Make) -> None:
    server = await opened(peer())
    result = await server.call("die")
    assert result.state is ToolState.ERROR
    assert "has ended the connection" in str(result.error)
    assert (await server.call("echo", text="again")).output == "again"
    assert len(server.of("initialize")) == 2


async def test_tools_of_a_program_that_died_are_offered_still(peer: Make) -> None:
    server = await opened(peer())
    await server.call("die")
    server.link.want()
    assert "test__echo" in server.names


async def test_nothing_of_a_deaf_program_outlives_its_link(peer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "GRACE_S", 0.1)
    server = await opened(peer("deaf"))
    pids = [int(pid) for pid in Path(f"{server.log}.pids").read_text().split()]
    assert len(pids) == 2
    await server.link.close()
    assert all(ends(pid) for pid in pids)


async def test_nothing_of_a_deaf_program_outlives_a_worker_that_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "received"
    command = [*program_module.GUARD, "PARENT", sys.executable, "-I", "-S", str(PROGRAM), str(log), "deaf"]
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *command], stdin=subprocess.PIPE)
    pids = Path(f"{log}.pids")
    await eventually(lambda: pids.exists() and len(pids.read_text().splitlines()) == 2)
    parent.kill()
    parent.communicate()
    assert all(ends(int(pid)) for pid in pids.read_text().split())


async def test_a_program_that_never_connects_is_ended(peer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "GRACE_S", 0.1)
    server = peer("mute")
    opening = asyncio.create_task(server.link.open())
    await eventually(lambda: server.of("server/discover"))
    await server.link.close()
    assert await opening is not None


async def test_a_link_that_is_retired_lets_its_calls_end(peer: Make) -> None:
    server = await opened(peer())
    controller = AbortController()
    call = asyncio.create_task(server.call("slow", controller))
    await server.begun()
    server.link.retire()
    assert (await server.call("echo")).state is ToolState.ERROR
    assert not call.done()
    controller.abort(AbortReason.SESSION_STOP)
    assert (await call).state is ToolState.ABORTED


# Servers that are wrong


@pytest.mark.parametrize("mode", ["mute", "mute-list"])
async def test_a_silent_server_is_given_up(mode: str, peer: Make) -> None:
    server = peer(mode, connect_timeout_s=0.3)
    failure = await refused(server)
    assert isinstance(failure, Silent)
    assert failure.message == "The MCP server 'test' does not answer within 0.3 s."
    assert server.noted == [failure]


async def test_a_server_that_is_silent_about_what_it_does_not_know_is_asked_the_older_way(peer: Make) -> None:
    server = peer("mute-unknown", connect_timeout_s=2)
    assert await server.link.open() is None
    assert server.of("server/discover")


@pytest.mark.parametrize("mode", ["garbage", "endless"])
async def test_a_program_that_talks_garbage_is_ended(mode: str, peer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "MESSAGE_MAX_BYTES", 100_000)
    monkeypatch.setattr(program_module, "GRACE_S", 0.1)
    failure = await refused(peer(mode))
    assert "has ended the connection" in failure.message


async def test_a_greeting_is_forgiven(peer: Make) -> None:
    assert (await (await opened(peer("greeting"))).call("echo", text="x")).output == "x"


async def test_a_program_that_crashes_is_quoted(peer: Make) -> None:
    assert "the disk is on fire" in (await refused(peer("crash"))).message


async def test_a_program_that_is_not_there_is_named(peer: Make) -> None:
    failure = await refused(peer(command="no-such-program", args=()))
    assert "no-such-program cannot be run: No such file or directory." in failure.message


async def test_secrets_of_the_environment_are_not_quoted(peer: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kernel.mcp")
    server = await opened(peer(env=(("TOKEN", "very-secret"),)))
    await server.call("die")
    said = await eventually(
        lambda: [record.getMessage() for record in caplog.records if "dying" in record.getMessage()]
    )
    assert said == ["The MCP server test says: dying with …"]
    assert "very-secret" not in caplog.text


async def test_a_program_sees_nothing_of_the_studios_keys(
    peer: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kernel.mcp")
    monkeypatch.setenv("TOKEN", "a-key-of-the-studio")
    server = await opened(peer())
    await server.call("die")
    await eventually(lambda: "The MCP server test says: dying with None" in caplog.text)


# Lists


async def test_a_server_may_have_no_tools(peer: Make) -> None:
    server = await opened(peer("none"))
    assert (server.names, server.noted) == ([], [0])


async def test_a_list_of_many_pages_is_read_to_its_end(peer: Make) -> None:
    server = await opened(peer("many"))
    assert server.names[::499] == ["test__tool_0", "test__tool_499"]
    assert len(server.of("tools/list")) == 5


async def test_odd_names_are_made_fit_and_each_stays_its_own(peer: Make) -> None:
    server = await opened(peer("odd"))
    assert server.names[:2] == ["test__twice", "test__a_b_c8687a"]
    assert "test__a_b" in server.names
    assert len(set(server.names)) == len(server.names) == 6
    assert all(len(name) <= 64 for name in server.names)


async def test_a_tool_is_called_by_the_servers_own_name_for_it(peer: Make) -> None:
    server = await opened(peer("odd"))
    [name] = [name for name in server.names if "dots" in name]
    await server.call(name.removeprefix("test__"))
    assert [call["params"]["name"] for call in server.of("tools/call")] == ["dots.and/slashes"]


async def test_a_changed_list_is_asked_for_again(peer: Make) -> None:
    server = await opened(peer("growing"))
    await server.call("echo")
    await eventually(lambda: "test__grown" in server.names)


async def test_a_list_that_is_old_is_asked_for_again_and_offered_meanwhile(
    peer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await opened(peer())
    monkeypatch.setattr(link_module, "FRESH_S", 0.0)
    server.link.want()
    assert "test__echo" in server.names
    await eventually(lambda: len(server.of("tools/list")) == 2)


async def test_a_server_that_failed_is_left_alone_for_a_while(peer: Make) -> None:
    server = peer("crash")
    await refused(server)
    server.link.want()
    assert server.link.first_listing(1000) is None
    assert len(server.noted) == 1


async def test_whoever_waits_for_a_first_list_waits_from_the_beginning_of_the_connecting(peer: Make) -> None:
    server = peer("mute")
    server.link.want()
    assert server.link.first_listing(1000) is not None
    assert server.link.first_listing(0) is None
