"""How the scripted provider plays one script on one connection: headers, deltas, tool calls and the ordered faults."""

import asyncio
import json
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

from tests.provider_script import NEVER

if TYPE_CHECKING:
    from tests.provider import Provider, Record

REASONS = {400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PIECES_OF_ARGUMENTS = 3


class Answer:
    """`play()` returns how the answer ended: `finished`, `failed`, or the fault that was ordered."""

    def __init__(self, provider: "Provider", record: "Record", writer: asyncio.StreamWriter):
        self.provider, self.record, self.script, self.writer = provider, record, record.script, writer
        self._started = time.monotonic()

    async def play(self) -> str:
        script = self.script
        await asyncio.sleep(script.hdr)
        if script.status and self.record.attempt < script.fails:
            return self._fail(script.status, "ordered by the test")
        if script.strict and self.record.problems:
            return self._fail(400, "; ".join(self.record.problems))
        if not self.record.body.get("stream"):
            return await self._whole()
        self.writer.write(STREAM_HEAD)
        await asyncio.sleep(script.ttft)
        self._event({"role": "assistant", "content": ""})
        return await self._stream()

    def _fail(self, status: int, text: str) -> str:
        data = json.dumps({"error": {"message": text, "type": "test", "code": status}}).encode()
        after = f"retry-after: {self.script.after}\r\n" if self.script.after else ""
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\ncontent-type: application/json\r\n{after}"
        self.writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        return "failed"

    async def _whole(self) -> str:
        await asyncio.sleep(self.script.ttft)
        for index in range(self.script.n):
            self._book("text", self._words(index))
        message = {"role": "assistant", "content": self.record.text}
        data = json.dumps(
            {
                **self._head("chat.completion"),
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": self._usage(),
            }
        ).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        self.writer.write(head.encode() + data)
        return "finished"

    async def _say_nothing_for_ever(self) -> None:
        while True:
            self._event({"role": "assistant"})
            self._event({"content": ""})
            self.writer.write(_chunk(b": ping\n\n"))
            await self.writer.drain()
            await asyncio.sleep(self.script.empty)

    async def _stream(self) -> str:
        script, calls = self.script, self._calls()
        texts = script.pre if calls else script.n
        self._started = time.monotonic()
        for index in range(script.reason + texts):
            if fault := await self._fault(index):
                return fault
            await self._pace(index)
            kind = "reasoning" if index < script.reason else "text"
            self._delta(kind, self._words(index - script.reason if kind == "text" else index))
            await self.writer.drain()
        if fault := await self._fault(script.reason + texts):
            return fault
        if calls:
            await self._send_calls(calls)
        self._finish("tool_calls" if calls else "stop")
        return "finished"

    def _calls(self) -> tuple[tuple[str, str], ...]:
        answered = 0  # steps of this turn that ended in results
        previous = ""
        for message in self.record.messages:
            role = message["role"]
            answered = 0 if role == "user" else answered + (role == "tool" and previous != "tool")
            previous = role
        return self.script.call if self.record.body.get("tools") and answered < self.script.turns else ()

    async def _fault(self, position: int) -> str | None:
        script = self.script
        if script.empty and position == script.emptyat:
            await self._say_nothing_for_ever()
        if position == script.hold:
            await self.provider.released(self.record.id)
        if position == script.hang:
            await asyncio.Event().wait()
        if position == script.reset:
            await self.writer.drain()
            sock: socket.socket = self.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
            return "reset"
        if position == script.cut:
            return "cut"
        if position == script.eof:
            self.writer.write(b"0\r\n\r\n")
            return "eof"
        if position == script.garbage:
            self.writer.write(_chunk(b'data: {"choices": [{"delta": <html>\xff\xfe\x00\n\n'))
            return "garbage"
        if position == script.error:
            self.writer.write(_chunk(b'data: {"error": {"message": "overloaded", "code": 503}}\n\n') + b"0\r\n\r\n")
            return "error"
        return None

    async def _pace(self, index: int) -> None:
        if self.script.rate:
            await asyncio.sleep(max(0.0, self._started + index / self.script.rate - time.monotonic()))

    def _words(self, index: int) -> str:
        return f"{self.script.word}{index}{'x' * self.script.pad} "

    def _delta(self, kind: str, text: str) -> None:
        self._event({"content" if kind == "text" else "reasoning_content": text})
        self._book(kind, text)

    def _book(self, kind: str, text: str) -> None:
        self.record.sent.append(text)
        self.record.times.append(time.monotonic())
        if kind == "text":
            self.record.text += text
        self.provider.changed()

    async def _send_calls(self, calls: tuple[tuple[str, str], ...]) -> None:
        for index, (name, arguments) in enumerate(calls):
            call_id = f"call_{self.record.id}_{self.record.attempt}_{index}"
            function = {"name": name, "arguments": ""}
            self._event({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})
            size = -(-len(arguments) // PIECES_OF_ARGUMENTS) or 1
            for start in range(0, len(arguments), size):
                if self.script.hangargs != NEVER and self.record.pieces >= self.script.hangargs:
                    await asyncio.Event().wait()
                piece = {"arguments": arguments[start : start + size]}
                self._event({"tool_calls": [{"index": index, "function": piece}]})
                self.record.pieces += 1
                self.provider.changed()

    def _finish(self, reason: str) -> None:
        self._event({}, reason)
        if self.script.usage and (self.record.body.get("stream_options") or {}).get("include_usage"):
            self._say({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()})
        self.writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    def _event(self, delta: dict[str, Any], reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        self._say({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _say(self, value: dict[str, Any]) -> None:
        self.writer.write(_chunk(b"data: " + json.dumps(value).encode() + b"\n\n"))

    def _head(self, kind: str) -> dict[str, Any]:
        model = self.record.body.get("model", "fake-model")
        return {"id": f"chatcmpl-{self.record.id}", "object": kind, "created": int(time.time()), "model": model}

    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": 10,
            "completion_tokens": len(self.record.sent),
            "total_tokens": len(self.record.sent) + 10,
        }


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
