"""The session list: what runs and what is new; found, renamed, taken away and deleted, by mouse and by keyboard."""

import json
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.browser.conftest import Browse
from tests.browser.driver import StudioPage
from tests.browser.filled import SESSIONS, fill
from tests.processes.ends import assert_closed_by_us
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.browser

STOP = "studio_chat_stop_session"
RENAME = "studio_chat_session_rename"


def item(person: StudioPage, words: str) -> Locator:
    return person.page.locator("studio-sessions .session").filter(has_text=words)


def link(person: StudioPage, words: str) -> Locator:
    return item(person, words).locator("a")


def state_of(person: StudioPage, words: str, state: str) -> Locator:
    return person.page.locator(f"studio-sessions .session[data-state={state}]").filter(has_text=words)


async def begin(person: StudioPage, words: str, **orders: object) -> None:
    """A session of its own, whose title begins with `words`."""
    await person.page.get_by_role("link", name="New session").click()
    await person.send(f"{words} {directive(**orders)}")
    await expect(item(person, words)).to_be_visible()


async def test_the_list_tells_what_runs_what_is_queued_and_what_is_new_until_it_is_opened(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await begin(ann, key[:12], id=key, n=5, hold=2)
    await ann.send(f"the next one {directive(n=1)}")
    await ann.page.get_by_role("link", name="New session").click()
    await expect(state_of(ann, key[:12], "running")).to_be_visible()
    await expect(item(ann, key[:12]).locator(".session-count")).to_have_text("1")
    provider.release(key)
    await expect(state_of(ann, key[:12], "unread")).to_be_visible()
    await expect(link(ann, key[:12])).to_contain_text("unread")
    await link(ann, key[:12]).click()
    await expect(state_of(ann, key[:12], "idle")).to_be_visible()
    await ann.page.get_by_role("link", name="New session").click()
    await ann.reload()
    await expect(state_of(ann, key[:12], "idle")).to_be_visible()


async def test_a_title_is_changed_in_its_place_by_keyboard_and_shown_in_every_tab(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await begin(ann, key[:12], id=key, n=2000, rate=30)
    other = await browse(studio, "ann")
    keyboard = ann.page.keyboard
    await link(ann, key[:12]).focus()
    await keyboard.press("F2")
    field = ann.page.get_by_role("textbox", name="New title")
    await expect(field).to_be_focused()
    await keyboard.type("never mind")
    await keyboard.press("Escape")
    await expect(link(ann, key[:12])).to_be_focused()
    assert not {RENAME, STOP} & set(ann.sent_types())
    await keyboard.press("F2")
    await keyboard.type(f"named {key[:8]}")
    await keyboard.press("Enter")
    await expect(link(ann, f"named {key[:8]}")).to_be_focused()
    await expect(ann.page.locator("#session-title")).to_have_text(f"named {key[:8]}")
    await expect(item(other, f"named {key[:8]}")).to_be_visible()
    await ann.stop_button.click()


async def test_a_session_is_deleted_after_a_question_that_says_it_is_stopped_and_its_provider_is_closed(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await begin(ann, f"kept {key[:12]}", n=1)
    await begin(ann, f"gone {key[:12]}", id=key, n=2000, rate=60)
    await ann.grows_past(3)
    await link(ann, f"kept {key[:12]}").click()
    await link(ann, f"gone {key[:12]}").focus()
    await ann.page.keyboard.press("Delete")
    dialog = ann.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("it is stopped first")
    await ann.page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(link(ann, f"gone {key[:12]}")).to_be_focused()
    await ann.page.keyboard.press("Delete")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(item(ann, f"gone {key[:12]}")).to_have_count(0)
    assert_closed_by_us(await provider.wait_closed(key))
    await expect(link(ann, f"kept {key[:12]}")).to_be_focused()
    assert STOP not in ann.sent_types()


async def test_deleting_the_open_session_leads_to_a_new_one(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann")
    await begin(ann, key[:12], id=key, n=1)
    await link(ann, key[:12]).focus()
    await ann.page.keyboard.press("Delete")
    await ann.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(item(ann, key[:12])).to_have_count(0)
    await expect(ann.page.locator("#session-title")).to_have_text("New session")
    await expect(ann.composer).to_be_focused()


async def test_a_search_finds_titles_and_texts_in_any_case_and_esc_gives_it_up(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await begin(ann, f"Погода {key[:8]}", id=key, n=2000, rate=30)
    search = ann.page.get_by_role("searchbox", name="Search in titles and texts")
    await search.fill(f"ПОГОДА {key[:8]}")
    await expect(ann.page.get_by_text("1 session found")).to_be_visible()
    await expect(item(ann, key[:8]).locator(".session-excerpt")).to_contain_text("Погода")
    await search.fill(f"{key} is not there")
    await expect(ann.page.get_by_text("Nothing was found.")).to_be_visible()
    await search.press("Escape")
    await expect(search).to_have_value("")
    await expect(item(ann, key[:8])).to_be_visible()
    assert STOP not in ann.sent_types()
    await ann.stop_button.click()


async def test_the_list_grows_as_its_reader_walks_down_by_keyboard(studio: Studio, browse: Browse) -> None:
    fill(studio, "walt")
    walt = await browse(studio, "walt")
    sessions = walt.page.locator("studio-sessions .session")
    await link(walt, "Session 000").focus()
    for shown in (100, SESSIONS):
        await walt.page.keyboard.press("End")
        await expect(sessions).to_have_count(shown)
    await walt.page.keyboard.press("End")
    await expect(link(walt, f"Session {SESSIONS - 1:03}")).to_be_focused()
    await walt.page.keyboard.press("Home")
    await expect(link(walt, "Session 000")).to_be_focused()
    await expect(walt.page.get_by_role("button", name="Show more sessions")).to_be_hidden()


async def test_a_session_is_taken_away_from_its_menu_and_by_its_owner_alone(
    studio: Studio, browse: Browse, key: str, tmp_path: Path
) -> None:
    ann = await browse(studio, "ann")
    await begin(ann, f"Trip {key[:8]}", id=key, n=3)
    await expect(ann.answer).to_contain_text("w2")
    await item(ann, key[:8]).hover()
    await item(ann, key[:8]).get_by_role("button").click()
    await expect(ann.page.get_by_role("menuitem", name="Rename")).to_be_focused()
    await ann.page.keyboard.press("ArrowDown")
    async with ann.page.expect_download() as download:
        await ann.page.keyboard.press("Enter")
    file = await download.value
    assert file.suggested_filename.startswith(f"Trip-{key[:8]}")
    await file.save_as(tmp_path / "session.md")
    assert "w0 w1 w2" in (tmp_path / "session.md").read_text(encoding="utf-8")
    address = f"{ann.page.url}export.json"
    told = json.loads(await (await ann.page.request.get(address)).text())
    assert [message["role"] for message in told["messages"]] == ["user", "assistant"]
    bob = await browse(studio, "bob")
    assert (await bob.page.request.get(address)).status == 404


async def test_menu_question_and_search_are_without_fault_for_a_screen_reader(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann", viewport={"width": 360, "height": 740})
    await ann.send(f"{key[:8]} {directive(id=key, n=1)}")
    await expect(ann.answer).to_contain_text("w0")
    await ann.page.get_by_role("button", name="Sessions", exact=True).click()
    await item(ann, key[:8]).get_by_role("button").click()
    assert not await ann.accessibility_faults()
    await ann.page.get_by_role("menuitem", name="Delete…").click()
    assert not await ann.accessibility_faults()
    assert not await ann.is_wider_than_its_window()
    await ann.page.keyboard.press("Escape")
    await expect(ann.page.get_by_role("dialog")).to_be_hidden()
