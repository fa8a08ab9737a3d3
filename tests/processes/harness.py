"""A real studio: Daphne as a process of its own, on a temporary database, against the scripted provider.

    studio = Studio(directory, template_database, provider.url, STUDIO_LEASE_S="2")
    studio.start()
    async with await studio.connect("ann") as ann: ...

Everything that the product would read from this machine's environment is replaced. Only processes that were started
here are ended, by their own handles.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.client import StudioClient, log_in
from tests.provider_script import directive

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 90.0  # importing litellm on a busy machine takes long
EXIT_TIMEOUT_S = 20.0
POLL_S = 0.05
MODEL = "openai/fake-model"
API_KEY = "sk-tests-0123456789-secret"
USERS = {"op": True, "ann": False, "bob": False}  # name: superuser
TOOLS = "tests.tools_for_tests"
FOREIGN = ("DJANGO_", "STUDIO_", "DATABASE_URL", "REDIS_URL", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "PYTHONDONTWRITE")
Row = Mapping[str, Any]
MAKE_USERS = """
from django.contrib.auth import get_user_model
for name, superuser in {users!r}.items():
    get_user_model().objects.create_user(name, password=name + "-password", is_staff=superuser, is_superuser=superuser)
"""


def environment(directory: Path, provider_url: str, **changes: str) -> dict[str, str]:
    """The whole environment of a studio process whose files lie in `directory`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {
        **inherited,
        "DATABASE_URL": f"sqlite:///{directory / 'studio.sqlite3'}",
        "DJANGO_SECRET_KEY": "a-key-for-tests-only",
        "STUDIO_INSECURE_HTTP": "1",
        "STUDIO_TRANSCRIPT_DIR": str(directory / "transcripts"),
        "STUDIO_MODEL": MODEL,
        "STUDIO_TITLE_MODEL": "off",
        "STUDIO_TOOLS": TOOLS,
        "STUDIO_MAX_REPEATED_CALLS": "0",  # the scripted provider knows no other way to go on
        "OPENAI_API_BASE": provider_url,
        "OPENAI_API_KEY": API_KEY,
        "PYTHONASYNCIODEBUG": "",
        **changes,
    }


def manage(directory: Path, *arguments: str, provider_url: str = "http://127.0.0.1:1/v1", **changes: str) -> str:
    """Run manage.py on the database in `directory`, or where `changes` say; return what it printed."""
    command = [sys.executable, "manage.py", *arguments]
    env = environment(directory, provider_url, **changes)
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def make_template(directory: Path) -> Path:
    """A migrated database with the users of the tests, to be copied."""
    manage(directory, "migrate", "--verbosity", "0")
    manage(directory, "shell", "-c", MAKE_USERS.format(users=USERS))
    path = directory / "studio.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Studio:
    """One Daphne process and its files. `start` waits until it serves; `end` leaves nothing running.

    Its database is a copy of `template`; without one, what `DATABASE_URL` among the `changes` names.
    """

    def __init__(self, directory: Path, template: Path | None, provider_url: str, **changes: str):
        self.directory = directory
        self.port = free_port()
        self.log = directory / "daphne.log"
        self.transcripts = directory / "transcripts"
        self._environment = environment(directory, provider_url, **changes)
        self._process: subprocess.Popen[bytes] | None = None
        self._cookies: dict[str, dict[str, str]] = {}
        if template is not None:
            shutil.copyfile(template, directory / "studio.sqlite3")

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> "Studio":
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Start it without waiting."""
        command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port), "studio.asgi:application"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_until_ready(self) -> None:
        give_up = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < give_up:
            code = self._running().poll()
            assert code is None, f"the studio ended with {code} while starting:\n{self.log_text()}"
            try:
                with urllib.request.urlopen(f"{self.base_url}/healthz", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(POLL_S)
        raise TimeoutError(f"the studio is not ready after {START_TIMEOUT_S} s:\n{self.log_text()}")

    def terminate(self) -> None:
        """Ask it to end, as a deploy does, without waiting."""
        self._running().terminate()

    def wait_exit(self) -> int:
        return self._running().wait(EXIT_TIMEOUT_S)

    def kill(self) -> None:
        """End it as a power cut does."""
        self._running().kill()
        self._running().wait(EXIT_TIMEOUT_S)

    def stop_process(self) -> None:
        """Freeze it."""
        self._running().send_signal(signal.SIGSTOP)

    def continue_process(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def restart(self) -> "Studio":
        """End it if it runs, and start it on the same database and port."""
        self.end()
        return self.start()

    def end(self) -> None:
        if not self.runs:
            return
        self.continue_process()
        self.terminate()
        try:
            self.wait_exit()
        except subprocess.TimeoutExpired:
            self.kill()

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the studio was never started"
        return self._process

    def log_text(self, since: int = 0) -> str:
        """What it wrote to its log, from this byte on."""
        return self.log.read_bytes()[since:].decode(errors="replace")

    async def cookies(self, user: str) -> dict[str, str]:
        """The cookies of a user who has logged in through the form; once for each user."""
        if user not in self._cookies:
            self._cookies[user] = await log_in(self.base_url, user, f"{user}-password")
        return self._cookies[user]

    async def warm(self) -> None:
        """Put its first turn, which loads the provider's SDK, behind it."""
        async with await self.connect("op") as op:
            reply = await op.send(f"warm-{self.pid}", directive(n=1))
            await op.result(reply["executionId"], START_TIMEOUT_S)

    async def connect(self, user: str = "ann") -> StudioClient:
        return await StudioClient.connect(self.base_url, await self.cookies(user))

    def rows(self, sql: str, *parameters: Any) -> Sequence[Row]:
        """Read the database as any other process would."""
        url = self._environment["DATABASE_URL"]
        if url.startswith("postgres"):
            with psycopg.connect(url, row_factory=dict_row) as connection:
                return connection.execute(sql.replace("?", "%s"), parameters).fetchall()
        with closing(sqlite3.connect(f"file:{self.directory / 'studio.sqlite3'}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(sql, parameters).fetchall()

    def execution_row(self, execution_id: str) -> Row:
        [row] = self.rows("SELECT * FROM kernel_executionrecord WHERE id = ?", execution_id.replace("-", ""))
        return row

    def executions_of(self, session_key: str) -> Sequence[Row]:
        sql = "SELECT * FROM kernel_executionrecord WHERE session_key = ? ORDER BY started_at"
        return self.rows(sql, session_key)

    def live_executions(self) -> Sequence[Row]:
        return self.rows("SELECT * FROM kernel_executionrecord WHERE status = 'running'")

    def streaming_messages(self) -> Sequence[Row]:
        return self.rows("SELECT * FROM chat_chatmessage WHERE status = 'streaming'")

    def transcript(self, session_key: str) -> list[dict[str, Any]]:
        """The lines of a session's transcript; none if there is no file."""
        path = self.transcripts / f"{session_key}.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text.endswith("\n") or not text, "the transcript ends in half a line"
        return [json.loads(line) for line in text.splitlines()]
