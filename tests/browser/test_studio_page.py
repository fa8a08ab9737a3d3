"""The page in Chromium: a conversation is watched, really stopped, and found again as it was."""

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Browse
from tests.processes.conftest import StudioMaker
from tests.processes.ends import assert_closed_by_us
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.browser

STOP = "studio_chat_stop_session"
HOSTILE = """A [bad](javascript:alert(1)) link, a [good](https://example.org) one,
![picture](https://example.org/x.png) <img src=x onerror=alert(1)> <script>alert(1)</script> `code`

```python
print("closed")
```"""


async def test_a_person_watches_an_answer_grow_stops_it_and_finds_the_card_after_a_reload(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(5)
    await ann.grows_past(30)
    await expect(ann.page.locator("studio-progress")).to_contain_text("Answering")
    await ann.stop_button.click()
    card = ann.card("Session stopped")
    await expect(card).to_be_visible()
    record = await provider.wait_closed(key)
    assert_closed_by_us(record)
    await expect(card).to_contain_text("you (ann)")
    await expect(card).to_contain_text("Connection to the model closed after")
    kept, told = await ann.answer.inner_text(), await card.inner_text()
    assert record.text.startswith(kept.strip())
    await ann.reload()
    await expect(card).to_be_visible()
    assert (await ann.answer.inner_text(), await card.inner_text()) == (kept, told)


async def test_the_first_click_disables_stop_and_a_second_sends_nothing(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(3)
    seen = await ann.stop_button.evaluate(
        "button => { button.click(); button.click(); return [button.disabled, button.innerText.trim()]; }"
    )
    assert seen == [True, "Stopping…"]
    await expect(ann.card("Session stopped")).to_be_visible()
    await expect(ann.stop_button).to_be_hidden()
    assert ann.sent_types().count(STOP) == 1


async def test_the_end_is_announced_once_and_the_text_never(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann")
    await ann.page.evaluate("""() => {
        window.said = [];
        const region = document.querySelector("studio-announcer");
        const listener = new MutationObserver(() => said.push(region.textContent));
        listener.observe(region, { childList: true, characterData: true });
    }""")
    await ann.send(directive(id=key, n=20, rate=60))
    await ann.grows_past(19)
    await expect(ann.page.locator("studio-announcer")).to_have_text("The answer is complete.")
    assert await ann.page.evaluate("said") == ["The answer is complete."]


async def test_panic_is_asked_once_more_and_leaves_a_red_card(studio: Studio, browse: Browse, key: str) -> None:
    ann, op = await browse(studio, "ann"), await browse(studio, "op")
    await expect(ann.panic_button).to_be_hidden()
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(10)
    await op.panic_button.click()
    await op.page.get_by_role("button", name="Stop everything").click()
    card = ann.card("Stopped by Panic")
    await expect(card).to_have_attribute("data-tone", "panic")
    await expect(card).to_contain_text("op")
    await expect(op.page.locator("studio-panic-outcome")).to_contain_text("nothing is running now")


async def test_everything_is_done_by_keyboard_and_the_focus_returns_to_the_message(
    studio: Studio, browse: Browse, key: str
) -> None:
    op = await browse(studio, "op")
    keyboard = op.page.keyboard
    await expect(op.composer).to_be_focused()
    await keyboard.type("first line")
    await keyboard.press("Shift+Enter")
    await keyboard.type(directive(id=key, n=2000, rate=60))
    await keyboard.press("Enter")
    await op.grows_past(5)
    await op.panic_button.focus()
    await keyboard.press("Enter")
    await expect(op.page.get_by_role("dialog")).to_be_visible()
    await keyboard.press("Escape")
    await expect(op.page.get_by_role("dialog")).to_be_hidden()
    assert STOP not in op.sent_types()
    await keyboard.press("Escape")
    await expect(op.card("Session stopped")).to_be_visible()
    await expect(op.composer).to_be_focused()
    assert op.sent_types().count(STOP) == 1


async def test_a_message_written_meanwhile_waits_in_the_queue_and_can_be_removed(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(3)
    await ann.send("the next question")
    queue = ann.page.locator("studio-queue")
    await expect(queue.locator(".queue-text")).to_have_text(["the next question"])
    await queue.get_by_role("button", name="Remove from the queue").click()
    await expect(queue).to_be_hidden()
    await ann.page.keyboard.press("Escape")
    await expect(ann.card("Session stopped")).to_be_visible()


async def test_a_tool_call_is_a_folded_card_with_its_input_and_output(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, call=[("add", {"a": 2, "b": 3})], n=3))
    tool = ann.page.locator(".is-tool")
    await expect(tool.locator("summary")).to_contain_text("done")
    await expect(tool.get_by_text("Output")).to_be_hidden()
    await tool.locator("summary").click()
    await expect(tool.locator("[data-slot=input]")).to_contain_text('"a": 2')
    await expect(tool.locator("[data-slot=output]")).to_have_text("5")


async def test_a_refused_key_is_a_card_that_says_what_to_do_and_nothing_is_lost(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, status=401))
    card = ann.card("The model could not finish")
    await expect(card).to_contain_text("key")
    await expect(card).to_contain_text("Nothing had arrived yet")
    await expect(ann.page.locator("studio-message.is-user")).to_contain_text(key)


async def test_a_second_tab_watches_the_same_answer_and_sees_who_stopped_it(
    studio: Studio, browse: Browse, key: str
) -> None:
    first = await browse(studio, "ann")
    await first.send(directive(id=key, n=2000, rate=60))
    await first.grows_past(10)
    second = await browse(studio, "ann")
    await second.page.goto(first.page.url)
    await second.grows_past(20)
    await first.stop_button.click()
    await expect(second.card("Session stopped")).to_contain_text("you (ann)")
    await expect(second.stop_button).to_be_hidden()
    await expect(first.card("Session stopped")).to_be_visible()
    assert await second.answer.inner_text() == await first.answer.inner_text()


async def test_a_phone_shows_everything_without_scrolling_sideways(studio: Studio, browse: Browse, key: str) -> None:
    op = await browse(studio, "op", viewport={"width": 360, "height": 740})
    await op.send(directive(id=key, n=2000, rate=60) + " " + "long" * 100)
    await op.grows_past(5)
    assert not await op.is_wider_than_its_window()
    await op.stop_button.click()
    await expect(op.card("Session stopped")).to_be_visible()
    assert not await op.is_wider_than_its_window()
    await op.page.get_by_role("button", name="Sessions").click()
    await expect(op.page.get_by_role("link", name="New session")).to_be_in_viewport()
    await op.page.keyboard.press("Escape")
    await expect(op.page.get_by_role("link", name="New session")).not_to_be_in_viewport()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_follows_the_colour_scheme_and_axe_finds_nothing_wrong(
    studio: Studio, browse: Browse, key: str, scheme: str
) -> None:
    op = await browse(studio, "op", color_scheme=scheme)
    await op.send(directive(id=key, n=2000, rate=60, reason=5))
    await op.grows_past(5)
    assert not await op.accessibility_faults()
    await op.stop_button.click()
    await expect(op.card("Session stopped")).to_be_visible()
    assert not await op.accessibility_faults()
    assert (await op.luminance("html") > 0.5) == (scheme == "light")
    await op.panic_button.click()
    assert not await op.accessibility_faults()


async def test_an_answer_cannot_run_scripts_load_pictures_or_open_over_the_page(studio: Studio, browse: Browse) -> None:
    ann = await browse(studio, "ann")
    html = await ann.page.evaluate(
        """async text => {
            const { renderMarkdown } = await import("#studio/markdown");
            const place = document.createElement("div");
            renderMarkdown(place, text, { open: false });
            return place.innerHTML;
        }""",
        HOSTILE,
    )
    assert "<img" not in html
    assert "<script" not in html
    assert 'href="javascript' not in html
    assert html.count('target="_blank" rel="noopener noreferrer"') == html.count('href="http') == 2
    assert "&lt;script&gt;" in html


async def test_what_was_typed_survives_a_reload(studio: Studio, browse: Browse) -> None:
    ann = await browse(studio, "ann")
    await ann.composer.fill("half a thought")
    await ann.reload()
    await expect(ann.composer).to_have_value("half a thought")


async def test_the_next_person_in_the_same_tab_finds_nothing_of_the_one_before(studio: Studio, browse: Browse) -> None:
    tab = await browse(studio, "ann")
    await tab.composer.fill("a secret of ann's")
    await tab.page.locator(".menu summary").click()
    await tab.page.get_by_role("button", name="Log out").click()
    await tab.log_in("op", "op-password")
    await expect(tab.composer).to_have_value("")
    kept = await tab.page.evaluate("() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }])")
    assert "ann" not in kept


@pytest.mark.parametrize(
    ("locale", "words"), [("pt-BR", "Parar sessão"), ("ru-RU", "Остановить сессию")], ids=["pt-BR", "ru"]
)
async def test_the_page_speaks_the_readers_language(
    studio: Studio, browse: Browse, key: str, locale: str, words: str
) -> None:
    ann = await browse(studio, "ann", locale=locale)
    await ann.page.locator("#composer-text").fill(directive(id=key, n=2000, rate=60))
    await ann.page.locator("#composer-text").press("Enter")
    await ann.grows_past(3)
    await expect(ann.stop_button).to_have_text(words)
    await ann.stop_button.click()
    await expect(ann.stop_button).to_be_hidden()


async def test_after_a_restart_of_the_server_the_page_comes_back_by_itself_and_shows_the_truth(
    make_studio: StudioMaker, browse: Browse, key: str
) -> None:
    studio = make_studio()
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(5)
    studio.terminate()
    await expect(ann.connection("reconnecting")).to_be_visible()
    await ann.composer.fill("written while away")
    await ann.composer.press("Enter")
    studio.restart()
    await expect(ann.connection("live")).to_be_visible()
    await expect(ann.card("Stopped: the server was shut down or restarted")).to_be_visible()
    await expect(ann.page.locator("studio-message.is-user").last).to_contain_text("written while away")
    await expect(ann.page.locator("studio-message.is-assistant").last).to_have_attribute("data-status", "completed")
