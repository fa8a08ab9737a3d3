"""A connection that breaks, dies, or loses frames: what was asked is shown as waiting, and done once."""

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Browse
from tests.browser.wire import Wire
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.browser

SEND = "studio_chat_send"
STOP = "studio_chat_stop_session"
EDIT = "studio_chat_queue_edit"


def user_rows(studio: Studio, text: str) -> int:
    return len(studio.rows("SELECT id FROM chat_chatmessage WHERE role = 'user' AND text = ?", text))


async def test_a_message_sent_in_a_gap_waits_over_a_reload_and_is_sent_once(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    wire = await Wire.into(ann)
    text = directive(id=key, n=3)
    await wire.cut()
    await expect(ann.connection("reconnecting")).to_be_visible()
    await ann.send(text)
    await expect(ann.page.locator(".is-sending")).to_contain_text("Waits for the connection")
    await ann.page.reload()
    await expect(ann.page.locator(".is-sending")).to_contain_text("Waits for the connection")
    assert user_rows(studio, text) == 0
    wire.mend()
    await expect(ann.answer).to_contain_text("w2")
    await expect(ann.page.locator(".is-user")).to_have_count(1)
    await ann.reload()
    await expect(ann.page.locator(".is-user")).to_have_count(1)
    assert len(wire.of(SEND)) == user_rows(studio, text) == 1


async def test_a_message_whose_reply_was_lost_is_sent_again_under_its_ids_and_is_there_once(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    wire = await Wire.into(ann)
    text = directive(id=key, n=3)
    wire.hold = lambda frame: frame["type"] == f"{SEND}_ok"
    await ann.send(text)
    await eventually(lambda: user_rows(studio, text))
    await wire.cut()
    wire.hold = lambda frame: False
    wire.mend()
    await expect(ann.answer).to_contain_text("w2")
    await expect(ann.page.locator(".is-sending")).to_have_count(0)
    await expect(ann.page.locator(".is-user")).to_have_count(1)
    first, again = wire.of(SEND)
    assert first == again
    assert user_rows(studio, text) == 1


async def test_a_stop_that_is_lost_twice_is_sent_again_until_it_is_answered_and_is_one_order(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    wire = await Wire.into(ann)
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(3)
    wire.lose = lambda frame: frame["type"] == STOP and len(wire.of(STOP)) <= 2
    await ann.stop_button.click()
    await expect(ann.stop_button).to_have_text("Waits for the connection")
    await expect(ann.card("Session stopped")).to_be_visible()
    await provider.wait_closed(key)
    assert len({frame["requestId"] for frame in wire.of(STOP)}) == 1
    assert len(wire.of(STOP)) == 3
    session = ann.page.url.rstrip("/").rsplit("/", 1)[-1]
    assert len(studio.rows("SELECT id FROM kernel_auditentry WHERE target LIKE ?", f"%{session}%")) == 1


async def test_stopping_is_said_as_long_as_the_end_is_not_known_and_stopped_only_then(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    wire = await Wire.into(ann)
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(3)
    wire.hold = lambda frame: len(wire.of(STOP)) > 0
    seen = await ann.stop_button.evaluate("button => (button.click(), [button.disabled, button.innerText.trim()])")
    assert seen == [True, "Stopping…"]
    await expect(ann.page.locator("studio-progress")).to_contain_text("Stopping…")
    session = ann.page.url.rstrip("/").rsplit("/", 1)[-1]
    await eventually(lambda: [row for row in studio.executions_of(session) if row["status"] == "aborted"])
    await expect(ann.stop_button).to_have_text("Stopping…")
    await expect(ann.page.locator(".card")).to_have_count(0)
    await expect(ann.page.locator("studio-announcer")).to_be_empty()
    wire.release()
    await expect(ann.card("Session stopped")).to_be_visible()
    await expect(ann.page.locator("studio-announcer")).to_have_text("Session stopped")


async def test_a_queued_message_edited_in_a_gap_is_changed_when_the_connection_is_back(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    wire = await Wire.into(ann)
    await ann.send(directive(id=key, n=2000, rate=60))
    await ann.grows_past(3)
    await ann.send("first words")
    item = ann.page.locator(".queue-item")
    await item.get_by_role("button", name="Edit").click()
    await wire.cut()
    await item.get_by_role("textbox").fill("better words")
    await item.get_by_role("textbox").press("Enter")
    await expect(item).to_contain_text("better words")
    await expect(item).to_contain_text("Waits for the connection")
    wire.mend()
    await expect(item).not_to_contain_text("Waits for the connection")
    await eventually(lambda: studio.rows("SELECT id FROM chat_queuedmessage WHERE text = 'better words'"))
    await ann.stop_button.click()
    await expect(ann.card("Session stopped")).to_be_visible()


async def test_after_a_gap_the_text_goes_on_from_the_same_character(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    wire = await Wire.into(ann)
    await ann.send(directive(id=key, n=90, rate=60))
    await ann.grows_past(10)
    await wire.cut()
    await expect(ann.page.locator("studio-progress")).to_contain_text("No connection; as last heard")
    wire.mend()
    await expect(ann.answer).to_contain_text("w89")
    record = await provider.wait_closed(key)
    assert await ann.page.locator("studio-message.is-assistant .prose").inner_text() == record.text.strip()


async def test_a_gap_is_seen_with_the_seconds_to_the_next_attempt_and_a_missing_network_as_such(
    studio: Studio, browse: Browse
) -> None:
    ann = await browse(studio, "ann")
    wire = await Wire.into(ann)
    await wire.cut()
    state = ann.page.locator("studio-connection")
    await expect(state).to_contain_text("Reconnecting…")
    await expect(state.locator("[data-slot=retry]")).to_contain_text("sec")
    await ann.page.context.set_offline(True)
    await expect(state).to_contain_text("Offline")
    wire.mend()
    await ann.page.context.set_offline(False)
    await expect(ann.connection("live")).to_be_visible()


async def test_a_socket_that_died_in_silence_is_noticed_when_the_page_wakes(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    await ann.page.clock.install()
    wire = await Wire.into(ann)
    first = wire.connections
    wire.hold = lambda frame: wire.connections == first
    await ann.page.evaluate("dispatchEvent(new Event('online'))")
    await eventually(lambda: wire.of("studio_chat_ping"))
    await ann.page.clock.fast_forward("00:06")
    await eventually(lambda: wire.connections > first)
    await expect(ann.connection("live")).to_be_visible()
    await ann.send(directive(id=key, n=3))
    await expect(ann.answer).to_contain_text("w2")


async def test_whoever_was_logged_out_logs_in_again_and_finds_the_draft_and_the_message_on_its_way(
    studio: Studio, browse: Browse, key: str
) -> None:
    ann = await browse(studio, "ann")
    wire = await Wire.into(ann)
    await ann.send(directive(id=f"{key}-1", n=3))
    await expect(ann.answer).to_contain_text("w2")
    await wire.cut()
    await ann.send(directive(id=f"{key}-2", n=3))
    await ann.composer.fill("half a thought")
    await ann.page.context.clear_cookies(name="sessionid")
    wire.mend()
    await ann.page.locator("#id_username").fill("ann")
    await ann.page.locator("#id_password").fill("ann-password")
    await ann.page.locator("#id_password").press("Enter")
    await expect(ann.composer).to_have_value("half a thought")
    await expect(ann.page.locator(".is-user")).to_have_count(2)
    await expect(ann.answer).to_contain_text("w2")
    assert len({frame["clientMessageId"] for frame in wire.of(SEND)}) == 2
