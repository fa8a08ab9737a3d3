"""A session taken away as a file: whole, streamed, its owner's alone."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient

from chat import export
from chat.models import ChatMessage, ChatSession
from kernel import lanes
from tests.chat.rows import make_user, settle, start
from tests.kernel.live import db
from tests.kernel.rows import COMPLETED, aborted

pytestmark = pytest.mark.django_db(transaction=True)

PARTS = [
    {"kind": "reasoning", "step": 1, "text": "Let me\n\nadd."},
    {
        "kind": "tool",
        "step": 1,
        "callId": "c",
        "name": "add",
        "state": "completed",
        "input": {"a": "é"},
        "output": "a ```` fence",
        "error": None,
    },
    {"kind": "text", "step": 2, "text": "It is **five**.\n"},
]


@pytest.fixture(autouse=True)
def _lanes() -> Iterator[None]:
    yield
    lanes.reads.close()


async def taken(form: str, *, user: str | None = "ann", key: str = "s", language: str = "en") -> Any:
    client = AsyncClient()
    if user is not None:
        await client.aforce_login(await User.objects.aget(username=user))
    headers = {"X-Forwarded-Proto": "https", "Accept-Language": language}
    return await client.get(f"/s/{key}/export.{form}", headers=headers)


async def text_of(response: Any) -> str:
    return b"".join([piece async for piece in response.streaming_content]).decode()


def talk(*ends: Any) -> None:
    for number, end in enumerate(ends):
        started = start(f"question {number}")
        settle(started, end)
        ChatMessage.objects.filter(pk=started.answer.pk).update(parts=PARTS, text="It is **five**.\n")


async def test_json_has_every_message_as_the_contract_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 3)
    await db(talk, COMPLETED, COMPLETED, aborted("session_stop", by="ann", source="web"))
    response = await taken("json")
    told = json.loads(await text_of(response))
    assert [message["role"] for message in told["messages"]] == ["user", "assistant"] * 3
    assert told["messages"][-1]["abortReason"] == "session_stop"
    assert told["messages"][1]["parts"] == PARTS
    assert told["session"]["key"] == "s"
    assert response["Content-Type"] == "application/json; charset=utf-8"


async def test_an_empty_session_is_valid_json() -> None:
    await db(lambda: ChatSession.objects.create(key="empty", user=make_user()))
    assert json.loads(await text_of(await taken("json", key="empty")))["messages"] == []


async def test_markdown_has_headings_texts_tools_reasoning_and_the_end() -> None:
    await db(talk, COMPLETED, aborted("panic_stop", by="op", source="web"))
    text = await text_of(await taken("md"))
    assert text.startswith("# question 0\n")
    assert "\n## You · 20" in text
    assert "question 1\n" in text
    assert "> **Reasoning**\n>\n> Let me\n>\n> add." in text
    assert '```json\n{\n  "a": "é"\n}\n```' in text
    assert "`````\na ```` fence\n`````" in text
    assert "\n\nIt is **five**.\n" in text
    assert "> **stopped by Panic** (op)" in text


async def test_the_headings_are_in_the_readers_language() -> None:
    await db(talk, COMPLETED)
    assert "\n## Вы · 20" in await text_of(await taken("md", language="ru"))


@pytest.mark.parametrize("form", ["md", "json"])
async def test_what_is_anothers_and_what_is_unknown_is_not_found_alike(form: str) -> None:
    await db(talk, COMPLETED)
    await db(make_user, "bob")
    assert (await taken(form, user="bob")).status_code == 404
    assert (await taken(form, key="unknown")).status_code == 404


async def test_a_stranger_is_sent_to_the_login() -> None:
    assert (await taken("md", user=None)).status_code == 302


async def test_an_unknown_form_has_no_address() -> None:
    await db(talk, COMPLETED)
    assert (await taken("exe")).status_code == 404


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("About Lisbon", "About-Lisbon.md"),
        ('../../etc/"passwd"\r\nX: y', "etc-passwd-X-y.md"),
        ("Погода", "Погода.md"),
        ("…", "s.md"),
        ("x" * 200, "x" * 60 + ".md"),
    ],
)
def test_a_file_is_named_safely_after_the_title(title: str, name: str) -> None:
    assert export.filename(ChatSession(key="s", title=title), "md") == name


async def test_it_is_offered_as_a_file_and_kept_by_no_cache() -> None:
    await db(talk, COMPLETED)
    await db(ChatSession.objects.update, title="Погода")
    response = await taken("md")
    assert response["Content-Disposition"].startswith("attachment; filename*=utf-8''%D0%9F")
    assert "no-store" in response["Cache-Control"]
    await text_of(response)
