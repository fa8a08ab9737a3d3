"""What a card offers and tells when an answer has ended, and what became of the answers before."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Browse
from tests.processes.conftest import StudioMaker
from tests.processes.harness import Studio
from tests.provider_script import directive

pytestmark = pytest.mark.browser


async def test_a_regenerated_answer_lies_folded_above_the_new_one_and_the_focus_is_in_the_composer(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(5)
    await ann.stop_button.click()
    await ann.card("Session stopped").get_by_role("button", name="Regenerate").click()
    fold = ann.page.locator(".is-replaced")
    await expect(fold.locator("summary")).to_have_text("Replaced answer")
    await expect(fold.locator(".card")).to_be_hidden()
    await expect(ann.composer).to_be_focused()
    await ann.grows_past(5)
    await fold.locator("summary").click()
    await expect(fold.locator(".card")).to_be_visible()
    await expect(fold.locator("[data-slot=advice]")).to_be_hidden()
    await expect(fold.get_by_role("button", name="Regenerate")).to_be_hidden()


async def test_a_continued_answer_says_so_and_gives_no_advice_any_more(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(5)
    await ann.stop_button.click()
    card = ann.card("Session stopped")
    await card.get_by_role("button", name="Continue").click()
    await expect(ann.page.get_by_text("Continued below").first).to_be_visible()
    await expect(card.locator("[data-slot=advice]")).to_be_hidden()
    await expect(ann.composer).to_be_focused()


async def test_an_answer_without_a_beginning_can_be_asked_for_anew_but_not_continued(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, status=401))
    card = ann.card("The model could not finish")
    await expect(card.get_by_role("button", name="Regenerate")).to_be_visible()
    await expect(card.get_by_role("button", name="Continue")).to_be_hidden()


async def test_a_finished_answer_tells_quietly_which_model_wrote_it(studio: Studio, browse: Browse, key: str) -> None:
    ann = await browse(studio, "ann")
    await ann.send(directive(id=key, n=3))
    model = await ann.page.locator("studio-composer [data-slot=model] option:checked").inner_text()
    await expect(ann.page.locator("studio-message [data-slot=told]")).to_contain_text(model)


async def test_the_reason_of_a_panic_is_told_to_those_it_stopped_as_plain_text(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann, op = await browse(studio, "ann"), await browse(studio, "op")
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(5)
    await op.panic_button.click()
    await op.page.get_by_role("textbox", name="Reason").fill("<b>Maintenance</b>")
    await op.page.get_by_role("button", name="Stop everything").click()
    await expect(ann.card("Stopped by Panic")).to_contain_text("Reason: <b>Maintenance</b>")


async def test_a_transcript_that_cannot_be_written_is_told_above_the_thread_to_each_in_their_terms_until_closed(
    make_studio: StudioMaker, browse: Browse, key: str, tmp_path: Path
) -> None:
    (tmp_path / "a file").touch()
    studio = make_studio(STUDIO_TRANSCRIPT_DIR=str(tmp_path / "a file"))
    ann, op = await browse(studio, "ann"), await browse(studio, "op")
    for person, words in ((ann, "an operator can mend it"), (op, "STUDIO_TRANSCRIPT_DIR")):
        warnings = person.page.locator("studio-warnings")
        await person.send(directive(id=key, n=3))
        await expect(warnings).to_contain_text(words)
        await warnings.get_by_role("button", name="Close").click()
        await expect(warnings).to_have_text("")
