"""Sessions that were there before: more of them, and longer ones, than a page shows at once."""

from tests.processes.harness import Studio, manage

SESSIONS = 120
MESSAGES = 230
LONG = "longsession"

FILL = """
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from chat.models import ChatMessage, ChatSession
user = get_user_model().objects.get(username={user!r})
now = timezone.now()
keys = [{long!r}, *(f"old{{number}}" for number in range({sessions} - 1))]
ChatSession.objects.bulk_create(
    ChatSession(key=key, user=user, title=f"Session {{number:03}}", updated_at=now - timedelta(hours=number))
    for number, key in enumerate(keys)
)
long = ChatSession.objects.get(key={long!r})
ChatMessage.objects.bulk_create(
    ChatMessage(session=long, role=("user", "assistant")[number % 2], text=f"message {{number:03}}\\n" * 3,
        parts=[{{"kind": "text", "step": 1, "text": f"message {{number:03}}\\n\\n" * 3}}], finished_at=now)
    for number in range({messages})
)
"""


def fill(studio: Studio, user: str) -> None:
    """Give `user` many sessions, the first of them, `LONG`, with many messages."""
    script = FILL.format(user=user, sessions=SESSIONS, messages=MESSAGES, long=LONG)
    manage(studio.directory, "shell", "-c", script)
