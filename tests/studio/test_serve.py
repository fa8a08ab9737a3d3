"""The command behind `make run`: what the terminal shows, and when."""

import io
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from studio.management.commands.serve import _url
from tests.processes.harness import EXIT_TIMEOUT_S, ROOT, environment, free_port, manage

DEMO = {"STUDIO_MODEL": "demo/scripted"}


def test_once_it_says_where_it_is_it_answers_there_and_the_login_link_comes_last(tmp_path: Path) -> None:
    manage(tmp_path, "migrate", "--verbosity", "0", **DEMO)
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", str(port)],
        cwd=ROOT,
        env=environment(tmp_path, "http://127.0.0.1:1/v1", **DEMO),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = []
        while not told or "/login/" not in told[-1]:
            line = process.stdout.readline()
            assert line, told
            told.append(line)
        with urllib.request.urlopen(told[-1].strip()) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(EXIT_TIMEOUT_S) == 0
    shown = "".join(told)
    assert re.search(rf"demo/scripted(.|\n)*runs at http://127\.0\.0\.1:{port}/ (.|\n)*/login/", shown)
    assert rest.strip() == ""  # no access log


@pytest.mark.parametrize("port", ["80x", "0", "65536", "-1", ""])
def test_what_is_no_port_is_told_in_one_line(port: str) -> None:
    with pytest.raises(CommandError, match=r"is no port from 1 to 65535.*PORT=8001"):
        call_command("serve", f"--port={port}", stdout=io.StringIO())


def test_a_port_in_use_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CommandError, match=f"Port {port} of 127.0.0.1 cannot be used: .*PORT=8001"):
            call_command("serve", port=str(port), stdout=io.StringIO())


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("studio.example.org", "http://studio.example.org:8000"),
    ],
)
def test_the_address_is_one_that_a_browser_can_open(host: str, url: str) -> None:
    assert _url(host, 8000) == url
