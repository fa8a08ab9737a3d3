"""The transcript: each message as created and as settled, one JSON line, one file per session.

A line is one `O_APPEND` write, so lines of several processes never mix. A full disk or a bad path is logged, counted
and shown in the session; it never breaks a turn, and the database has everything.
"""

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings
from prometheus_client import Counter

from kernel.jsontext import dumps

logger = logging.getLogger(__name__)

FAILED = Counter("studio_transcript_failures_total", "Transcript lines that could not be written")
WARNING = "transcript_failed"

_pool = ThreadPoolExecutor(1, thread_name_prefix="transcript")
_failing: set[str] = set()


def append(message: dict[str, Any]) -> "asyncio.Future[bool]":
    """Append the contract's message object, in the background and in order; the result says whether that worked."""
    return asyncio.get_running_loop().run_in_executor(_pool, _append, message["sessionKey"], message)


def retire(session_key: str, session_id: int) -> None:
    """The session was deleted: its file gives the name free, since the key may be used again by somebody else."""
    asyncio.get_running_loop().run_in_executor(_pool, _retire, session_key, session_id)


def warnings(session_key: str) -> list[str]:
    """What the session's page should say about its transcript."""
    return [WARNING] if session_key in _failing else []


def _retire(session_key: str, session_id: int) -> None:
    path = settings.STUDIO_TRANSCRIPT_DIR / f"{session_key}.jsonl"
    try:
        path.rename(path.with_name(f"{session_key}.deleted-{session_id}.jsonl"))
    except FileNotFoundError:
        pass  # nothing was ever written
    except OSError as error:
        FAILED.inc()
        logger.error("A transcript could not be put aside: %s", error, extra={"action": "transcript"})


def _append(session_key: str, message: dict[str, Any]) -> bool:
    line = f"{dumps(message)}\n".encode()
    try:
        settings.STUDIO_TRANSCRIPT_DIR.mkdir(parents=True, exist_ok=True)
        path = settings.STUDIO_TRANSCRIPT_DIR / f"{session_key}.jsonl"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            written = os.write(file, line)
        finally:
            os.close(file)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes were written")
    except OSError as error:
        FAILED.inc()
        _failing.add(session_key)
        logger.error("A transcript line could not be written: %s", error, extra={"action": "transcript"})
        return False
    _failing.discard(session_key)
    return True
