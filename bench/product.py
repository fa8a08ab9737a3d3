"""The product as a subject: one Daphne process on a temporary database, and people at WebSockets of their own."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from bench.subjects import Client, Stream, Subject, Token
from bench.upstream import Upstream
from tests.client import Frame, StudioClient
from tests.processes.harness import START_TIMEOUT_S, Studio, manage
from tests.provider_script import directive
from tests.waiting import READY_TIMEOUT_S

TOGETHER = 20  # sockets that are opened at once
FILL = "from bench.fill import fill; fill({people}, {sessions!r}, {cookies!r})"


class Product(Subject):
    """A running studio."""

    def __init__(self, studio: Studio, cookies: list[str], upstream: Upstream, name: str = "studio"):
        self.pid, self.name = studio.pid, name
        self._base_url, self._cookies, self._upstream = studio.base_url, cookies, upstream

    async def warm(self) -> None:
        """One turn, so that what is only paid once is paid."""
        client = await self.client(0)
        await (await client.ask(n=1)).ended(START_TIMEOUT_S)
        await client.close()

    @asynccontextmanager
    async def clients(self, count: int) -> AsyncIterator[list[Client]]:
        opened: list[SocketClient] = []
        for first in range(0, count, TOGETHER):
            numbers = range(first, min(first + TOGETHER, count))
            opened += await asyncio.gather(*map(self.client, numbers))
        try:
            yield list(opened)
        finally:
            await asyncio.gather(*(client.close() for client in opened))

    async def client(self, number: int) -> "SocketClient":
        """A socket of one of the people, who is logged in already."""
        cookie = self._cookies[number % len(self._cookies)]
        socket = await StudioClient.connect(self._base_url, {"sessionid": cookie})
        return SocketClient(socket, self._upstream)


@contextmanager
def running_product(
    directory: Path, upstream: Upstream, people: int, sizes: list[int], name: str = "studio", **changes: str
) -> Iterator[Product]:
    """Fill a database in `directory`, start a studio on it, and end it. `changes` are of its environment."""
    made, runs, cookies = directory / "made", directory / "runs", directory / "cookies.json"
    made.mkdir()
    runs.mkdir()
    manage(made, "migrate", "--verbosity", "0")
    sessions = {session_key(size): size for size in sizes}
    manage(made, "shell", "-c", FILL.format(people=people, sessions=sessions, cookies=str(cookies)))
    studio = Studio(runs, made / "studio.sqlite3", upstream.url, STUDIO_TOOLS="", **changes).start()
    try:
        yield Product(studio, json.loads(cookies.read_text(encoding="utf-8")), upstream, name)
    finally:
        studio.end()


def session_key(size: int) -> str:
    """The session of the first person that has so many messages."""
    return f"past-{size}"


class SocketClient(Client):
    """One person at one socket."""

    def __init__(self, socket: StudioClient, upstream: Upstream):
        self.socket = socket
        self._upstream = upstream

    async def ask(self, *, session: str | None = None, **orders: Any) -> "SocketStream":
        id_ = self._upstream.new_id()
        asked_s = time.monotonic()
        reply = await self.socket.send(session or id_, directive(id=id_, **orders))
        return SocketStream(self.socket, reply, id_, asked_s)

    async def replace(self, stream: Stream, **orders: Any) -> tuple[float, str]:
        assert isinstance(stream, SocketStream)
        id_ = self._upstream.new_id()
        queued = await self.socket.send(stream.session, directive(id=id_, **orders))
        ordered_s = time.monotonic()
        await self.socket.call("studio_chat_send_now", sessionKey=stream.session, queueId=queued["queueId"])
        return ordered_s, id_

    async def close(self) -> None:
        await self.socket.close()

    async def subscribe(self, session: str) -> float:
        """Subscribe; return how long the snapshot took."""
        asked_s = time.monotonic()
        return self._arrival(await self.socket.subscribe(session)) - asked_s

    def _arrival(self, wanted: Frame) -> float:
        pairs = zip(reversed(self.socket.frames), reversed(self.socket.arrivals), strict=True)
        return next(arrived_s for frame, arrived_s in pairs if frame is wanted)


class SocketStream(Stream):
    """A turn, read from the frames of its socket."""

    def __init__(self, socket: StudioClient, reply: Frame, id_: str, asked_s: float):
        self.id, self.asked_s, self.session = id_, asked_s, reply["sessionKey"]
        self._socket, self._execution_id = socket, reply["executionId"]

    def tokens(self) -> list[Token]:
        pairs = zip(self._socket.frames, self._socket.arrivals, strict=True)
        deltas = ((frame["text"], arrived_s) for frame, arrived_s in pairs if self._is_delta(frame))
        return [(float(word), arrived_s) for text, arrived_s in deltas for word in text.split()]

    async def began(self) -> None:
        await self._socket.wait(self._is_delta)

    async def stop(self) -> float:
        ordered_s = time.monotonic()
        await self._socket.post("studio_chat_stop_session", sessionKey=self.session)
        return ordered_s

    async def ended(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        await self._socket.result(self._execution_id, timeout_s)

    def _is_delta(self, frame: Frame) -> bool:
        return frame["type"] == "studio_chat_delta" and frame["executionId"] == self._execution_id
