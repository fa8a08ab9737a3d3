"""The thread: what is finished stays as it is, the reader's place is the reader's, and what was said is said anew."""

import pytest
from playwright.async_api import Locator, expect

from tests.browser.conftest import Browse
from tests.browser.driver import StudioPage
from tests.browser.filled import MESSAGES, fill
from tests.processes.conftest import StudioMaker
from tests.processes.ends import assert_closed_by_us
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.browser

STOP = "studio_chat_stop_session"

GROWING = """
# Title

A paragraph with **strong** words and [a link](https://example.org).

- one
    1. nested
    2. list
- two

| a | b |
|---|---|
| 1 | 2 |

```python
print("closed")
```

$$
x_1 * y_2 * z
$$

The end, with $a_b$ in it.
"""

# Keeps what is told to a screen reader, however briefly it stands there.
HEAR = """() => {
    window.heard = [];
    const announcer = document.querySelector("studio-announcer");
    new MutationObserver(() => heard.push(announcer.textContent)).observe(announcer, { childList: true });
}"""

# Draws a text that grows by a few characters at a time, and tells which of its finished blocks were touched meanwhile.
DRAW = """async text => {
    const { renderMarkdown } = await import("#studio/markdown");
    const place = document.body.appendChild(document.createElement("div"));
    const blocks = new Map();
    let touched = 0;
    const watch = new MutationObserver(changes => (touched += changes.length));
    for (let end = 0; end < text.length; end += 3) {
        renderMarkdown(place, text.slice(0, end), { open: true });
        [...place.children].slice(0, -2).filter(block => !blocks.has(block)).forEach(block => {
            blocks.set(block, [...place.children].indexOf(block));
            watch.observe(block, { childList: true, characterData: true, subtree: true });
        });
    }
    watch.takeRecords().forEach(({ addedNodes }) => (touched += [...addedNodes].some(node => !node.className) ? 1 : 0));
    const kept = [...blocks].every(([block, index]) => place.children[index] === block);
    watch.disconnect();
    renderMarkdown(place, text, { open: false });
    const whole = document.createElement("div");
    renderMarkdown(whole, text, { open: false });
    const same = place.textContent === whole.textContent;
    place.remove();
    return { finished: blocks.size, kept, touched, same };
}"""


@pytest.fixture(scope="module")
def long_session(shared_studio: Studio) -> str:
    """A session of rhea's that is longer than a page shows."""
    return fill(shared_studio, "rhea")


def user_message(person: StudioPage) -> Locator:
    return person.page.locator("studio-message.is-user").last


async def ended(person: StudioPage, status: str = "completed") -> None:
    latest = person.page.locator("studio-message.is-assistant").last
    await expect(latest).to_have_attribute("data-status", status)


async def test_finished_blocks_are_the_same_and_untouched_while_the_text_grows(studio: Studio, browse: Browse) -> None:
    ann = await browse(studio, "ann")
    # Without a language nothing is highlighted later, which is the one thing that may still touch a finished block.
    seen = await ann.page.evaluate(DRAW, GROWING.replace("python", ""))
    assert seen["finished"] >= 5
    assert (seen["kept"], seen["touched"], seen["same"]) == (True, 0, True)


async def test_code_tables_and_maths_are_shown_as_what_they_are(studio: Studio, browse: Browse) -> None:
    ann = await browse(studio, "ann")
    shown = await ann.page.evaluate(
        """async text => {
            const { renderMarkdown } = await import("#studio/markdown");
            const place = document.createElement("div");
            renderMarkdown(place, text, { open: false });
            const all = selector => [...place.querySelectorAll(selector)].map(({ textContent }) => textContent);
            const link = place.querySelector("a");
            return {
                code: all(".code-block code"), cells: all("td"), nested: all("li li"), inline: all("p > code"),
                link: [link.rel, link.referrerPolicy, link.target], copy: all("[data-copy=code]").length,
                picture: all("a").at(-1), images: place.querySelectorAll("img").length,
            };
        }""",
        GROWING + "\n![a cat](https://example.org/cat.png)",
    )
    assert shown["code"] == ['print("closed")\n', "x_1 * y_2 * z\n"]
    assert (shown["cells"], shown["nested"], shown["inline"]) == (["1", "2"], ["nested", "list"], ["$a_b$"])
    assert shown["link"] == ["noopener noreferrer", "no-referrer", "_blank"]
    assert (shown["picture"], shown["images"], shown["copy"]) == ("Picture: a cat", 0, 2)


async def test_an_answer_tells_where_its_time_went_also_after_a_reload(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, call=[("add", {"a": 2, "b": 3})], n=3, reason=3, rate=50))
    await ended(ann)
    steps = ann.page.get_by_role("list", name="Steps").get_by_role("listitem")
    await expect(steps).to_have_count(3)
    for number, words in enumerate(("step 1", "add", "step 2")):
        await expect(steps.nth(number)).to_contain_text(words)
    await expect(ann.page.locator(".is-reasoning summary").first).to_contain_text("Thought for")
    told = await ann.page.locator("studio-message.is-assistant").inner_text()
    await ann.reload()
    await ended(ann)
    assert await ann.page.locator("studio-message.is-assistant").inner_text() == told


async def test_the_last_message_is_edited_in_its_place_and_sent_anew_by_keyboard(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=3))
    await ended(ann)
    edit = user_message(ann).get_by_role("button", name="Edit")
    await edit.press("Enter")
    editor = ann.page.get_by_role("textbox", name="Your message")
    await expect(editor).to_be_focused()
    assert not await ann.accessibility_faults()
    await ann.page.keyboard.type(" not this")
    await ann.page.keyboard.press("Escape")
    await expect(edit).to_be_focused()
    await edit.press("Enter")
    await ann.page.keyboard.type(f"and {directive(n=5)}")
    await ann.page.keyboard.press("Enter")
    await expect(ann.answer).to_contain_text("w4")
    await expect(ann.composer).to_be_focused()
    await expect(user_message(ann).locator(".bubble")).to_have_text(f"{directive(id=key, n=3)}and {directive(n=5)}")
    await expect(ann.page.locator(".is-replaced > summary")).to_have_text(["Replaced message", "Replaced answer"])


async def test_what_cannot_be_sent_anew_stays_in_the_editor(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=3))
    await ended(ann)
    await user_message(ann).get_by_role("button", name="Edit").click()
    editor = ann.page.get_by_role("textbox", name="Your message")
    await editor.fill("x" * 70_000)
    await editor.press("Enter")
    await expect(ann.page.get_by_role("alert").filter(has_text="refused")).to_be_visible()
    await expect(editor).to_have_value("x" * 70_000)
    await expect(ann.page.get_by_role("button", name="Send again")).to_be_enabled()


async def test_a_whole_answer_can_be_asked_for_anew_while_nothing_runs(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=3, hold=2))
    regenerate = ann.page.get_by_role("button", name="Regenerate")
    await ann.grows_past(1)
    await expect(regenerate).to_be_hidden()
    await expect(ann.page.get_by_role("button", name="Edit")).to_be_hidden()
    provider.release(key)
    await ended(ann)
    await regenerate.click()
    await expect(ann.page.locator(".is-replaced > summary")).to_have_text("Replaced answer")
    await ended(ann)
    await expect(ann.composer).to_be_focused()
    assert len(provider.of(key)) == 2


async def test_a_card_leads_to_the_editor_of_the_message(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(3)
    await ann.stop_button.click()
    await ann.card("Session stopped").get_by_role("button", name="Edit the message").click()
    await expect(ann.page.get_by_role("textbox", name="Your message")).to_be_focused()


async def test_the_thread_never_moves_under_a_reader_who_has_scrolled_away_and_counts_what_is_new(
    studio: Studio, provider: Provider, browse: Browse, long_session: str, key: str
) -> None:
    rhea = await browse(studio, "rhea")
    await rhea.page.goto(f"{studio.base_url}/s/{long_session}/")
    thread = rhea.page.locator("studio-thread")
    await expect(rhea.page.get_by_text(f"message {MESSAGES - 1:03}").first).to_be_visible()
    await thread.evaluate("thread => (thread.scrollTop -= 900)")
    jump = rhea.page.get_by_role("button", name="Go to the end")
    await expect(jump).to_be_visible()
    top = await thread.evaluate("thread => thread.scrollTop")
    async with await studio.connect("rhea") as elsewhere:
        await elsewhere.send(long_session, directive(id=key, n=40, rate=100))
        await expect(jump).to_have_text("2")
        await ended(rhea)
    assert await thread.evaluate("thread => thread.scrollTop") == top
    await expect(rhea.page.get_by_role("button", name="Go to the end: 2 new messages")).to_be_visible()
    await jump.click()
    await expect(rhea.answer).to_be_in_viewport()
    await expect(jump).to_be_hidden()


async def test_older_messages_come_above_without_moving_what_is_read_and_are_let_go_at_the_end(
    studio: Studio, browse: Browse, long_session: str
) -> None:
    rhea = await browse(studio, "rhea")
    await rhea.page.goto(f"{studio.base_url}/s/{long_session}/")
    messages = rhea.page.locator("studio-message")
    await expect(messages).to_have_count(50)
    thread = rhea.page.locator("studio-thread")
    moved = await thread.evaluate("""thread => new Promise(resolve => {
        const first = thread.querySelector("studio-message");
        thread.scrollTop = 300;
        const before = first.getBoundingClientRect().top;
        new MutationObserver(() => {
            if (thread.querySelector("studio-message") === first) return;
            requestAnimationFrame(() => resolve(first.getBoundingClientRect().top - before));
        }).observe(thread.querySelector("[data-slot=messages]"), { childList: true });
    })""")
    assert abs(moved) < 2
    await expect(messages).to_have_count(100)
    await rhea.page.get_by_role("button", name="Show earlier messages").press("Enter")
    await expect(messages).to_have_count(150)
    await rhea.page.get_by_role("button", name="Go to the end").click()
    await expect(messages).to_have_count(50)
    await expect(messages.last).to_be_in_viewport()


@pytest.mark.parametrize("phase", [{"hdr": "inf"}, {"ttft": "inf"}], ids=["waiting for headers", "before the text"])
async def test_a_stop_while_the_model_loads_is_a_stop_and_never_an_error(
    studio: Studio, provider: Provider, browse: Browse, key: str, phase: dict[str, str]
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, **phase))
    await provider.wait_arrived(key)
    await ann.stop_button.click()
    card = ann.card("Session stopped")
    await expect(card).to_have_attribute("data-tone", "stop")
    await expect(card).to_contain_text("Nothing had arrived yet")
    assert_closed_by_us(await provider.wait_closed(key))
    await expect(ann.page.get_by_role("alert")).to_have_count(0)
    await expect(card.get_by_role("button", name="Continue")).to_be_hidden()
    assert len(provider.of(key)) == 1


async def test_stopped_is_said_only_when_it_is_true(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(3)
    studio.stop_process()  # whoever should end it cannot
    try:
        await ann.stop_button.click()
        await expect(ann.stop_button).to_have_text("Stopping…")
        await expect(ann.page.locator("studio-progress")).to_contain_text("Stopping")
        assert await ann.page.locator(".card").count() == 0
    finally:
        studio.continue_process()
    await expect(ann.card("Session stopped")).to_be_visible()
    await expect(ann.stop_button).to_be_hidden()


async def test_after_the_death_of_the_server_every_tab_says_that_the_answer_was_lost_and_is_free_to_go_on(
    make_studio: StudioMaker, browse: Browse, key: str
) -> None:
    studio = make_studio(STUDIO_LEASE_S="5")
    await studio.warm()
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(5)
    other = await browse(studio, "ann")
    await other.page.goto(ann.page.url)
    await other.grows_past(5)
    studio.kill()
    studio.restart()
    for tab in (ann, other):
        await expect(tab.card("Lost: the server process stopped working")).to_be_visible()
        await expect(tab.stop_button).to_be_hidden()
        await expect(tab.page.get_by_role("button", name="Continue")).to_be_visible()


async def test_at_twice_the_size_nothing_is_cut_off(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann", viewport={"width": 640, "height": 430}, device_scale_factor=2)
    await ann.send(f"{directive(id=key, n=2000, rate=60, call=[('add', {'a': 2, 'b': 3})])} {'long' * 60}")
    await ann.grows_past(5)
    await ann.stop_button.click()
    await expect(ann.card("Session stopped")).to_be_visible()
    assert not await ann.is_wider_than_its_window()
    await ann.page.get_by_role("button", name="Edit the message").click()
    await expect(ann.page.get_by_role("button", name="Send again")).to_be_in_viewport()
    assert not await ann.is_wider_than_its_window()


async def test_a_copy_takes_the_source_and_is_told_to_a_screen_reader(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann", permissions=["clipboard-read", "clipboard-write"])
    words = directive(id=key, n=3)
    await ann.send(words)
    await expect(ann.page.locator("studio-message.is-assistant")).to_have_attribute("data-status", "completed")
    await ann.page.evaluate(HEAR)
    await ann.page.locator("studio-message.is-user [data-copy=message]").click()
    await ann.page.wait_for_function("() => heard.includes('Copied')")
    assert await ann.page.evaluate("() => navigator.clipboard.readText()") == words
