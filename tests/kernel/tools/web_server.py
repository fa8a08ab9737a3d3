"""A web server in the test's own process, at an address that the tests' rules let through."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from kernel.tools.builtin.fetch import Rules

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebServer:
    """What it was asked, and what it answers: `pages[path]` is a handler. `closed` counts clients that went away."""

    def __init__(self) -> None:
        self.port = 0
        self.pages: dict[str, Handler] = {}
        self.requests: list[web.Request] = []
        self.names: dict[str, str] = {"page.test": "127.0.0.1"}
        self.looked_up: list[str] = []

    @property
    def url(self) -> str:
        return f"http://page.test:{self.port}"

    @property
    def rules(self) -> Rules:
        """Names as this server knows them; public is 127.0.0.1 alone; and its port is open."""
        return Rules(
            is_public=lambda address: address == "127.0.0.1", ports=frozenset({self.port}), look_up=self._look_up
        )

    def says(self, path: str, body: str | bytes = "", **more: Any) -> None:
        more.setdefault("content_type", "text/html")
        raw = body.encode() if isinstance(body, str) else body

        async def handler(_request: web.Request) -> web.Response:
            return web.Response(body=raw, **more)

        self.pages[path] = handler

    def leads(self, path: str, to: str, status: int = 302) -> None:
        async def handler(_request: web.Request) -> web.Response:
            return web.Response(status=status, headers={"Location": to})

        self.pages[path] = handler

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        handler = self.pages.get(request.path)
        return await handler(request) if handler else web.Response(status=404)

    def _look_up(self, host: str, port: int, *_: Any) -> list[Any]:
        self.looked_up.append(host)
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        address = self.names[host]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))]


@asynccontextmanager
async def serving() -> AsyncIterator[WebServer]:
    """Serve on a free port of 127.0.0.1."""
    server = WebServer()
    runner = web.ServerRunner(web.Server(server.answer, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()
