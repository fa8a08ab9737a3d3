"""The Runs page in Chromium: every run is seen live, and stopped by mouse and keyboard with an honest answer."""

import pytest
from playwright.async_api import WebSocketRoute, expect

from tests.browser.conftest import Browse
from tests.browser.runs import RunsPage
from tests.client import StudioClient
from tests.processes.ends import assert_closed_by_us
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.browser

STOP = "studio_chat_stop_session"
PANIC = "studio_chat_panic"


async def hang(client: StudioClient, provider: Provider, key: str) -> None:
    """A run that has said something and says no more."""
    await client.send(key, directive(id=key, hang=3, n=12))
    await provider.wait_deltas(key, 3)


async def test_an_operator_watches_a_run_of_somebody_else_and_stops_it(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    op = await RunsPage.open(await browse(studio, "op"), text=key)
    await expect(op.rows).to_have_count(0)
    async with await studio.connect("ann") as ann:
        await hang(ann, provider, key)
        row = op.row(key)
        await expect(row).to_contain_text("running")
        await expect(row).to_contain_text("ann")
        seconds = row.locator("[data-slot=time]")
        await expect(seconds).not_to_have_text(await seconds.inner_text())  # they count by themselves
        await expect(row.get_by_role("link")).to_be_hidden()
        await row.get_by_role("button", name="Stop the run of ann").click()
        await expect(op.dialog).to_contain_text("Stop 1 run?")
        await expect(op.dialog).to_contain_text("Of ann.")
        await op.confirm("Stop 1 run")
        await expect(op.told).to_have_text("1 stopped and confirmed.")
        await expect(row.locator("[data-slot=state]")).to_have_text("stopped")
        await expect(row).to_contain_text("by op · provider closed after")
        assert_closed_by_us(await provider.wait_closed(key))


async def test_by_keyboard_alone_rows_are_chosen_and_stopped_and_esc_stops_nothing(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    op = await RunsPage.open(await browse(studio, "op"), text=key)
    press = op.page.keyboard.press
    async with await studio.connect("ann") as ann, await studio.connect("bob") as bob:
        for client, name in ((ann, f"{key}-1"), (bob, f"{key}-2"), (ann, f"{key}-3")):
            await hang(client, provider, name)
        await expect(op.rows).to_have_count(3)
        await op.page.get_by_role("row", name="Choose the run of").first.focus()
        await press("End")
        await press("x")
        await press("Shift+ArrowUp")
        await expect(op.page.get_by_text("2 chosen")).to_be_visible()
        await press("s")
        await expect(op.dialog).to_contain_text("Of bob, ann.")
        await press("Escape")
        await expect(op.dialog).to_be_hidden()
        assert op.sent(STOP) == []
        await press("s")
        await press("Enter")
        await expect(op.told).to_have_text("2 stopped and confirmed.")
        await expect(op.row(f"{key}-1")).to_contain_text("stopped")
        await expect(op.row(f"{key}-3").locator("[data-slot=state]")).to_have_text("running")
        assert sorted(frame["sessionKey"] for frame in op.sent(STOP)) == [f"{key}-1", f"{key}-2"]
        await expect(op.row(f"{key}-2")).to_be_focused()
        await ann.stop(f"{key}-3")


async def test_a_panic_says_what_it_will_hit_hits_its_scope_alone_and_its_hold_is_released_where_it_was_made(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    op = await browse(studio, "op")
    async with await studio.connect("ann") as ann, await studio.connect("bob") as bob:
        await hang(ann, provider, f"{key}-ann")
        await hang(bob, provider, f"{key}-bob")
        await bob.send(f"{key}-bob", "and then this")
        await op.panic_button.click()
        dialog = op.page.get_by_role("dialog")
        await dialog.get_by_label("Only this person’s").fill("bob")
        await expect(dialog.locator(".panic-hit")).to_have_text("It stops 1 run of 1 person.")
        await dialog.get_by_label("Also hold new runs").check()
        await expect(dialog.locator(".panic-hit")).to_contain_text("New runs are held, and 1 queued message.")
        await dialog.get_by_label("Reason").fill("too loud")
        await dialog.get_by_role("button", name="Stop these").click()
        outcome = op.page.locator("studio-panic-outcome")
        await expect(outcome).to_contain_text("Panic (bob): 1 run was stopped")
        await expect(outcome).to_contain_text("1 queued message too")
        assert_closed_by_us(await provider.wait_closed(f"{key}-bob"))
        assert [record.closed for record in provider.of(f"{key}-ann")] == [None]
        await op.panic_button.click()
        held = dialog.locator(".panic-hold")
        await expect(held).to_contain_text("bob")
        await expect(held).to_contain_text("too loud")
        await held.get_by_role("button", name="Release").click()
        await expect(held).to_have_count(0)
        assert (await bob.send(f"{key}-again", directive(n=1)))["ok"]
        await ann.stop(f"{key}-ann")


async def test_panic_can_be_pressed_again_while_one_is_under_way(studio: Studio, browse: Browse) -> None:
    op = await browse(studio, "op")
    pressed = await op.page.evaluate("""() => {
        const find = (name) => document.querySelector(`studio-panic [data-slot=${name}]`);
        for (const _ of [1, 2]) {
            find("open").click();
            find("form").requestSubmit();
        }
        return find("open").disabled;
    }""")
    assert not pressed
    await expect(op.page.locator("studio-panic-outcome")).to_contain_text("Panic")
    assert op.sent_types().count(PANIC) == 2


async def test_filters_come_from_the_address_and_what_they_hide_is_not_stopped(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    async with await studio.connect("ann") as ann, await studio.connect("bob") as bob:
        await hang(ann, provider, f"{key}-ann")
        await hang(bob, provider, f"{key}-bob")
        op = await RunsPage.open(await browse(studio, "op"), text=key)
        await op.page.get_by_label("Choose all that are shown").check()
        await expect(op.page.get_by_role("button", name="Stop 2 runs")).to_be_visible()
        await op.page.locator("studio-runs-filters [data-slot=user]").select_option("bob")
        await op.page.get_by_role("button", name="Stop 1 run").click()
        await op.confirm("Stop 1 run")
        await expect(op.told).to_have_text("1 stopped and confirmed.")
        assert [frame["sessionKey"] for frame in op.sent(STOP)] == [f"{key}-bob"]
        await ann.stop(f"{key}-ann")


async def test_the_runs_page_comes_back_by_itself_with_what_runs_then(
    studio: Studio, provider: Provider, browse: Browse, key: str
) -> None:
    tab = await browse(studio, "op")
    sockets: list[WebSocketRoute] = []

    def join(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        sockets.append(socket)

    await tab.page.route_web_socket("**/ws/studio/", join)
    op = await RunsPage.open(tab, text=key)
    async with await studio.connect("ann") as ann:
        await sockets[0].close(code=1012)
        await hang(ann, provider, key)
        await expect(op.row(key)).to_contain_text("running")
        assert len(sockets) == 2
        await ann.stop(key)
        await expect(op.row(key)).to_contain_text("stopped")
