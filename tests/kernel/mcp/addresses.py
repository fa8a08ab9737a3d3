"""MCP servers at an address on loopback: one of the newer protocol, by the library; one of the older, by hand.

Each runs on a thread of its own, and keeps what happened to it in `seen`.
"""

import asyncio
import contextlib
import gzip
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

SCHEMA = {"type": "object"}
TOOLS = ("echo", "slow", "huge")


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve the app on a free port; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()


class Newer:
    """The library's server. A call ends when the connection that carries it does."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        server = MCPServer("newer")

        @server.tool()
        def echo(text: str) -> str:
            return text

        @server.tool()
        async def slow(who: str) -> str:
            self.seen.append(f"began {who}")
            try:
                await asyncio.Event().wait()
            finally:
                self.seen.append(f"ended {who}")
            return "never"

        @server.tool()
        async def grow(ctx: Context) -> str:
            server.add_tool(echo, name="grown")
            await ctx.notify_tools_changed()
            return "grown"

        self.app = server.streamable_http_app()


class Older:
    """A server of the older protocol that records its messages and can be rude.

    See `status`, `deaf`, `packs`, `error_of`, `forget()`.
    """

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.deaf: set[str] = set()
        self.packs = False
        self.error_of: dict[str, tuple[int, str]] = {}
        self.session = 1
        self.app = Starlette(routes=[Route("/mcp", self.answer, methods=["GET", "POST", "DELETE"])])

    def forget(self) -> None:
        """Restart: nothing is known of earlier sessions."""
        self.session += 1

    def of(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.seen if message.get("method") == method]

    async def answer(self, request: Request) -> Response:
        self.headers.append(dict(request.headers))
        if self.status != 200:
            return StreamingResponse(self.refusal(), self.status, media_type="text/html")
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        self.seen.append(message)
        method = message["method"]
        if method in self.deaf:
            await self.gone(request)
        if method in self.error_of:
            return self.error(message, *self.error_of[method])
        if method == "server/discover":
            return self.error(message, -32601, "Method not found")
        if method != "initialize" and request.headers.get("mcp-session-id") != str(self.session):
            return Response(status_code=404)
        if "id" not in message:
            return Response(status_code=202)
        return await self.result(request, message)

    async def refusal(self) -> AsyncIterator[str]:
        """Words without an end: only the status can be relied upon."""
        yield "no"
        await asyncio.Event().wait()

    async def result(self, request: Request, message: dict[str, Any]) -> Response:
        match message["method"], message.get("params", {}):
            case "initialize", _:
                about = {"name": "older", "version": "1"}
                told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
                return self.told(message, told, {"mcp-session-id": str(self.session)})
            case "tools/list", _:
                return self.told(message, {"tools": [{"name": name, "inputSchema": SCHEMA} for name in TOOLS]})
            case "tools/call", {"name": "echo", "arguments": {"text": text}}:
                return self.told(message, {"content": [{"type": "text", "text": text}]})
            case "tools/call", {"name": "huge"}:
                return self.told(message, {"content": [{"type": "text", "text": "x" * 8_000_000}]})
        await self.gone(request)
        return Response()

    async def gone(self, request: Request) -> None:
        """Wait until the client has left."""
        while not await request.is_disconnected():
            await asyncio.sleep(0.02)

    def told(self, message: dict[str, Any], result: Any, headers: dict[str, str] | None = None) -> Response:
        response = JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)
        if self.packs:
            response = Response(gzip.compress(response.body), headers={**(headers or {}), "content-encoding": "gzip"})
            response.headers["content-type"] = "application/json"
        return response

    def error(self, message: dict[str, Any], code: int, words: str) -> Response:
        told = {"code": code, "message": words}
        return JSONResponse({"jsonrpc": "2.0", "id": message.get("id"), "error": told}, status_code=400)
