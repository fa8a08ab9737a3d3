"""The wire between a page and its server, in a test's hands: frames are held or lost, the connection breaks or dies.

wire = await Wire.into(ann)  # the page is loaded anew, with the wire in its socket
await wire.cut()  # the connection breaks, and each new one with it, until
wire.mend()
"""

import json
import re
from collections.abc import Callable
from typing import Any, Self

from playwright.async_api import WebSocketRoute

from tests.browser.driver import StudioPage

Frame = dict[str, Any]
BREAK = 1012  # a page connects again after it


class Wire:
    """`asked` are the frames that the page sent, arrived or not, oldest first."""

    def __init__(self) -> None:
        self.asked: list[Frame] = []
        self.lose: Callable[[Frame], bool] = lambda frame: False  # which of the page's frames break the connection
        self.hold: Callable[[Frame], bool] = lambda frame: False  # which of the server's frames wait, and all behind
        self.connections = 0
        self._held: list[str] = []
        self._socket: WebSocketRoute | None = None
        self._cut = False

    @classmethod
    async def into(cls, tab: StudioPage) -> Self:
        wire = cls()
        await tab.page.route_web_socket(re.compile("/ws/studio/"), wire._connect)
        await tab.reload()
        return wire

    async def cut(self) -> None:
        self._cut = True
        await self._break()

    def mend(self) -> None:
        """The page's next attempt succeeds."""
        self._cut = False

    def release(self) -> None:
        """What was held arrives."""
        self.hold = lambda frame: False
        held, self._held = self._held, []
        for text in held:
            assert self._socket is not None
            self._socket.send(text)

    def of(self, type_: str) -> list[Frame]:
        return [frame for frame in self.asked if frame["type"] == type_]

    async def _connect(self, socket: WebSocketRoute) -> None:
        if self._cut:
            await socket.close(code=BREAK)
            return
        self.connections += 1
        self._socket, self._held = socket, []
        server = socket.connect_to_server()
        socket.on_message(lambda text: self._to_server(server, str(text)))
        server.on_message(lambda text: self._to_page(socket, str(text)))

    async def _to_server(self, server: WebSocketRoute, text: str) -> None:
        frame = json.loads(text)
        self.asked.append(frame)
        if not self.lose(frame):
            server.send(text)
            return
        await self._break()

    async def _break(self) -> None:
        """What was under way is lost, and what was held."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close(code=BREAK)

    def _to_page(self, socket: WebSocketRoute, text: str) -> None:
        if socket is not self._socket:
            return
        if self._held or self.hold(json.loads(text)):
            self._held.append(text)
        else:
            socket.send(text)
