"""Fixtures of the browser tests: a real Chromium on a real studio. What the page complains about fails the test."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from playwright.async_api import async_playwright

from tests.browser.driver import StudioPage
from tests.processes.conftest import key, make_studio, shared_studio, studio, template
from tests.processes.harness import Studio
from tests.waiting import READY_TIMEOUT_S

__all__ = ["browse", "key", "make_studio", "shared_studio", "studio", "template"]

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
DESKTOP = {"width": 1280, "height": 860}

Browse = Callable[..., Awaitable[StudioPage]]


@pytest.fixture
async def browse() -> AsyncIterator[Browse]:
    """Opens pages, each in a browser profile of its own: `await browse(studio, "ann", color_scheme="dark")`."""
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    assert executable, "Chromium is missing. Install it (Debian: apt-get install chromium) or leave out -m browser."
    pages: list[StudioPage] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)

        async def browse_as(studio: Studio, user: str, **options: object) -> StudioPage:
            context = await browser.new_context(**{"viewport": DESKTOP, "locale": "en-GB", **options})
            context.set_default_timeout(READY_TIMEOUT_S * 1000)
            page = StudioPage(await context.new_page(), studio.base_url)
            pages.append(page)
            await page.log_in(user, f"{user}-password")
            return page

        yield browse_as
        await browser.close()
    assert not [complaint for page in pages for complaint in page.complaints]
