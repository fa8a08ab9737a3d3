"""The studio page as a person meets it: what can be seen, pressed and typed."""

import json
from pathlib import Path
from typing import Any, Self

from playwright.async_api import ConsoleMessage, Locator, Page, WebSocket, expect

from tests.processes.harness import ROOT
from tests.waiting import READY_TIMEOUT_S

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
# The browser's own words on a server that is lost, and on a frame that crossed its close on the way through a `Wire`.
LOST_SERVER = ("WebSocket connection to", "WebSocket is already in CLOSING or CLOSED state")
expect.set_options(timeout=READY_TIMEOUT_S * 1000)


class StudioPage:
    """One browser tab. `complaints` are errors in its console and scripts; `sent` the frames it sent, oldest first."""

    def __init__(self, page: Page, base_url: str):
        self.page = page
        self.base_url = base_url
        self.complaints: list[str] = []
        self.sent: list[dict[str, Any]] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("websocket", self._on_websocket)

    def _on_console(self, message: ConsoleMessage) -> None:
        broken_socket = message.text.startswith(LOST_SERVER)
        if message.type in ("error", "warning") and not broken_socket:
            self.complaints.append(message.text)

    def _on_websocket(self, socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: self.sent.append(json.loads(frame)))

    # Where things are

    @property
    def composer(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message")

    @property
    def stop_button(self) -> Locator:
        return self.page.locator("studio-composer [data-slot=stop]")

    @property
    def panic_button(self) -> Locator:
        return self.page.get_by_role("button", name="Panic")

    @property
    def answer(self) -> Locator:
        """The latest answer's text."""
        return self.page.locator("studio-message.is-assistant").last.locator(".parts")

    def card(self, title: str) -> Locator:
        return self.page.locator(".card").filter(has=self.page.get_by_role("heading", name=title))

    def connection(self, status: str) -> Locator:
        return self.page.locator(f"studio-connection[data-status={status}]")

    # What a person does

    async def log_in(self, user: str, password: str) -> None:
        await self.page.goto(self.base_url)
        await self.page.locator("#id_username").fill(user)
        await self.page.locator("#id_password").fill(password)
        await self.page.locator("#id_password").press("Enter")
        await expect(self.connection("live")).to_be_visible()

    async def send(self, text: str) -> None:
        await self.composer.fill(text)
        await self.composer.press("Enter")

    async def reload(self) -> Self:
        await self.page.reload()
        await expect(self.connection("live")).to_be_visible()
        return self

    async def grows_past(self, words: int) -> None:
        """Wait until the latest answer shows at least so many of the provider's words."""
        await expect(self.answer).to_contain_text(f"w{words} ")

    # What can be asked of it

    def sent_types(self) -> list[str]:
        return [frame["type"] for frame in self.sent]

    async def is_wider_than_its_window(self) -> bool:
        script = "() => document.documentElement.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth"
        return await self.page.evaluate(script)

    async def luminance(self, selector: str) -> float:
        """How light an element's background is: 0 black, 1 white."""
        script = """element => {
            const [red, green, blue] = getComputedStyle(element).backgroundColor.match(/[\\d.]+/g).map(Number);
            return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
        }"""
        return await self.page.locator(selector).first.evaluate(script)

    async def accessibility_faults(self) -> list[str]:
        """What axe finds wrong, by rule and place."""
        await self.page.evaluate(Path(AXE).read_text(encoding="utf-8"))
        result = await self.page.evaluate("() => axe.run()")
        return [
            f"{fault['id']}: {node['html'][:120]} {node['failureSummary'][:300]}"
            for fault in result["violations"]
            for node in fault["nodes"]
        ]
