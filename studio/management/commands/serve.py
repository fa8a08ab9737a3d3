"""Serve the studio from a terminal: say what answers, then, once it listens, where it is and how to log in."""

import socket
from argparse import ArgumentParser
from typing import Any

from daphne.endpoints import build_endpoint_description_strings
from daphne.server import Server
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  compared with, not listened on
ANOTHER = "Name another: make run HOST=127.0.0.1 PORT=8001"


class Command(BaseCommand):
    """Daphne without its access log, so that the login link, which comes last, stays in sight. Errors are shown."""

    help = "Serve the studio in this terminal, for one machine (in production: daphne studio.asgi:application)."
    requires_system_checks: list[str] = []  # `migrate`, which goes before, has told what they say

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
        parser.add_argument("--port", default="8000", help="the port to listen on (%(default)s)")

    def handle(self, *, host: str, port: str, **options: Any) -> None:
        number = _free_port(host, port)
        call_command("which_model", stdout=self.stdout)

        from studio.asgi import application

        server = Server(
            application,
            build_endpoint_description_strings(host=host, port=number),
            ready_callable=lambda: self._welcome(_url(host, number)),
        )
        server.run()
        if server.abort_start:
            raise CommandError(f"The studio could not listen on {host}, port {number}. {ANOTHER}")

    def _welcome(self, url: str) -> None:
        """It listens by now, and the event loop does not run yet."""
        self.stdout.write(f"\nThe studio runs at {url}/ (Ctrl-C ends it)")
        call_command("first_operator", base_url=url, stdout=self.stdout)
        connections.close_all()
        self.stdout.write("")
        self.stdout.flush()


def _free_port(host: str, port: str) -> int:
    """The port, once it is known that it can be listened on."""
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise CommandError(f"{port!r} is no port from 1 to 65535. {ANOTHER}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise CommandError(f"Port {port} of {host} cannot be used: {error.strerror}. {ANOTHER}") from error
    return int(port)


def _url(host: str, port: int) -> str:
    reachable = EVERYWHERE.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"
