"""Stop inside a tool of an MCP server, and what becomes of the server's program, through a real server process."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.client import StudioClient
from tests.kernel.mcp.conftest import PROGRAM
from tests.kernel.test_process import ends
from tests.processes.conftest import assert_no_bug_logged
from tests.processes.ends import agreed_end, assert_stopped
from tests.processes.harness import START_TIMEOUT_S, Studio
from tests.processes.test_tools import tool_parts, tool_running
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.processes

ROW = """
INSERT INTO kernel_mcpserver (name, enabled, transport, command, args, env, url, headers, connect_timeout_s, last_error)
VALUES ('files', 1, 'stdio', ?, ?, '{}', '', '{}', 20, '')
"""


class Server:
    """A studio that offers the tools of one program, and what the program has received."""

    def __init__(self, directory: Path, template: Path, provider_url: str):
        self.studio = Studio(directory, template, provider_url)
        self.log = directory / "received"
        arguments = ["-I", "-S", str(PROGRAM), str(self.log), "ok"]
        self.write(ROW, sys.executable, json.dumps(arguments))

    def write(self, sql: str, *parameters: Any) -> None:
        with closing(sqlite3.connect(self.studio.directory / "studio.sqlite3")) as connection, connection:
            connection.execute(sql, parameters)

    def of(self, method: str) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        messages = [json.loads(line) for line in lines if line.endswith("}")]
        return [message for message in messages if message.get("method") == method]

    @property
    def pids(self) -> list[int]:
        path = Path(f"{self.log}.pids")
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, template: Path, provider: Provider) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("mcp"), template, provider.url)
    yield server
    server.studio.end()
    assert_no_bug_logged(server.studio)


@pytest.fixture
async def server(made: Server) -> Server:
    """The studio, running, and connected to its program."""
    if not made.studio.runs:
        made.write("UPDATE kernel_mcpserver SET tool_count = NULL")
        made.studio.start()
    await eventually(lambda: made.studio.rows("SELECT 1 FROM kernel_mcpserver WHERE tool_count > 0"), START_TIMEOUT_S)
    return made


async def test_a_turn_calls_a_tool_of_the_server(server: Server, key: str) -> None:
    async with await server.studio.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key, call=[("files__echo", {"text": "from-the-program"})]))
        assert (await ann.result(reply["executionId"], START_TIMEOUT_S))["status"] == "completed"
        part = (await tool_parts(ann, key))["files__echo"]
    assert (part["state"], part["output"]) == ("completed", "from-the-program")


async def test_stop_ends_a_run_inside_a_tool_of_a_server_and_calls_the_request_off(
    server: Server, provider: Provider, key: str
) -> None:
    await server.studio.warm()
    async with await server.studio.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key, call=[("files__slow", {})]))
        await tool_running(ann, reply["executionId"], "files__slow")
        await eventually(lambda: calls_of(server, "slow"))
        assert_stopped(await ann.stop(key))
        result = await agreed_end(server.studio, ann, reply["executionId"])
        assert result["abortReason"] == "session_stop"
        assert (await tool_parts(ann, key))["files__slow"]["state"] == "aborted"
    [call] = calls_of(server, "slow")
    [notice] = await eventually(lambda: server.of("notifications/cancelled"))
    assert notice["params"]["requestId"] == call["id"]
    assert len(provider.of(key)) == 1


def calls_of(server: Server, tool: str) -> list[dict[str, Any]]:
    return [call for call in server.of("tools/call") if call["params"]["name"] == tool]


async def test_the_program_ends_with_its_worker(server: Server) -> None:
    server.studio.end()
    assert all(ends(pid) for pid in server.pids)


async def test_a_child_of_a_tool_ends_with_the_run(
    studio: Studio, ann: StudioClient, provider: Provider, key: str, tmp_path: Path
) -> None:
    written = tmp_path / "pid"
    reply = await ann.send(key, directive(id=key, call=[("run_child", {"pid_file": str(written)})]))
    await eventually(lambda: written.exists() and written.read_text().endswith("\n"))
    assert_stopped(await ann.stop(key))
    assert (await agreed_end(studio, ann, reply["executionId"]))["abortReason"] == "session_stop"
    assert ends(int(written.read_text()))
    assert (await tool_parts(ann, key))["run_child"]["state"] == "aborted"
