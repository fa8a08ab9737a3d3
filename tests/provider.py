"""A scripted OpenAI-compatible provider that books when every request came, what was sent and how its connection ended.

It runs on a thread of its own, so that a server in another process can talk to it while the test waits:

    provider = Provider().start()
    record = await provider.wait_deltas("a", 20)
    record = await provider.wait_closed("a")        # record.end == "client_closed"

or as a process, `python -m tests.provider --port 0`, with the records at `GET /_records`. What a request does is told
by its directive (see `provider_script`). Times are CLOCK_MONOTONIC seconds, which all processes of a machine share.
"""

import argparse
import asyncio
import concurrent.futures
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.provider_answer import Answer
from tests.provider_script import Script, problems, script_of
from tests.waiting import READY_TIMEOUT_S


@dataclass(kw_only=True, slots=True)
class Record:
    """One request. `end` is `open`, `finished`, `failed` (an HTTP error was sent), `client_closed`, `client_reset`, or
    the fault that was ordered: `reset`, `cut`, `eof`, `error`, `garbage`."""

    id: str
    attempt: int  # 0 for the first request of this id
    body: dict[str, Any]
    script: Script
    problems: list[str]
    key: str = ""  # what the Authorization header said
    arrived: float = field(default_factory=time.monotonic)
    sent: list[str] = field(default_factory=list)  # the deltas, reasoning and text together
    text: str = ""  # the text among them
    times: list[float] = field(default_factory=list)
    pieces: int = 0  # pieces of tool arguments sent
    end: str = "open"
    closed: float | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body["messages"]


@dataclass(frozen=True, slots=True)
class _Waiter:
    look: Callable[[], Any]
    future: "concurrent.futures.Future[Any]"


class Provider:
    """The server, its records and the ways to wait for them. Everything public may be called from any thread."""

    def __init__(self, port: int = 0):
        self.records: list[Record] = []
        self.models: dict[str, Script] = {}  # orders for every request to a model, whatever its messages say
        self.port = port
        self._released: dict[str, asyncio.Event] = {}
        self._waiters: list[_Waiter] = []
        self._lock = threading.RLock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="provider", daemon=True)

    def start(self) -> "Provider":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.listen(), self._loop).result(READY_TIMEOUT_S)
        return self

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result(READY_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(READY_TIMEOUT_S)
        self._loop.close()

    async def _cancel_all(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def of(self, id_: str) -> list[Record]:
        """All requests of this name, in the order in which they came."""
        return [record for record in self.records if record.id == id_]

    def open_requests(self) -> list[Record]:
        return [record for record in self.records if record.end == "open"]

    def release(self, id_: str) -> None:
        """Let every request of this name pass its `hold`, now and later."""
        self._loop.call_soon_threadsafe(lambda: self._gate(id_).set())

    async def wait(self, look: Callable[[], Any], timeout: float = READY_TIMEOUT_S) -> Any:
        """Wait until `look()`, called after each thing that happens, returns something true; return that."""
        waiter = _Waiter(look, concurrent.futures.Future())
        with self._lock:
            self._waiters.append(waiter)
            self._look_again()
        return await asyncio.wait_for(asyncio.wrap_future(waiter.future), timeout)

    async def wait_arrived(self, id_: str, n: int = 1, timeout: float = READY_TIMEOUT_S) -> Record:
        """Wait for the n-th request of this name."""
        return await self.wait(lambda: len(self.of(id_)) >= n and self.of(id_)[n - 1], timeout)

    async def wait_deltas(self, id_: str, n: int, timeout: float = READY_TIMEOUT_S) -> Record:
        """Wait until the latest request of this name has sent n deltas."""
        return await self.wait(lambda: self.of(id_) and len(self.of(id_)[-1].sent) >= n and self.of(id_)[-1], timeout)

    async def wait_closed(self, id_: str, timeout: float = READY_TIMEOUT_S) -> Record:
        """Wait until every request of this name has ended, and there is one; return the latest."""

        def ended() -> Record | None:
            records = self.of(id_)
            return records[-1] if records and all(record.end != "open" for record in records) else None

        return await self.wait(ended, timeout)

    def changed(self) -> None:
        """Something happened: look whether somebody waited for it."""
        with self._lock:
            self._look_again()

    def _look_again(self) -> None:
        for waiter in list(self._waiters):
            if waiter.future.cancelled():
                self._waiters.remove(waiter)
            elif (found := waiter.look()) and waiter.future.set_running_or_notify_cancel():
                self._waiters.remove(waiter)
                waiter.future.set_result(found)

    async def released(self, id_: str) -> None:
        await self._gate(id_).wait()

    def _gate(self, id_: str) -> asyncio.Event:
        return self._released.setdefault(id_, asyncio.Event())

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read_request(reader):
                await self._serve(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left between two requests
        finally:
            writer.close()

    async def _serve(self, request: "_Request", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.path.endswith("/chat/completions"):
            await self._complete(request, reader, writer)
        elif request.path.endswith("/models"):
            _reply(writer, {"object": "list", "data": [{"id": "fake-model", "object": "model", "owned_by": "tests"}]})
        elif request.path == "/_records":
            _reply(writer, [_summary(record) for record in self.records])
        else:
            _reply(writer, {"error": {"message": f"no such path {request.path!r}"}}, "404 Not Found")

    async def _complete(self, request: "_Request", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        record = self._book(request)
        answer = asyncio.create_task(Answer(self, record, writer).play())
        gone = asyncio.create_task(reader.read(1))  # nothing comes before the answer's end, except the client's close
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        record.end = _end(answer, gone)
        record.closed = time.monotonic()
        self.changed()
        for task in (answer, gone):
            task.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await task
        if record.end not in ("finished", "failed", "eof", "error"):
            raise ConnectionResetError  # nothing can follow on this connection

    def _book(self, request: "_Request") -> Record:
        messages = request.body.get("messages", [])
        script = self.models.get(request.body.get("model", "")) or script_of(messages)
        id_ = script.id or f"r{len(self.records)}"
        record = Record(
            id=id_,
            attempt=len(self.of(id_)),
            body=request.body,
            script=script,
            problems=problems(messages),
            key=request.headers.get("authorization", ""),
        )
        self.records.append(record)
        self.changed()
        return record


def _end(answer: "asyncio.Task[str]", gone: "asyncio.Task[bytes]") -> str:
    if answer.done() and not isinstance(answer.exception(), ConnectionError):
        return answer.result()
    return "client_reset" if answer.done() or gone.exception() else "client_closed"


@dataclass(frozen=True, slots=True)
class _Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


async def _read_request(reader: asyncio.StreamReader) -> _Request | None:
    line = await reader.readline()
    if not line:
        return None
    headers = {}
    while header := (await reader.readline()).decode("latin-1").strip():
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return _Request(line.decode("latin-1").split(" ")[1].partition("?")[0], headers, json.loads(raw) if raw else {})


def _reply(writer: asyncio.StreamWriter, value: Any, status: str = "200 OK") -> None:
    data = json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)


def _summary(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "attempt": record.attempt,
        "end": record.end,
        "arrived": record.arrived,
        "closed": record.closed,
        "deltas": len(record.sent),
        "text": record.text,
        "problems": record.problems,
    }


async def _main() -> None:
    parser = argparse.ArgumentParser(description="scripted OpenAI-compatible provider")
    parser.add_argument("--port", type=int, default=0)
    provider = Provider(parser.parse_args().port)
    await provider.listen()
    print(f"provider on {provider.url}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_main())
