"""MCP servers in the admin: who may write them, what is refused, what stays secret, and trying one."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from kernel import lanes
from kernel.mcp.fields import MASK
from kernel.mcp.models import McpServer
from tests.kernel.mcp.conftest import program
from tests.kernel.test_admin import browser, op, told
from tests.kernel.test_process import ends

__all__ = ["op"]

pytestmark = pytest.mark.django_db(transaction=True)

LIST = reverse("admin:kernel_mcpserver_changelist")
ADD = reverse("admin:kernel_mcpserver_add")
BLANK = {"name": "files", "enabled": "on", "transport": "stdio", "command": "mcp-files", "connect_timeout_s": "10"}
SECRET = "sk-0123456789"


def change(server: McpServer) -> str:
    return reverse("admin:kernel_mcpserver_change", args=[server.pk])


def errors(response: Any) -> dict[str, list[str]]:
    return response.context["adminform"].form.errors


def made(**fields: Any) -> McpServer:
    return McpServer.objects.create(**{"name": "files", "command": "mcp-files", **fields})


def made_of(log: Path, mode: str = "ok") -> McpServer:
    config = program(log, mode)
    return made(command=config.command, args=list(config.args), connect_timeout_s=config.connect_timeout_s)


def try_selected(client: Client, *servers: McpServer) -> str:
    chosen = {"action": "try_selected", "_selected_action": [str(server.pk) for server in servers]}
    try:
        return told(client.post(LIST, chosen, follow=True))
    finally:
        lanes.writes.close()


# Who may


@pytest.mark.parametrize("page", [LIST, ADD])
def test_the_rights_of_the_ledger_do_not_reach_the_servers(page: str) -> None:
    assert browser("stop_any_execution", "panic").get(page).status_code == 403


def test_djangos_own_permission_is_what_it_takes() -> None:
    client = browser("add_mcpserver", "view_mcpserver")
    assert client.post(ADD, BLANK).status_code == 302
    assert McpServer.objects.get().command == "mcp-files"


def test_whoever_may_only_look_sees_names_and_no_secret() -> None:
    server = made(env={"TOKEN": SECRET}, headers={"Authorization": SECRET})
    page = browser("view_mcpserver").get(change(server)).content.decode()
    assert "TOKEN" in page
    assert "Authorization" in page
    assert SECRET not in page


def test_whoever_may_only_look_may_not_try() -> None:
    server = made()
    assert try_selected(browser("view_mcpserver"), server) == ""


# What is written


def test_lines_become_arguments_variables_and_headers(op: Client) -> None:
    lines = {"args": "--root\n/srv/my files\n", "env": "A=1\nB = x=y"}
    assert op.post(ADD, {**BLANK, **lines}).status_code == 302
    server = McpServer.objects.get()
    assert (server.args, server.env) == (["--root", "/srv/my files"], {"A": "1", "B": "x=y"})
    web = {"name": "web", "transport": "http", "url": "https://example.org/mcp", "headers": "Authorization: Bearer a:b"}
    assert op.post(ADD, {**BLANK, **web}).status_code == 302
    assert McpServer.objects.get(name="web").headers == {"Authorization": "Bearer a:b"}


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("command", {"command": " "}),
        ("name", {"name": "two__parts"}),
        ("name", {"name": "with space"}),
        ("name", {"name": "x" * 40}),
        ("env", {"env": "no value"}),
        ("env", {"env": "EMPTY="}),
        ("env", {"env": "1ST=x"}),
        ("env", {"env": f"NEW={MASK}"}),
        ("connect_timeout_s", {"connect_timeout_s": "0"}),
        ("call_timeout_s", {"call_timeout_s": "-1"}),
        ("url", {"transport": "http", "url": ""}),
        ("url", {"transport": "http", "url": "ftp://example.org"}),
        ("url", {"transport": "http", "url": "https://"}),
        ("url", {"transport": "http", "url": "https://example.org:port/"}),
        ("url", {"transport": "http", "url": "https://me:secret@example.org/"}),
        ("headers", {"transport": "http", "url": "https://example.org", "headers": "Mcp-Session-Id: 1"}),
        ("headers", {"transport": "http", "url": "https://example.org", "headers": "A b: 1"}),
        ("headers", {"transport": "http", "url": "https://example.org", "headers": "X-Key: ключ"}),
    ],
)
def test_what_cannot_be_used_is_refused_at_its_field(field: str, changes: dict[str, str], op: Client) -> None:
    response = op.post(ADD, {**BLANK, **changes})
    assert list(errors(response)) == [field]
    assert not McpServer.objects.exists()


# Secrets


def test_a_stored_secret_is_masked(op: Client) -> None:
    page = op.get(change(made(env={"TOKEN": SECRET}))).content.decode()
    assert f"TOKEN={MASK}" in page
    assert SECRET not in page


def test_a_mask_that_comes_back_keeps_the_secret_and_a_value_replaces_it(op: Client) -> None:
    server = made(env={"KEPT": SECRET, "CHANGED": SECRET, "REMOVED": SECRET})
    op.post(change(server), {**BLANK, "env": f"KEPT={MASK}\nCHANGED=new"})
    server.refresh_from_db()
    assert server.env == {"KEPT": SECRET, "CHANGED": "new"}


def test_a_page_with_an_error_does_not_repeat_what_was_typed_as_a_secret(op: Client) -> None:
    page = op.post(ADD, {**BLANK, "command": "", "env": f"TOKEN={SECRET}"}).content.decode()
    assert "TOKEN=" in page
    assert SECRET not in page


def test_the_list_shows_no_secret(op: Client) -> None:
    made(env={"TOKEN": SECRET}, headers={"Authorization": SECRET})
    assert SECRET not in op.get(LIST).content.decode()


def test_a_config_is_written_out_without_its_secrets() -> None:
    assert SECRET not in repr(made(env={"TOKEN": SECRET}, args=[SECRET]).config)


# Trying, and the state


def test_trying_a_server_tells_its_tools(op: Client, tmp_path: Path) -> None:
    server = made_of(tmp_path / "received")
    assert try_selected(op, server) == (
        "files works and has 4 tools: files__echo, files__slow, files__late, files__die"
    )
    server.refresh_from_db()
    assert (server.tool_count, server.last_error) == (4, "")
    assert all(ends(int(pid)) for pid in (tmp_path / "received.pids").read_text().split())


def test_trying_a_server_that_fails_tells_why(op: Client, tmp_path: Path) -> None:
    server = made_of(tmp_path / "received", "crash")
    assert "the disk is on fire" in try_selected(op, server)
    server.refresh_from_db()
    assert "the disk is on fire" in server.last_error


def test_the_list_tells_which_server_fails(op: Client) -> None:
    McpServer.objects.failed(made().pk, "The MCP server 'files' is on fire.")
    assert "is on fire" in op.get(LIST).content.decode()
