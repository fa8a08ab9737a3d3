"""`python -m bench.page` measures the page in Chromium: how fast a session opens, and what stutters while text flows.

Loopback only; nothing is left running. The words of the stream make one paragraph that grows, the hardest case: it is
drawn anew each time, while of a text of many blocks only the last one is.
"""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from bench import machine
from bench.product import FILL, session_key
from bench.tables import Table, number, spread
from tests.browser.conftest import CHROMIUM_FLAGS
from tests.processes.harness import Studio, manage
from tests.provider import Provider
from tests.provider_script import directive

SIZES = (50, 5_000)  # messages in a session
SHOWN = 50  # messages of a page
OPENINGS = 9
RATE = 200  # tokens a second
WINDOW_S = 8.0
KEY_EVERY_S = 0.12

# In the page, before its own scripts: when the last page of messages stands, and what holds the main thread.
WATCH = """
const watch = window.bench = { shownMs: null, tasks: [], keys: [] };
new MutationObserver(() => {
    if (watch.shownMs === null && document.querySelectorAll("studio-message").length >= SHOWN)
        requestAnimationFrame(() => (watch.shownMs = performance.now()));
}).observe(document, { childList: true, subtree: true });
new PerformanceObserver(list => list.getEntries().forEach(({ duration }) => watch.tasks.push(duration)))
    .observe({ type: "longtask", buffered: true });
new PerformanceObserver(list => list.getEntries().filter(({ name }) => name === "keydown")
    .forEach(({ duration }) => watch.keys.push(duration))).observe({ type: "event", durationThreshold: 16 });
"""


@asynccontextmanager
async def studio_in_chromium() -> AsyncIterator[tuple[Page, str]]:
    """A page of a person who is logged in and has the sessions of `SIZES`, and the studio's address."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, closing(Provider().start()) as provider:
        made, cookies = Path(directory), Path(directory) / "cookies.json"
        manage(made, "migrate", "--verbosity", "0")
        sessions = {session_key(size): size for size in SIZES}
        manage(made, "shell", "-c", FILL.format(people=1, sessions=sessions, cookies=str(cookies)))
        studio = Studio(made, None, provider.url).start()
        try:
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=_chromium(), args=CHROMIUM_FLAGS)
                [cookie] = json.loads(cookies.read_text(encoding="utf-8"))
                yield await _page(browser, studio.base_url, cookie), studio.base_url
                await browser.close()
        finally:
            studio.end()


def _chromium() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("Chromium is missing. Install it (Debian: apt-get install chromium).")
    return found


async def _page(browser: Browser, base_url: str, cookie: str) -> Page:
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    await context.add_cookies([{"name": "sessionid", "value": cookie, "url": base_url}])
    await context.add_init_script(WATCH.replace("SHOWN", str(SHOWN)))
    return await context.new_page()


async def opening(page: Page, base_url: str) -> Table:
    """From the start of the load to the frame in which the last messages stand."""
    columns = ["messages in the session", "openings", "p50 ms", "p99 ms", "max ms", "messages on the page"]
    table = Table(title="Opening a session in the browser", columns=columns)
    taken: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(OPENINGS):
        for size in SIZES:
            await page.goto(f"{base_url}/s/{session_key(size)}/")
            await page.wait_for_function("() => bench.shownMs !== null")
            taken[size].append(await page.evaluate("() => bench.shownMs"))
    for size, ms in taken.items():
        await page.goto(f"{base_url}/s/{session_key(size)}/")
        await page.wait_for_function("() => bench.shownMs !== null")
        on_page = await page.locator("studio-message").count()
        table.rows.append([f"{size:,}", str(len(ms)), *spread(ms), str(on_page)])
    return table


async def stuttering(page: Page, base_url: str) -> Table:
    """What holds the main thread for longer than 50 ms, and what a key waits for its frame, while a person writes."""
    columns = ["", "seconds", "long tasks", "longest ms", "keys", "p50 ms", "p99 ms", "max ms"]
    table = Table(title=f"Writing and scrolling at {RATE} tokens a second", columns=columns)
    await page.goto(f"{base_url}/s/{session_key(SIZES[0])}/")
    await page.wait_for_function("() => bench.shownMs !== null")
    await page.locator("#composer-text").fill(directive(n=RATE * 60, rate=RATE))
    await page.keyboard.press("Enter")
    await page.get_by_text("w20 ").wait_for()
    for name, act in (("writing", _write), ("scrolling", _scroll)):
        await page.evaluate("() => Object.assign(bench, { tasks: [], keys: [] })")
        began_s = time.monotonic()
        while time.monotonic() - began_s < WINDOW_S:
            await act(page)
            await asyncio.sleep(KEY_EVERY_S)
        table.rows.append(_row(name, time.monotonic() - began_s, await page.evaluate("() => bench")))
    await page.keyboard.press("Escape")
    return table


async def _write(page: Page) -> None:
    await page.keyboard.press("x")


async def _scroll(page: Page) -> None:
    await page.mouse.move(700, 300)
    await page.mouse.wheel(0, -120)


def _row(name: str, seconds: float, seen: dict[str, Any]) -> list[str]:
    keys = spread(seen["keys"]) if seen["keys"] else ["–"] * 3
    longest = number(max(seen["tasks"], default=0.0))
    return [name, number(seconds), str(len(seen["tasks"])), longest, str(len(seen["keys"])), *keys]


async def main() -> None:
    print(f"Measured on {time.strftime('%Y-%m-%d')}: {machine.description()}", flush=True)
    async with studio_in_chromium() as (page, base_url):
        for measure in (opening, stuttering):
            print(f"\n{(await measure(page, base_url)).markdown()}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
