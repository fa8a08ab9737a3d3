"""Every page in every state is clean for axe (WCAG 2.2 AA and its best practices), light on a phone and dark."""

import uuid

import pytest
from playwright.async_api import expect

from tests.browser.conftest import DESKTOP, Browse
from tests.browser.driver import StudioPage
from tests.browser.runs import RunsPage
from tests.processes.harness import Studio, manage
from tests.provider_script import directive

pytestmark = pytest.mark.browser

LOOKS = {
    "light, 360 px wide": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
    "dark": {"color_scheme": "dark", "viewport": DESKTOP},
}
# One answer for each way to end. Most of these ends cannot be had in a test without a server of its own.
MAKE_ENDS = """
from django.contrib.auth import get_user_model
from django.db.models.functions import Now
from chat.models import ChatMessage, ChatSession
from kernel.abort import AbortReason
from kernel.models import ExecutionRecord
session = ChatSession.objects.create(key={key!r}, user=get_user_model().objects.get(username="op"), title="Ends")
ends = [dict(status="completed"), dict(status="error", error="The provider said no.")]
ends += [dict(status="aborted", abort_reason=reason, requested_by="ann", why="a reason") for reason in AbortReason]
ends += [dict(status="aborted", abort_reason="timeout", timeout_kind=kind) for kind in ("first_token", "idle", "total")]
for end in ends:
    record = ExecutionRecord.objects.create(session_key=session.key, user=session.user, model="m", finished_at=Now(),
                                            requested_at=Now(), upstream_closed_ms=2, settled_ms=4, **end)
    ChatMessage.objects.create(session=session, role="user", text="a question")
    part = dict(kind="text", step=1, text="an answer")
    tool = dict(kind="tool", step=1, callId="1", name="add", state="aborted", input=dict(a=1), output=None, error="no")
    ChatMessage.objects.create(session=session, role="assistant", text="an answer", parts=[part, tool],
                               status=end["status"], execution=record, finished_at=Now())
"""


@pytest.fixture(scope="module")
def ends(shared_studio: Studio) -> str:
    """The key of op's session in which answers have ended in every way."""
    key = uuid.uuid4().hex
    manage(shared_studio.directory, "shell", "-c", MAKE_ENDS.format(key=key))
    return key


@pytest.fixture(params=LOOKS)
async def op(request: pytest.FixtureRequest, studio: Studio, browse: Browse) -> StudioPage:
    return await browse(studio, "op", **LOOKS[request.param])


async def test_the_studio_new_running_and_with_its_dialogs_open(op: StudioPage, key: str) -> None:
    assert await op.accessibility_faults() == []
    await op.send(directive(id=key, call=[("add", {"a": 2, "b": 3})], n=2000, rate=60, reason=5))
    await op.grows_past(5)
    for text in ("the next question", "and one more"):
        await op.send(text)
    await expect(op.page.locator("studio-queue").get_by_role("listitem")).to_have_count(2)
    assert await op.accessibility_faults() == []
    await op.panic_button.click()
    await op.page.get_by_label("Also hold new runs").check()
    await expect(op.page.locator(".panic-hit")).to_contain_text("It stops")
    assert await op.accessibility_faults() == []
    await op.page.keyboard.press("Escape")
    await op.page.keyboard.press("Control+/")
    await expect(op.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert await op.accessibility_faults() == []
    await op.page.keyboard.press("Escape")
    await op.page.keyboard.press("Escape")
    await expect(op.card("Session stopped")).to_be_visible()
    assert not await op.is_wider_than_its_window()


async def test_every_end_of_an_answer(op: StudioPage, ends: str) -> None:
    await op.page.goto(f"{op.base_url}/s/{ends}/")
    await expect(op.page.locator("studio-message.is-assistant")).to_have_count(13)
    assert await op.accessibility_faults() == []
    assert not await op.is_wider_than_its_window()


async def test_the_runs_page_with_and_without_runs_and_its_questions(op: StudioPage, key: str) -> None:
    await op.send(directive(id=key, hang=3, n=9))
    await op.grows_past(2)
    session_key = op.page.url.rstrip("/").rsplit("/", 1)[1]
    runs = await RunsPage.open(op, text=session_key)
    await expect(runs.rows).to_have_count(1)
    assert await op.accessibility_faults() == []
    await runs.page.get_by_role("checkbox", name="Choose the run of op").check()
    await runs.page.get_by_role("button", name="Stop 1 run").click()
    assert await op.accessibility_faults() == []
    await runs.confirm("Stop 1 run")
    await expect(runs.row(session_key)).to_contain_text("stopped")
    assert await op.accessibility_faults() == []
    assert not await op.is_wider_than_its_window()
    await RunsPage.open(op, text="no run has this in it")
    await expect(op.page.get_by_text("Reading what runs…")).to_be_hidden()
    await expect(runs.rows).to_have_count(0)
    assert await op.accessibility_faults() == []


async def test_the_login(op: StudioPage) -> None:
    await op.page.context.clear_cookies()
    await op.page.goto(op.base_url)
    await op.page.locator("#id_username").fill("op")
    await op.page.locator("#id_password").fill("not the password")
    await op.page.locator("#id_password").press("Enter")
    await expect(op.page.get_by_role("alert")).to_be_visible()
    assert await op.accessibility_faults() == []
