"""What a run is offered of the servers in the database: at once, or without those that are not ready."""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kernel import lanes
from kernel.mcp import roster as roster_module
from kernel.mcp.link import Link
from kernel.mcp.models import McpServer
from kernel.mcp.roster import Roster, try_out
from kernel.tools import Tool, Toolbox, tool
from kernel.worker import ThisWorker
from tests.kernel.live import db
from tests.kernel.mcp.conftest import program, row
from tests.kernel.test_process import ends
from tests.waiting import LOOK_S, READY_TIMEOUT_S, eventually


@tool
async def own() -> str:
    """A tool of the house."""
    return "own"


@tool(name="test__echo")
async def echo_of_the_house() -> str:
    """A tool with a name that a server uses too."""
    return "of the house"


@pytest.fixture
async def roster(worker: ThisWorker) -> AsyncIterator[Roster]:
    roster = Roster(worker)
    yield roster
    await roster.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "received"


async def offered(roster: Roster, *own_tools: Tool, names: list[str] | None = None) -> list[str]:
    configs = await lanes.reads.run(McpServer.objects.configs)
    return [each.name for each in await roster.add_to(Toolbox(own_tools), configs, names)]


async def ready(roster: Roster) -> Roster:
    """Connected to all of its servers."""
    await roster.start()
    for link in links(roster):
        assert await link.open() is None
    return roster


def links(roster: Roster) -> list[Link]:
    return list(roster._links.values())


# Who is offered what


async def test_without_a_row_a_run_has_its_own_tools_and_nothing_is_started(roster: Roster) -> None:
    tools = Toolbox([own])
    assert await roster.add_to(tools, [], None) is tools
    assert roster._looking is None


async def test_tools_of_a_server_are_offered_after_the_houses_own(roster: Roster, log: Path) -> None:
    await row(program(log))
    names = await offered(await ready(roster), own)
    assert names == ["own", "test__echo", "test__slow", "test__late", "test__die"]


async def test_a_role_names_tools_of_both_kinds_in_its_own_order(roster: Roster, log: Path) -> None:
    await row(program(log))
    await ready(roster)
    assert await offered(roster, own, names=["test__slow", "own", "gone"]) == ["test__slow", "own"]


async def test_a_role_that_names_no_tool_of_a_server_does_not_wait_for_it(
    roster: Roster, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await row(program(log, "mute"))
    monkeypatch.setattr(roster_module, "PATIENCE_S", 3600)
    assert await offered(roster, own, names=["own"]) == ["own"]


async def test_a_tool_of_the_house_goes_before_a_servers_of_the_same_name(roster: Roster, log: Path) -> None:
    await row(program(log))
    await ready(roster)
    configs = await lanes.reads.run(McpServer.objects.configs)
    tools = await roster.add_to(Toolbox([echo_of_the_house]), configs, None)
    assert tools.get("test__echo") is echo_of_the_house


async def test_a_request_is_not_offered_more_tools_than_providers_take(roster: Roster, log: Path) -> None:
    await row(program(log, "many"))
    await ready(roster)
    assert len(await offered(roster, own)) == roster_module.OFFERED_MAX
    assert await offered(roster, own, names=["test__tool_499"]) == ["test__tool_499"]


async def test_a_run_waits_for_a_server_that_is_just_being_connected(
    roster: Roster, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await row(program(log))
    monkeypatch.setattr(roster_module, "PATIENCE_S", 3600)
    assert "test__echo" in await offered(roster)


async def test_a_run_starts_without_a_server_that_is_silent_and_says_so(
    roster: Roster, log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kernel.mcp")
    await row(program(log, "mute"))
    monkeypatch.setattr(roster_module, "PATIENCE_S", 0.05)
    assert await offered(roster, own) == ["own"]
    assert "A turn starts without the tools of test." in caplog.text


async def test_one_bad_server_does_not_take_the_good_one_along(roster: Roster, log: Path, tmp_path: Path) -> None:
    await row(program(log))
    await row(program(tmp_path / "other", "crash", name="bad"))
    await roster.start()
    for link in links(roster):
        await link.open()
    assert "test__echo" in await offered(roster)


# Rows that change


async def test_a_row_that_was_switched_off_ends_its_program(
    roster: Roster, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roster_module, "LOOK_S", 0.01)
    await row(program(log))
    await ready(roster)
    assert await offered(roster)
    await db(functools.partial(McpServer.objects.update, enabled=False))
    await eventually(lambda: not links(roster))
    assert all(ends(pid) for pid in pids(log))


async def test_a_row_that_has_changed_is_connected_anew(roster: Roster, log: Path) -> None:
    await row(program(log, "none"))
    await ready(roster)
    assert await offered(roster) == []
    await db(functools.partial(McpServer.objects.update, args=list(program(log).args)))
    await ready(roster)
    assert "test__echo" in await offered(roster)


async def test_what_workers_note_in_a_row_connects_nothing_anew(roster: Roster, log: Path) -> None:
    await row(program(log))
    await ready(roster)
    before = links(roster)
    await eventually_noted("seen_at__isnull", False)
    await roster.start()
    assert links(roster) == before


async def test_a_row_tells_that_its_server_works_and_how_many_tools_it_has(roster: Roster, log: Path) -> None:
    await row(program(log), last_error="it was broken")
    await ready(roster)
    server = await eventually_noted("tool_count", 4)
    assert server.seen_at is not None
    assert (server.last_error, server.failed_at) == ("", None)


async def test_a_row_tells_why_its_server_fails(roster: Roster, log: Path) -> None:
    await row(program(log, "crash"))
    await roster.start()
    server = await eventually_noted("failed_at__isnull", False)
    assert "the disk is on fire" in server.last_error


# Ends


async def test_a_roster_that_is_closed_leaves_no_program(roster: Roster, log: Path) -> None:
    await row(program(log))
    await ready(roster)
    await roster.close()
    assert all(ends(pid) for pid in pids(log))


async def test_trying_a_server_leaves_nothing_behind(log: Path) -> None:
    tried = await try_out(program(log))
    assert tried.tools == ("test__echo", "test__slow", "test__late", "test__die")
    assert all(ends(pid) for pid in pids(log))


async def eventually_noted(field: str, value: Any) -> McpServer:
    async with asyncio.timeout(READY_TIMEOUT_S):
        while (server := await db(McpServer.objects.filter(**{field: value}).first)) is None:
            await asyncio.sleep(LOOK_S)
        return server


def pids(log: Path) -> list[int]:
    return [int(pid) for pid in Path(f"{log}.pids").read_text().split()]
