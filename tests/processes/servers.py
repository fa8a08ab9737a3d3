"""A real PostgreSQL and a real Redis for the tests: free loopback ports, temporary data, ended by their own handles."""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import redis

from tests.processes.harness import EXIT_TIMEOUT_S, MAKE_USERS, POLL_S, USERS, free_port, manage
from tests.waiting import READY_TIMEOUT_S

# PostgreSQL refuses to run as root; the first of these that exists runs it then.
DATABASE_USERS = ("postgres", "nobody")
TEMPLATE = "template_studio"


class Server:
    """One server process in a directory of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="studio-tests-"))
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it serves by now."""
        raise NotImplementedError

    def run_as(self) -> str | None:
        """The system's user that runs it, if not this one."""
        return None

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **_identity(self.run_as()),
            )
        _until(self.answers, lambda: (self.directory / "log").read_text(errors="replace"))

    def kill(self) -> None:
        """End it without giving it a chance to say goodbye."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(EXIT_TIMEOUT_S)

    def freeze(self) -> None:
        """Let it take connections and answer nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def revive(self) -> None:
        """Thaw it, or start it again on the same port and data."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        else:
            self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Redis(Server):
    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("no redis-server on this machine")
        return [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]

    def answers(self) -> bool:
        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


class Postgres(Server):
    """A cluster with one superuser, `studio`, whom it trusts."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)
        self.data = self.directory / "data"
        self.data.mkdir()
        user = self.run_as()
        if user is not None:
            for path in (self.directory, self.data):
                shutil.chown(path, user)
        subprocess.run(
            [_program("initdb"), "-D", str(self.data), "-U", "studio", "-A", "trust", "-E", "UTF8", "--no-sync"],
            cwd=self.directory,
            check=True,
            capture_output=True,
            **_identity(user),
        )

    def url(self, name: str) -> str:
        return f"postgres://studio@127.0.0.1:{self.port}/{name}"

    def command(self) -> list[str]:
        settings = {"port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        settings |= {"fsync": "off", "max_connections": "200"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [_program("postgres"), "-D", str(self.data), *options]

    def run_as(self) -> str | None:
        return _database_user() if os.geteuid() == 0 else None

    def answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """End it at once, as an immediate shutdown does: its children go with it, and it recovers at its next start."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(EXIT_TIMEOUT_S)

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql)

    def make_template(self) -> None:
        """Migrate a database, with the users of the tests, to be copied."""
        self.execute(f"CREATE DATABASE {TEMPLATE}")
        changes = {"DATABASE_URL": self.url(TEMPLATE)}
        manage(self.directory, "migrate", "--verbosity", "0", **changes)
        manage(self.directory, "shell", "-c", MAKE_USERS.format(users=USERS), **changes)

    def make_database(self) -> str:
        """Copy the template; return the copy's address."""
        name = f"studio_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return self.url(name)


def _until(look: Callable[[], bool], log: Callable[[], str]) -> None:
    give_up = time.monotonic() + READY_TIMEOUT_S
    while not look():
        if time.monotonic() > give_up:
            raise TimeoutError(f"a server does not answer:\n{log()}")
        time.sleep(POLL_S)


def _identity(user: str | None) -> dict[str, object]:
    """What subprocess needs to run a program as `user`."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _database_user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    for name in DATABASE_USERS:
        if name in names:
            return name
    pytest.skip("PostgreSQL does not run as root, and there is no other user for it")


def _program(name: str) -> str:
    """PostgreSQL's program of this name: on the path, or where Debian keeps the newest version's."""
    found = shutil.which(name)
    versions = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    newest = sorted(versions, key=lambda path: float(path.parts[-3]))
    if found is None and not newest:
        pytest.skip("no PostgreSQL on this machine")
    return found or str(newest[-1])
