"""A session as a file to take away: JSON in the contract's objects, or Markdown to read.

Promise: it is written a page of messages at a time, so that the length of a session costs no memory. What was said goes
in as it was said; nothing is left out, replaced and broken-off answers included.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import override

from chat import objects
from chat.models import ChatSession
from kernel import jsontext, lanes
from kernel.abort import AbortReason

PAGE = 100
FENCE_MIN = 3

Message = dict[str, Any]

ENDINGS = {
    AbortReason.SESSION_STOP: _("stopped"),
    AbortReason.PANIC_STOP: _("stopped by Panic"),
    AbortReason.TIMEOUT: _("timed out"),
    AbortReason.USER_INTERRUPT: _("interrupted by the next message"),
    AbortReason.DISCONNECT: _("stopped, because nobody was watching"),
    AbortReason.SHUTDOWN: _("stopped, because the server was shut down"),
    AbortReason.WORKER_LOST: _("lost with the server process that wrote it"),
    AbortReason.DELETED: _("stopped, because the session was deleted"),
}


async def as_json(session: ChatSession) -> AsyncIterator[str]:
    """One JSON object: `session`, `exportedAt` (milliseconds) and `messages`, oldest first."""
    about = objects.session(session, running=False, queue_length=0)
    about = {name: about[name] for name in ("key", "title", "model", "updatedAt")}
    yield f'{{"session":{jsontext.dumps(about)},"exportedAt":{objects.ms(timezone.now())},"messages":['
    before = "\n"
    async for messages in _pages(session):
        for message in messages:
            yield before + jsontext.dumps(message)
            before = ",\n"
    yield "\n]}\n"


async def as_markdown(session: ChatSession, language: str) -> AsyncIterator[str]:
    """A heading for each message, its text as it is, tools and reasoning marked as such; headings in `language`."""
    yield f"# {session.title or session.key}\n"
    async for messages in _pages(session):
        for message in messages:
            with override(language):
                yield "\n" + "\n\n".join(_message(message)) + "\n"


FORMATS: dict[str, tuple[str, Callable[[ChatSession, str], AsyncIterator[str]]]] = {
    "json": ("application/json", lambda session, _language: as_json(session)),
    "md": ("text/markdown", as_markdown),
}


def filename(session: ChatSession, extension: str) -> str:
    """A name that every file system takes and no header is broken by, in the letters of the title."""
    words = re.sub(r"[^\w-]+", "-", session.title).strip("-_")[:60].rstrip("-_")
    return f"{words or session.key}.{extension}"


async def _pages(session: ChatSession) -> AsyncIterator[list[Message]]:
    after = 0

    def read() -> list[Message]:
        rows = session.messages.filter(pk__gt=after).select_related("execution").order_by("id")[:PAGE]
        return [objects.message(row, session.key) for row in rows]

    while page := await lanes.reads.run(read):
        yield page
        after = int(page[-1]["id"])


def _message(message: Message) -> Iterator[str]:
    yield f"## {_heading(message)}"
    if message["role"] == "user":
        yield message["text"]
        return
    for part in message["parts"]:
        yield from _part(part)
    if message["abortReason"]:
        by = f" ({message['stop']['by']})" if message["stop"] and message["stop"]["by"] else ""
        yield _quoted(f"**{ENDINGS[AbortReason(message['abortReason'])]}**{by}")
    elif message["error"]:
        yield _quoted(f"**{_('failed')}**: {message['error']}")


def _heading(message: Message) -> str:
    who = _("You") if message["role"] == "user" else _("Answer")
    at = datetime.fromtimestamp(message["createdAt"] / 1000, UTC)
    return " · ".join(str(word) for word in (who, message["model"], f"{at:%Y-%m-%d %H:%M} UTC") if word)


def _part(part: dict[str, Any]) -> Iterator[str]:
    if part["kind"] == "text":
        yield part["text"].strip("\n")
    elif part["kind"] == "reasoning":
        yield _quoted(f"**{_('Reasoning')}**\n\n{part['text'].strip()}")
    else:
        yield f"**{_('Tool')}** `{part['name']}`: {part['state']}"
        if part["input"] is not None:
            yield _fenced(json.dumps(part["input"], ensure_ascii=False, indent=2), "json")
        for said in filter(None, (part["output"], part["error"])):
            yield _fenced(str(said), "")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fenced(text: str, language: str) -> str:
    """In a fence longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(FENCE_MIN, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
