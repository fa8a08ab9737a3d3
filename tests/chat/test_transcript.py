"""The transcript: one line a message, never in the way."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from chat import transcript


@pytest.fixture
def folder(settings: Settings, tmp_path: Path) -> Path:
    settings.STUDIO_TRANSCRIPT_DIR = tmp_path / "not" / "there" / "yet"
    return settings.STUDIO_TRANSCRIPT_DIR


def message(key: str, text: str = "hello") -> dict[str, Any]:
    return {"sessionKey": key, "text": text}


def failures() -> float:
    return transcript.FAILED._value.get()


def lines(folder: Path, key: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{key}.jsonl").read_text().splitlines()]


async def test_each_message_is_one_line_of_its_sessions_file_in_order(folder: Path) -> None:
    texts = ["one", "two\nlines", "три 👩‍🚀"]
    for text in texts:
        assert await transcript.append(message("s", text))
    await transcript.append(message("t"))
    assert lines(folder, "s") == [message("s", text) for text in texts]
    assert lines(folder, "t") == [message("t")]


async def test_a_line_is_one_write_at_the_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[int] = []
    writes: list[bytes] = []
    real_open, real_write = os.open, os.write

    def watch_open(path: Any, flag: int, *mode: int) -> int:
        flags.append(flag)
        return real_open(path, flag, *mode)

    def watch_write(file: int, data: bytes) -> int:
        writes.append(data)
        return real_write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(transcript.os, "open", watch_open)
        patched.setattr(transcript.os, "write", watch_write)
        await transcript.append(message("s", "x" * 100_000))
    assert flags[0] & os.O_APPEND
    assert len([data for data in writes if data.endswith(b"\n")]) == len(lines(folder, "s")) == 1


async def test_nobody_else_may_read_it(folder: Path) -> None:
    await transcript.append(message("s"))
    assert (folder / "s.jsonl").stat().st_mode & 0o077 == 0


async def test_a_full_disk_is_counted_logged_and_shown_and_raises_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = failures()
    with monkeypatch.context() as patched:
        patched.setattr(transcript.os, "write", full)
        assert not await transcript.append(message("s", "secret words"))
    assert failures() == before + 1
    assert "No space left" in caplog.text
    assert "secret words" not in caplog.text
    assert transcript.warnings("s") == ["transcript_failed"]
    assert transcript.warnings("t") == []
    assert await transcript.append(message("s"))
    assert transcript.warnings("s") == [], "it works again"


async def test_half_a_line_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(transcript.os, "write", lambda _file, data: len(data) - 1)
        assert not await transcript.append(message("half"))
    assert transcript.warnings("half")


async def test_a_folder_that_cannot_be_made_is_a_failure_like_any_other(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    settings.STUDIO_TRANSCRIPT_DIR = tmp_path / "file" / "transcripts"
    assert not await transcript.append(message("nowhere"))
    assert transcript.warnings("nowhere")
    assert "could not be written" in caplog.text
