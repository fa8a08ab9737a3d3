"""Finding what was said as people look for it: in any case, with or without accents.

The database does the comparing, by a pattern in its own tongue in which each letter stands for all its forms: SQLite's
own case-blind search knows no letters but ASCII, and PostgreSQL's minds accents. A function in Python that folds each
text would hold the interpreter while it searches, and with it the loop that has a stop to read.

What is looked for, and where, can be written so that comparing takes minutes: hence `bounded`, and `lanes.searches`.
"""

import functools
import re
import time
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import OperationalError, connection
from django.db.models import CharField, Lookup, TextField

from chat.errors import Invalid
from kernel.errors import ToldError

# Latin with its extensions, Greek, Cyrillic, Latin for Vietnamese.
ALPHABETS = (range(0x41, 0x250), range(0x370, 0x530), range(0x1E00, 0x1F00))
AROUND_CHARS = 60
LONGEST_S = 10.0
STEPS_BETWEEN_LOOKS = 100  # of SQLite's machine: some ten rows


class TooLong(Invalid, ToldError):
    """The search takes too long. Look for other or fewer words."""


class Says(Lookup):
    """`text__says="sao"`: contains it, in any case and with or without accents."""

    lookup_name = "says"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:  # type: ignore[override]
        column, params = self.process_lhs(compiler, connection)
        if connection.vendor == "sqlite":
            return f"{column} GLOB %s", [*params, _glob(self.rhs)]
        return f"{column} ~ %s", [*params, _regex(self.rhs)]


CharField.register_lookup(Says)
TextField.register_lookup(Says)


@contextmanager
def bounded() -> Iterator[None]:
    """Within, this thread's statements are broken off when `LONGEST_S` is over: `TooLong`.

    On SQLite, that is; PostgreSQL's patterns take no such time, and its `statement_timeout` is set.
    """
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    raw = connection.connection
    until_s = time.monotonic() + LONGEST_S
    raw.set_progress_handler(lambda: time.monotonic() > until_s, STEPS_BETWEEN_LOOKS)
    try:
        yield
    except OperationalError as error:
        if time.monotonic() > until_s:
            raise TooLong from error
        raise
    finally:
        raw.set_progress_handler(None, 0)


def excerpt(text: str, query: str, around: int = AROUND_CHARS) -> str:
    """What stands around the first place where `text` says `query`, on one line; empty if it does not."""
    found = re.search(_regex(query), text)
    if found is None:
        return ""
    start, end = max(0, found.start() - around), found.end() + around
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"


def _letters(query: str) -> str:
    return unicodedata.normalize("NFC", query)


def _glob(query: str) -> str:
    return (
        "*"
        + "".join(_forms(letter) or (f"[{letter}]" if letter in "*?[" else letter) for letter in _letters(query))
        + "*"
    )


def _regex(query: str) -> str:
    return "".join(
        _forms(letter) or (rf"\{letter}" if letter in r".^$*+?()[]{}|\-" else letter) for letter in _letters(query)
    )


def _forms(letter: str) -> str:
    """All forms of a letter as a class, which both tongues write alike; empty for what has one form only."""
    forms = _alphabet().get(_plain(letter), "")
    return f"[{forms}]" if len(forms) > 1 else ""


@functools.cache
def _alphabet() -> dict[str, str]:
    """Each plain letter with all its forms."""
    forms: dict[str, str] = defaultdict(str)
    for letters in ALPHABETS:
        for letter in map(chr, letters):
            if letter.isalpha():
                forms[_plain(letter)] += letter
    return dict(forms)


@functools.cache
def _plain(letter: str) -> str:
    """Without case and accents."""
    return "".join(part for part in unicodedata.normalize("NFD", letter.casefold()) if not unicodedata.combining(part))
