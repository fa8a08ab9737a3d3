"""A provider that plays parts: what it answers depends on the last thing a person wrote, and is always the same."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

WORDS_S = 0.03
# A part that is to be seen at work says its words slowly, and goes on.
SLOWLY_S = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """`text` is said word by word; then the answer ends, falls silent (`hangs`) or begins anew (`goes_on`).

    `call` is a tool call (name, arguments) that comes before the text. `status` is answered instead of everything.
    """

    text: str = ""
    every_s: float = WORDS_S
    hangs: bool = False
    goes_on: bool = False
    call: tuple[str, dict[str, Any]] | None = None
    status: int = 0


class Provider:
    """Serves chat completions on a free port of this machine."""

    def __init__(self, parts: dict[str, Part]):
        self._parts = parts
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> "Provider":
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"
        return self

    async def end(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        messages = (await request.json())["messages"]
        asked = next(message["content"] for message in reversed(messages) if message["role"] == "user")
        part = self._parts[asked if isinstance(asked, str) else asked[0]["text"]]
        if part.status:
            return web.json_response({"error": {"message": part.text}}, status=part.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with suppress(ConnectionResetError):  # stopped
            if part.call and messages[-1]["role"] != "tool":
                await self._say(response, [_call(*part.call)], "tool_calls")
            else:
                await self._play(response, part)
        return response

    async def _play(self, response: web.StreamResponse, part: Part) -> None:
        words = [{"content": f"{word} "} for word in part.text.split(" ")]
        while part.goes_on:
            await self._say(response, words, None, part.every_s)
        await self._say(response, words, None if part.hangs else "stop", part.every_s)
        if part.hangs:
            await asyncio.Event().wait()

    async def _say(
        self, response: web.StreamResponse, deltas: list[dict[str, Any]], finish: str | None, every_s: float = 0
    ) -> None:
        for delta in deltas:
            await _send(response, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            await asyncio.sleep(every_s)
        if finish is not None:
            usage = {"prompt_tokens": 412, "completion_tokens": len(deltas), "total_tokens": 412 + len(deltas)}
            await _send(response, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage})
            await response.write(b"data: [DONE]\n\n")


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}


async def _send(response: web.StreamResponse, chunk: dict[str, Any]) -> None:
    data = {"id": "answer", "object": "chat.completion.chunk", "created": 0, "model": "agent", **chunk}
    await response.write(f"data: {json.dumps(data)}\n\n".encode())
