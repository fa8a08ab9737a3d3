"""A person with a past: more sessions, and longer ones, than a page shows at once."""

from tests.processes.harness import Studio, manage

SESSIONS = 120
MESSAGES = 230

FILL = """
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from chat.models import ChatMessage, ChatSession
user = get_user_model().objects.create_user("{user}", password="{user}-password")
now = timezone.now()
keys = [f"{user}-{{number}}" for number in range({sessions})]
ChatSession.objects.bulk_create(
    ChatSession(key=key, user=user, title=f"Session {{number:03}}", updated_at=now - timedelta(hours=number))
    for number, key in enumerate(keys)
)
long = ChatSession.objects.get(key=keys[0])
ChatMessage.objects.bulk_create(
    ChatMessage(session=long, role=("user", "assistant")[number % 2], text=f"message {{number:03}}\\n" * 3,
        parts=[{{"kind": "text", "step": 1, "text": f"message {{number:03}}\\n\\n" * 3}}], finished_at=now)
    for number in range({messages})
)
"""


def fill(studio: Studio, user: str) -> str:
    """Make a person who has many sessions; return the key of the first, which has many messages."""
    script = FILL.format(user=user, sessions=SESSIONS, messages=MESSAGES)
    manage(studio.directory, "shell", "-c", script)
    return f"{user}-0"
