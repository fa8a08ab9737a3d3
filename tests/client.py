"""A client of the wire contract: it logs in through the real form, speaks frames and remembers every one that came.

    client = await StudioClient.connect(base_url, cookies)
    reply = await client.call("studio_chat_send", sessionKey=key, text="hello")
    result = await client.result(reply["executionId"])

`reducer.apply` is the reference for what the frames mean.
"""

import asyncio
import itertools
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import aiohttp
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.waiting import READY_TIMEOUT_S

Frame = dict[str, Any]
CSRF_FIELD = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
MAX_FRAME_BYTES = 64 * 1024 * 1024


async def log_in(base_url: str, username: str, password: str) -> dict[str, str]:
    """Log in through the form at /accounts/login/ and return the cookies."""
    url = f"{base_url}/accounts/login/"
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(url) as page:
            found = CSRF_FIELD.search(await page.text())
        assert found, f"no CSRF token in the page of {url} (status {page.status})"
        form = {"username": username, "password": password, "csrfmiddlewaretoken": found[1]}
        async with session.post(url, data=form, headers={"Referer": url}, allow_redirects=False) as answer:
            assert answer.status == 302, f"the login of {username!r} was answered with {answer.status}"
        return {cookie.key: cookie.value for cookie in session.cookie_jar}


class StudioClient:
    """One socket. `frames` holds every frame that came, in order; waiting looks at old frames and new ones alike."""

    def __init__(self, socket: ClientConnection):
        self.socket = socket
        self.frames: list[Frame] = []
        self.arrivals: list[float] = []  # CLOCK_MONOTONIC seconds, one for each frame
        self._numbers = itertools.count(1)
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name="client")

    @classmethod
    async def connect(cls, base_url: str, cookies: dict[str, str], origin: str | None = None) -> Self:
        """Open a socket. The origin is the server's own unless another is given. Raises what `websockets` raises."""
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
        socket = await connect(
            f"{base_url.replace('http', 'ws', 1)}/ws/studio/",
            origin=origin or base_url,  # type: ignore[arg-type]  # websockets marks strings as origins
            additional_headers=headers,
            max_size=MAX_FRAME_BYTES,
            compression=None,
            proxy=None,
        )
        return cls(socket)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.socket.close()
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    def vanish(self) -> None:
        """Lose the connection without a word, as a closed laptop does."""
        self.socket.transport.abort()

    @property
    def close_code(self) -> int | None:
        return self.socket.close_code

    async def _read(self) -> None:
        with suppress(ConnectionClosed):
            async for text in self.socket:
                self.frames.append(json.loads(text))
                self.arrivals.append(time.monotonic())
                self._news.set()
        self._news.set()

    async def send_raw(self, data: str | bytes) -> None:
        await self.socket.send(data)

    async def post(self, type_: str, **fields: Any) -> str:
        """Send a frame and return its requestId without waiting for the reply."""
        request_id = fields.setdefault("requestId", f"q{next(self._numbers)}")
        await self.socket.send(json.dumps({"type": type_, **fields}))
        return request_id

    async def reply(self, request_id: str) -> Frame:
        return await self.wait(lambda frame: frame.get("requestId") == request_id and not _is_event(frame))

    async def call(self, type_: str, **fields: Any) -> Frame:
        """Send a frame and wait for its reply, whether it succeeded or not."""
        return await self.reply(await self.post(type_, **fields))

    async def wait(self, predicate: Callable[[Frame], Any], timeout: float = READY_TIMEOUT_S) -> Frame:
        """Return the first frame that satisfies the predicate, of those that came and those that will."""
        seen = 0
        async with asyncio.timeout(timeout):
            while True:
                for frame in self.frames[seen:]:
                    if predicate(frame):
                        return frame
                seen = len(self.frames)
                if self._reading.done():
                    raise ConnectionError(f"the socket closed with {self.close_code} before the frame came")
                self._news.clear()
                await self._news.wait()

    async def closed(self, timeout: float = READY_TIMEOUT_S) -> int | None:
        """Wait for the server to close the socket; return the code."""
        await asyncio.wait_for(self.socket.wait_closed(), timeout)
        return self.close_code

    # What people do, in one word each.

    async def send(self, session_key: str, text: str, **fields: Any) -> Frame:
        reply = await self.call("studio_chat_send", sessionKey=session_key, text=text, **fields)
        assert reply["ok"], reply
        return reply

    async def stop(self, session_key: str, **fields: Any) -> Frame:
        return await self.call("studio_chat_stop_session", sessionKey=session_key, **fields)

    async def subscribe(self, session_key: str, **fields: Any) -> Frame:
        reply = await self.call("studio_chat_subscribe", sessionKey=session_key, **fields)
        assert reply["ok"], reply
        return reply

    async def ping(self) -> Frame:
        return await self.call("studio_chat_ping")

    async def result(self, execution_id: str, timeout: float = READY_TIMEOUT_S) -> Frame:
        """Wait for the result of an execution."""
        return await self.wait(
            lambda frame: frame["type"] == "studio_chat_result" and frame["executionId"] == execution_id, timeout
        )

    def events(self, session_key: str) -> list[Frame]:
        """The events of a session, in the order in which they came."""
        return [frame for frame in self.frames if _is_event(frame) and frame.get("sessionKey") == session_key]

    def run_events(self, execution_id: str) -> list[Frame]:
        """The numbered events of one execution."""
        return [frame for frame in self.frames if _is_event(frame) and frame.get("executionId") == execution_id]

    def text_of(self, execution_id: str) -> str:
        """The text that came in deltas."""
        deltas = [f for f in self.run_events(execution_id) if f["type"] == "studio_chat_delta" and f["kind"] == "text"]
        return "".join(delta["text"] for delta in deltas)

    async def wait_text(self, execution_id: str, fragment: str) -> str:
        """Wait until the text of an execution holds the fragment; return the text so far."""
        await self.wait(
            lambda frame: (
                frame["type"] == "studio_chat_delta"
                and frame["executionId"] == execution_id
                and fragment in self.text_of(execution_id)
            )
        )
        return self.text_of(execution_id)

    async def wait_phase(self, execution_id: str, phase: str) -> Frame:
        return await self.wait(
            lambda frame: (
                frame["type"] == "studio_chat_progress"
                and frame["executionId"] == execution_id
                and frame["phase"] == phase
            )
        )


EVENT_TYPES = frozenset(
    f"studio_chat_{name}"
    for name in ("message", "progress", "delta", "tool", "result", "queue", "session", "hold", "executions")
)


def _is_event(frame: Frame) -> bool:
    return frame["type"] in EVENT_TYPES
