"""The stage of the pictures: a studio on temporary data, its people, and a browser. Nothing of it is left behind."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright, expect

from scripts.screenshots.parts import PARTS
from scripts.screenshots.provider import Provider
from tests.processes.harness import Studio, make_template

MODEL = "openai/agent-large"
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-sync", "--no-first-run", "--hide-scrollbars"]
DESKTOP = {"width": 1120, "height": 720}
PHONE = {"width": 390, "height": 780}
READY_MS = 60_000
# An answer that falls silent ends soon enough to be waited for, and not before a busy machine has begun it.
SETTINGS = {"STUDIO_MODEL": MODEL, "STUDIO_IDLE_TIMEOUT_S": "10", "STUDIO_TOOLS": "kernel.tools.builtin"}


class Stage:
    """One studio and one browser; `people` are the browser contexts of who has logged in, by name and look."""

    def __init__(self, studio: Studio, browser: Browser):
        self.studio = studio
        self._browser = browser
        self._states: dict[str, Any] = {}

    async def enter(self, name: str, path: str = "/", **look: Any) -> Page:
        """A page in a browser of its own, logged in."""
        look = {"viewport": DESKTOP, "locale": "en-GB", "reduced_motion": "reduce", **look}
        context = await self._browser.new_context(**look, storage_state=self._states.get(name))
        context.set_default_timeout(READY_MS)
        page = await context.new_page()
        await page.goto(f"{self.studio.base_url}{path}")
        if name not in self._states:
            await page.locator("#id_username").fill(name)
            await page.locator("#id_password").fill(f"{name}-password")
            await page.locator("#id_password").press("Enter")
            await page.wait_for_url(f"**{path}")
            cookies = await context.storage_state()
            self._states[name] = {"cookies": cookies["cookies"], "origins": []}
        return page

    async def ask(self, name: str, text: str, **look: Any) -> Page:
        """A new session with one message sent."""
        page = await self.enter(name, **look)
        await say(page, text)
        return page


async def say(page: Page, text: str) -> None:
    """Send a message, once the page's scripts hear the keys."""
    await expect(page.locator("studio-connection[data-status=live]")).to_be_attached()
    await page.locator("#composer-text").fill(text)
    await page.locator("#composer-text").press("Enter")


@asynccontextmanager
async def stage(directory: Path) -> AsyncIterator[Stage]:
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        raise SystemExit("Chromium is missing. Install it (Debian: apt-get install chromium).")
    expect.set_options(timeout=READY_MS)
    provider = await Provider(PARTS).start()
    studio = Studio(directory, make_template(directory / "template"), provider.url, **SETTINGS)
    try:
        studio.launch()
        studio.wait_until_ready()
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
            yield Stage(studio, browser)
            await browser.close()
    finally:
        studio.end()
        await provider.end()
