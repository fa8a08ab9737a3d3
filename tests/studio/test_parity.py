"""What the code knows, the documents tell: every frame, every setting, every reason and every code."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from chat.errors import ChatError
from kernel.abort import AbortReason, TimeoutKind
from kernel.events import Phase, ToolState
from studio import consumers
from studio.protocol import TYPES
from tests.reducer import _REDUCERS

ROOT = Path(settings.BASE_DIR)
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
SOURCES = [path for folder in ("kernel", "chat", "studio") for path in (ROOT / folder).rglob("*.py")]
SCRIPTS = list((ROOT / "studio" / "static" / "studio" / "js").rglob("*.js"))


def named(pattern: str, files: list[Path]) -> set[str]:
    return {found for path in files for found in re.findall(pattern, path.read_text())}


def told(name: str, text: str) -> bool:
    """Whether the whole word stands in the text."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9])", text) is not None


@pytest.mark.parametrize("frame", sorted(TYPES))
def test_every_client_frame_is_in_the_contract(frame: str) -> None:
    assert told(frame, PROTOCOL)


@pytest.mark.parametrize("frame", sorted(named(r'"(studio_chat_[a-z_]+)"', SOURCES) | _REDUCERS.keys() - TYPES))
def test_every_server_frame_is_in_the_contract(frame: str) -> None:
    assert told(frame, PROTOCOL)


@pytest.mark.parametrize("frame", sorted(named(r'["\'`](studio_chat_[a-z_]+)["\'`]', SCRIPTS)))
def test_every_frame_of_the_page_is_in_the_contract(frame: str) -> None:
    assert told(frame.removesuffix("_ok"), PROTOCOL)


@pytest.mark.parametrize(
    "name", sorted(named(r'env\.\w+\(\s*"([A-Z_]+)"', [ROOT / "studio" / "settings.py"]) | {"DATABASE_URL"})
)
def test_every_variable_is_in_the_operators_book(name: str) -> None:
    assert told(name, OPERATIONS)


@pytest.mark.parametrize("reason", sorted({*AbortReason, *TimeoutKind, *Phase, *ToolState}))
def test_every_reason_clock_phase_and_state_is_in_the_contract(reason: str) -> None:
    assert told(reason, PROTOCOL)


@pytest.mark.parametrize("code", sorted({error.code for error in ChatError.__subclasses__()}))
def test_every_code_of_a_refusal_is_in_the_contract(code: str) -> None:
    assert told(code, PROTOCOL)


def test_every_close_code_is_in_the_contract() -> None:
    codes = [
        consumers.GOING_AWAY,
        consumers.TOO_BIG,
        consumers.OUR_FAULT,
        consumers.OVERLOADED,
        consumers.NOT_LOGGED_IN,
        consumers.TOO_FAST,
    ]
    assert [code for code in codes if not told(str(code), PROTOCOL)] == []
