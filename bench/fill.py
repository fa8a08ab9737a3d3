"""Fills a fresh database: people who are logged in already, and sessions with a past. Runs inside `manage.py shell`."""

import json
from collections.abc import Iterator
from pathlib import Path

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from chat.models import ChatMessage, ChatSession, MessageRole
from kernel.models import ExecutionRecord, ExecutionStatus

QUESTION = "What did the committee decide about the third proposal, and who spoke against it? "
ANSWER = "The third proposal was accepted after a long debate, with two amendments that nobody had expected. " * 12


def fill(people: int, sessions: dict[str, int], cookies_file: str) -> None:
    """Make the people and write their session cookies; the first owns the sessions, which are a number of messages."""
    cookies = []
    users = [get_user_model().objects.create_user(f"bench{number}") for number in range(people)]
    for user in users:
        browser = Client()
        browser.force_login(user)
        cookies.append(browser.cookies["sessionid"].value)
    for key, size in sessions.items():
        _session(users[0], key, size)
    Path(cookies_file).write_text(json.dumps(cookies), encoding="utf-8")


def _session(user: User, key: str, size: int) -> None:
    session = ChatSession.objects.create(key=key, user=user, title=f"{size} messages")
    records = [
        ExecutionRecord(session_key=key, user=user, status=ExecutionStatus.COMPLETED, finished_at=timezone.now())
        for _ in range(size // 2)
    ]
    ExecutionRecord.objects.bulk_create(records, batch_size=1000)
    ChatMessage.objects.bulk_create(_messages(session, records), batch_size=1000)


def _messages(session: ChatSession, records: list[ExecutionRecord]) -> Iterator[ChatMessage]:
    for record in records:
        for role, text in ((MessageRole.USER, QUESTION), (MessageRole.ASSISTANT, ANSWER)):
            yield ChatMessage(
                session=session,
                role=role,
                text=text,
                parts=[{"kind": "text", "step": 1, "text": text}],
                execution=record,
                finished_at=timezone.now(),
            )
