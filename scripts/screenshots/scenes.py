"""The scenes: each plays what a picture shows, and takes it. Their order matters: a panic ends what ran before it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import Locator, Page, expect

from scripts.screenshots.parts import ADD, BROKEN, LONG, PLAN, QUIETLY, REPORT, SILENT
from scripts.screenshots.stage import PHONE, Stage, say

Take = Callable[[str, Page | Locator], Awaitable[None]]
RUNNING = "studio-progress:not([hidden])"
MARGIN = 16


async def studio(stage: Stage, take: Take) -> None:
    """A conversation with a table, code and a tool, in both colour schemes; the queue; a phone."""
    page = await stage.ask("ann", PLAN)
    await ended(page)
    await say(page, ADD)
    await ended(page)
    await take("studio-light", page)
    session = page.url.removeprefix(stage.studio.base_url)
    dark = await stage.enter("ann", session, color_scheme="dark")
    await say(dark, LONG)
    await says(dark, "Checkout")
    await take("studio-dark", dark)
    for text in (
        "And which of them block the release?",
        "Then write the notes for the testers.",
        "In Portuguese, too.",
    ):
        await say(dark, text)
    await expect(page.locator("studio-queue li")).to_have_count(3)
    await take("queue", page)
    phone = await stage.enter("ann", session, viewport=PHONE)
    await says(phone, "Checkout")
    await take("phone", phone)
    await page.get_by_role("button", name="Stop session").click()
    await expect(page.locator(RUNNING)).to_have_count(0)


async def runs(stage: Stage, take: Take) -> None:
    """What operators see: the Runs page, Panic's question, and what a panic leaves behind."""
    for name, text in (("ann", LONG), ("bob", REPORT), ("bob", QUIETLY), ("op", LONG)):
        page = await stage.ask(name, text)
        await says(page, "tickets")
    op = await stage.enter("op", "/runs/")
    await expect(op.locator("tr.run")).to_have_count(4)
    await op.locator("tr.run input").nth(1).check()
    await op.locator("tr.run input").nth(2).check()
    await take("runs-light", op)
    dark = await stage.enter("op", "/runs/", color_scheme="dark")
    await expect(dark.locator("tr.run")).to_have_count(4)
    await take("runs-dark", dark)
    phone = await stage.enter("op", "/runs/", viewport=PHONE)
    await expect(phone.locator("tr.run")).to_have_count(4)
    await take("runs-phone", phone)
    await op.get_by_role("button", name="Panic").click()
    await op.get_by_label("Reason").fill("The provider bills us twice")
    await op.get_by_label("hold new runs").check()
    await expect(op.locator(".panic-hit")).to_contain_text("4 runs")
    await take("panic-dialog", op)
    await op.get_by_role("button", name="Stop everything").click()
    await expect(op.locator("studio-panic-outcome")).to_contain_text("stopped")
    await expect(op.locator("tr.run [data-tone=panic]")).to_have_count(4)
    await take("runs-after-panic", op)
    await card("card-panic", page, take)
    await op.get_by_role("button", name="Release").click()
    await expect(op.locator("studio-holds li")).to_have_count(0)


async def cards(stage: Stage, take: Take) -> None:
    """How an answer can end, apart from well and by panic."""
    page = await stage.ask("ann", REPORT)
    await says(page, "Checkout")
    await page.get_by_role("button", name="Stop session").click()
    await card("card-stop", page, take)
    await card("card-timeout", await stage.ask("ann", SILENT), take)
    await card("card-error", await stage.ask("ann", BROKEN), take)
    page = await stage.ask("ann", REPORT)
    await says(page, "Checkout")
    stage.studio.kill()
    stage.studio.start()
    await card("card-lost", page, take)


async def admin(stage: Stage, take: Take) -> None:
    """The operators' pages in the admin."""
    page = await stage.enter("op", "/admin/kernel/abortedrun/")
    await expect(page.locator(".plot svg").first).to_be_visible()
    await take("admin-aborted-runs", page)
    page = await stage.enter("op", "/admin/kernel/executionrecord/panic/", color_scheme="dark")
    await take("admin-panic", page)


SCENES = {"studio": studio, "runs": runs, "cards": cards, "admin": admin}


async def ended(page: Page) -> None:
    await expect(page.locator(RUNNING)).to_have_count(0)
    await expect(page.locator("studio-message.is-assistant").last).to_have_attribute("data-status", "completed")


async def says(page: Page, words: str) -> None:
    await expect(page.locator("studio-message.is-assistant").last).to_contain_text(words)


async def card(name: str, page: Page, take: Take) -> None:
    """The last answer with the card of its end."""
    await expect(page.locator(".card").last).to_be_visible()
    await take(name, page.locator("studio-message.is-assistant").last)


def file_of(directory: Path, name: str) -> Path:
    return directory / f"{name}.png"
