"""The keys: what Enter and Esc do in each state, the shortcuts and the sheet that tells of them."""

import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Browse
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.browser

SEND = "studio_chat_send"
STOP = "studio_chat_stop_session"
COMPOSE = """text => text.dispatchEvent(
    new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true }))"""
AGE = re.compile("sec|min")
SHEET = "Keyboard shortcuts"


async def test_esc_closes_what_is_open_and_only_then_stops(studio: Studio, browse: Browse, key: str) -> None:
    op = await browse(studio, "op")
    await op.send(directive(id=key, n=2000, rate=60))
    await op.grows_past(3)
    await op.send("queued")
    keyboard, page = op.page.keyboard, op.page
    opened = {
        "the editor of a queued message": (page.get_by_role("button", name="Edit"), page.locator(".queue-editor")),
        "the sheet of keys": (page.get_by_role("button", name=SHEET), page.get_by_role("dialog", name=SHEET)),
        "the question of Panic": (op.panic_button, page.locator("studio-panic dialog")),
        "the person's menu": (page.locator(".menu summary"), page.locator(".menu-body")),
    }
    for name, (button, thing) in opened.items():
        await button.click()
        await expect(thing, name).to_be_visible()
        await keyboard.press("Escape")
        await expect(thing, name).to_be_hidden()
        assert STOP not in op.sent_types(), name
    await op.composer.focus()
    await keyboard.press("Escape")
    await expect(op.card("Session stopped")).to_be_visible()
    await keyboard.press("Escape")
    assert op.sent_types().count(STOP) == 1
    await expect(op.composer).to_be_focused()


async def test_esc_stops_a_tool_that_runs_and_an_answer_that_has_not_begun(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=f"{key}-1", call=[("wait_async", {"seconds": 600})]))
    await expect(ann.page.locator("studio-progress")).to_contain_text("Using wait_async")
    await ann.page.keyboard.press("Escape")
    await expect(ann.card("Session stopped")).to_have_count(1)
    await ann.send(directive(id=f"{key}-2", hdr=600))
    await expect(ann.page.locator("studio-progress")).to_contain_text("Waiting for the model")
    await ann.page.keyboard.press("Escape")
    await expect(ann.card("Session stopped")).to_have_count(2)


async def test_enter_sends_unless_a_word_is_composed_and_breaks_the_line_with_shift(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.page.keyboard.type("one")
    await ann.composer.evaluate(COMPOSE)
    await ann.page.keyboard.press("Shift+Enter")
    await ann.page.keyboard.type(directive(id=key, n=1))
    await expect(ann.composer).to_have_value(f"one\n{directive(id=key, n=1)}")
    assert SEND not in ann.sent_types()
    await ann.page.keyboard.press("Enter")
    await expect(ann.page.locator(".is-user")).to_contain_text("one")
    assert ann.sent_types().count(SEND) == 1


async def test_ctrl_enter_ends_the_answer_and_goes_on_with_this_message_at_once(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(3)
    await ann.send("stays queued")
    await ann.composer.fill(directive(id=f"{key}-2", n=2000, rate=60))
    await ann.composer.press("Control+Enter")
    await expect(ann.page.locator(".is-user").last).to_contain_text(f"{key}-2")
    await ann.grows_past(3)
    await provider.wait_closed(key)
    await expect(ann.page.locator(".queue-text")).to_have_text(["stays queued"])
    await expect(ann.page.locator(".card")).to_have_count(0)


async def test_the_sheet_of_keys_opens_with_its_keys_holds_the_focus_and_gives_it_back(
    studio: Studio, browse: Browse
) -> None:
    ann = await browse(studio, "ann")
    sheet, keyboard = ann.page.get_by_role("dialog", name=SHEET), ann.page.keyboard
    await keyboard.type("what?")
    await expect(ann.composer).to_have_value("what?")
    await keyboard.press("Control+/")
    await expect(sheet).to_be_visible()
    assert not await ann.accessibility_faults()
    for _ in range(4):
        await keyboard.press("Tab")
        assert not await ann.page.locator("main").evaluate("main => main.contains(document.activeElement)")
    await keyboard.press("Escape")
    await expect(ann.composer).to_be_focused()
    await ann.page.locator("studio-thread").focus()
    await keyboard.press("?")
    await sheet.get_by_label("Open this sheet with the ? key alone").uncheck()
    await sheet.get_by_role("button", name="Close").click()
    await ann.reload()
    await ann.page.locator("studio-thread").focus()
    await keyboard.press("?")
    await expect(sheet).to_be_hidden()


async def test_a_sheet_of_keys_longer_than_the_window_begins_at_its_heading(studio: Studio, browse: Browse) -> None:
    ann = await browse(studio, "ann", viewport={"width": 640, "height": 400})
    await ann.page.keyboard.press("Control+/")
    sheet = ann.page.get_by_role("dialog", name=SHEET)
    await expect(sheet.get_by_role("button", name="Close")).to_be_focused()
    await expect(sheet.get_by_role("heading", name=SHEET)).to_be_in_viewport()


async def test_keys_lead_to_a_new_session_the_search_the_sessions_beside_and_the_message(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    keyboard = ann.page.keyboard
    await ann.send(f"older {directive(id=f'{key}-1', n=1)}")
    await expect(ann.answer).to_contain_text("w0")
    older = ann.page.url
    await keyboard.press("Control+Shift+KeyO")
    await expect(ann.page.get_by_role("heading", name="What shall we work on?")).to_be_visible()
    await ann.send(f"newer {directive(id=f'{key}-2', n=1)}")
    await expect(ann.answer).to_contain_text("w0")
    newer = ann.page.url
    await keyboard.press("Alt+PageDown")
    await expect(ann.page).to_have_url(older)
    await keyboard.press("Alt+PageUp")
    await expect(ann.page).to_have_url(newer)
    await keyboard.press("Control+KeyK")
    await expect(ann.page.get_by_role("searchbox")).to_be_focused()
    await keyboard.press("Shift+Escape")
    await expect(ann.composer).to_be_focused()


async def test_the_key_of_the_search_opens_the_drawer_it_lies_in(studio: Studio, browse: Browse) -> None:
    ann = await browse(studio, "ann", viewport={"width": 360, "height": 740})
    await ann.page.keyboard.press("Control+KeyK")
    await expect(ann.page.get_by_role("searchbox")).to_be_focused()
    await expect(ann.page.get_by_role("searchbox")).to_be_in_viewport()


async def test_each_session_has_its_own_draft_over_a_reload(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=1))
    await expect(ann.answer).to_contain_text("w0")
    await ann.composer.fill("of this session")
    session = ann.page.url
    await ann.page.keyboard.press("Control+Shift+KeyO")
    await ann.composer.fill("of a new one")
    await ann.reload()
    await expect(ann.composer).to_have_value("of a new one")
    await ann.page.goto(session)
    await expect(ann.composer).to_have_value("of this session")


async def test_a_message_that_is_too_long_says_so_before_it_is_sent(studio: Studio, browse: Browse) -> None:
    ann = await browse(studio, "ann")
    await ann.composer.fill("ж" * 33_000)
    await expect(ann.page.locator("#composer-limit")).to_have_text(
        "1 KiB too long to be sent. Shorten it, or send it in parts."
    )
    await expect(ann.page.get_by_role("button", name="Send")).to_be_disabled()
    await ann.composer.press("Enter")
    await ann.composer.fill("short")
    await expect(ann.page.locator("#composer-limit")).to_be_empty()
    assert SEND not in ann.sent_types()


async def test_whoever_is_held_sees_by_whom_since_when_and_why_and_that_nothing_goes_out(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(3)
    await ann.send("queued")
    banner = ann.page.locator("studio-holds")
    async with await studio.connect("op") as op:
        reply = await op.call("studio_chat_panic", hold=True, reason="Maintenance", scope={"user": "ann"})
        try:
            await expect(banner).to_contain_text("New runs are held by op since")
            await expect(banner).to_contain_text("Maintenance")
            await expect(banner.locator("time")).to_contain_text(AGE)
            await expect(ann.page.locator(".queue-title")).to_contain_text("nothing is sent while new runs are on hold")
        finally:
            await op.call("studio_chat_release", holdId=reply["hold"]["id"])
    await expect(banner).to_have_text("")
    await expect(ann.page.locator(".queue-title")).to_contain_text("nothing will be sent until you say so")
