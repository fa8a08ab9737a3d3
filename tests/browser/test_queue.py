"""The queue above the composer: edited in place, moved by hand and by key, sent now; nothing is lost or sent twice."""

import re

import pytest
from playwright.async_api import Locator, expect

from tests.browser.conftest import Browse
from tests.browser.driver import StudioPage
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.browser

STOP = "studio_chat_stop_session"
HOLD = "studio_chat_queue_hold"
SEND_NOW = "studio_chat_send_now"
TIP = (
    "The running answer ends, what has arrived is kept, and this message is sent next; the others stay in their order."
)
SMALL_TARGETS = """() => [...document.querySelectorAll("studio-queue button, studio-composer button, summary")]
    .filter(element => element.checkVisibility())
    .map(element => [element.outerHTML.slice(0, 80), element.getBoundingClientRect()])
    .filter(([, { width, height }]) => width < 24 || height < 24)"""


def items(tab: StudioPage) -> Locator:
    return tab.page.locator(".queue-item")


def texts(tab: StudioPage) -> Locator:
    return tab.page.locator(".queue-text")


def said(tab: StudioPage) -> Locator:
    return tab.page.locator(".is-user [data-slot=text]")


async def drag(tab: StudioPage, what: Locator, to: Locator) -> None:
    """By its middle, to just below another's."""
    start, end = await what.bounding_box(), await to.bounding_box()
    assert start is not None
    assert end is not None
    x = start["x"] + start["width"] / 2
    await tab.page.mouse.move(x, start["y"] + start["height"] / 2)
    await tab.page.mouse.down()
    await tab.page.mouse.move(x, end["y"] + end["height"] * 0.8, steps=5)
    await tab.page.mouse.up()


async def waiting(tab: StudioPage, run: str, *queued: str) -> StudioPage:
    """`tab`, with an answer that runs and these messages in the queue."""
    await tab.send(run)
    await tab.grows_past(0)
    for number, text in enumerate(queued, 1):
        await tab.send(text)
        await expect(tab.page.locator(".queue-item:not(.is-asked)")).to_have_count(number)
    return tab


async def test_a_message_that_is_edited_is_not_sent_meanwhile_and_then_as_it_was_saved(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    ann = await waiting(await browse(studio, "ann"), directive(id=key, n=3, hold=2), "first words")
    second = await browse(studio, "ann")
    await second.page.goto(ann.page.url)
    await items(ann).get_by_role("button", name="Edit").click()
    await expect(items(second)).to_contain_text("Edited elsewhere")
    provider.release(key)
    await expect(ann.stop_button).to_be_hidden()
    await expect(said(ann)).to_have_count(1)
    await items(ann).get_by_role("textbox").fill("better words")
    await items(ann).get_by_role("textbox").press("Enter")
    await expect(said(ann).last).to_have_text("better words")
    await expect(ann.page.locator("studio-queue")).to_be_hidden()


async def test_esc_gives_an_edited_message_back_as_it_was_and_stops_nothing(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await waiting(await browse(studio, "ann"), directive(id=key, n=2000, rate=60), "first words")
    await items(ann).get_by_role("button", name="Edit").click()
    await ann.page.keyboard.type(" and more")
    await ann.page.keyboard.press("Escape")
    await expect(texts(ann)).to_have_text(["first words"])
    await expect(items(ann).get_by_role("button", name="Edit")).to_be_focused()
    assert [frame["editing"] for frame in ann.sent if frame["type"] == HOLD] == [True, False]
    assert STOP not in ann.sent_types()
    await expect(ann.stop_button).to_be_enabled()


async def test_a_message_left_while_it_is_edited_is_saved(studio: Studio, browse: Browse, key: str) -> None:
    ann = await waiting(await browse(studio, "ann"), directive(id=key, n=2000, rate=60), "first words")
    await items(ann).get_by_role("button", name="Edit").click()
    await items(ann).get_by_role("textbox").fill("better words")
    await ann.composer.click()
    await expect(texts(ann)).to_have_text(["better words"])
    await ann.reload()
    await expect(texts(ann)).to_have_text(["better words"])


async def test_what_is_typed_into_a_message_that_is_sent_elsewhere_is_kept_in_the_composer(
    studio: Studio, browse: Browse, key: str
) -> None:
    words = directive(id=f"{key}-2", n=2000, rate=60)
    ann = await waiting(await browse(studio, "ann"), directive(id=key, n=2000, rate=60), words)
    second = await browse(studio, "ann")
    await second.page.goto(ann.page.url)
    await items(ann).get_by_role("button", name="Edit").click()
    await items(ann).get_by_role("textbox").fill("changed my mind")
    await items(second).get_by_role("button", name="Send now").click()
    await expect(ann.composer).to_have_value("changed my mind")
    await expect(ann.composer).to_be_focused()
    await expect(ann.page.get_by_role("alert")).to_contain_text("That message had just been sent.")
    await expect(said(ann).last).to_have_text(words)


async def test_a_message_is_moved_by_key_and_by_pointer_in_every_tab_and_the_move_is_said(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await waiting(await browse(studio, "ann"), directive(id=key, n=2000, rate=60), "one", "two", "three")
    second = await browse(studio, "ann")
    await second.page.goto(ann.page.url)
    grips = ann.page.get_by_role("button", name="Move", exact=True)
    await grips.first.focus()
    await ann.page.keyboard.press("Alt+ArrowDown")
    await expect(texts(second)).to_have_text(["two", "one", "three"])
    await expect(grips.nth(1)).to_be_focused()
    await expect(ann.page.locator("studio-queue [role=status]")).to_have_text("Moved to position 2 of 3")
    await drag(ann, grips.nth(0), grips.nth(2))
    await expect(texts(second)).to_have_text(["one", "three", "two"])
    await expect(texts(ann)).to_have_text(["one", "three", "two"])


async def test_send_now_on_one_of_three_ends_the_answer_without_a_card_and_sends_that_one_once(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    words = directive(id=f"{key}-2", n=2000, rate=60)
    ann = await waiting(await browse(studio, "ann"), directive(id=key, n=2000, rate=60), "one", words, "three")
    await ann.page.evaluate("""() => {
        window.cards = 0;
        const look = () => (cards += document.querySelectorAll(".card").length);
        new MutationObserver(look).observe(document.querySelector("studio-thread"), { childList: true, subtree: true });
    }""")
    button = items(ann).nth(1).get_by_role("button", name="Send now")
    await expect(button).to_have_attribute("title", TIP)
    await button.dblclick()
    await expect(said(ann).last).to_have_text(words)
    await expect(texts(ann)).to_have_text(["one", "three"])
    await expect(ann.page.get_by_text("Partial: interrupted by your next message")).to_be_visible()
    await provider.wait_closed(key)
    assert ann.sent_types().count(SEND_NOW) == 1
    assert len(provider.of(f"{key}-2")) == 1
    assert await ann.page.evaluate("cards") == 0


async def test_after_a_stop_the_queue_is_counted_and_kept_until_it_is_sent(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await waiting(await browse(studio, "ann"), directive(id=key, n=2000, rate=60), "one", "two")
    title = ann.page.locator(".queue-title")
    await expect(title).to_have_text("2 messages wait · sent in turn when the answer is complete")
    await ann.stop_button.click()
    await expect(title).to_have_text("2 messages wait · kept: nothing will be sent until you say so")
    await expect(items(ann).first.locator("time")).to_contain_text(re.compile("sec|min"))
    await items(ann).nth(1).get_by_role("button", name="Send now").click()
    await expect(ann.page.locator("studio-queue")).to_be_hidden()
    await expect(said(ann)).to_have_text([directive(id=key, n=2000, rate=60), "two", "one"])


async def test_in_a_window_magnified_twice_everything_that_stops_and_sends_is_in_sight(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann", viewport={"width": 640, "height": 430})
    await waiting(ann, directive(id=key, n=2000, rate=60), "one", "two", "three")
    await ann.composer.fill("line\n" * 30)
    for name in ("Stop session", "Queue"):
        await expect(ann.page.get_by_role("button", name=name, exact=True)).to_be_in_viewport(ratio=1)
    await expect(ann.page.locator("studio-progress")).to_be_in_viewport(ratio=1)
    assert not await ann.is_wider_than_its_window()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_on_a_phone_the_queue_and_its_editor_are_whole_reachable_and_without_fault(
    studio: Studio, browse: Browse, key: str, scheme: str
) -> None:
    ann = await browse(studio, "ann", viewport={"width": 360, "height": 740}, color_scheme=scheme)
    await waiting(ann, directive(id=key, n=2000, rate=60), "long " * 60, "unbroken" * 40)
    for button in await ann.page.locator(".queue-item button").all():
        await expect(button).to_be_in_viewport(ratio=0.9)
    assert not await ann.page.evaluate(SMALL_TARGETS)
    assert not await ann.accessibility_faults()
    await items(ann).first.get_by_role("button", name="Edit").click()
    await expect(items(ann).get_by_role("button", name="Save")).to_be_in_viewport()
    assert not await ann.is_wider_than_its_window()
    assert not await ann.page.evaluate(SMALL_TARGETS)
    assert not await ann.accessibility_faults()
