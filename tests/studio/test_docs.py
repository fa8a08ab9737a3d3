"""What the documents name is there, and what is there is named: files, commands, log lines, links.

Frames, settings and codes are held by tests/studio/test_parity.py.
"""

import re
from collections import Counter
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import get_commands

ROOT = Path(settings.BASE_DIR)
DOCS = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
ROOMS = ("kernel", "chat", "studio")


def read(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def files_told_of(room: str) -> Counter[str]:
    """The files in the first column of the room's tables."""
    section = read("architecture.md").split(f"### {room}\n")[1].split("\n##")[0]
    firsts = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return Counter(name for first in firsts for name in re.findall(r"`([\w/]+\.py)`", first))


def files_of(room: str) -> Counter[str]:
    paths = [path.relative_to(ROOT / room) for path in (ROOT / room).rglob("*.py")]
    return Counter(str(path) for path in paths if path.name != "__init__.py" and path.parts[0] != "migrations")


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("room", ROOMS)
def test_every_file_of_a_room_is_in_the_house_once(room: str) -> None:
    assert files_told_of(room) == files_of(room)


@pytest.mark.parametrize("command", sorted(name for name, app in get_commands().items() if app in ROOMS))
def test_every_command_is_in_the_operators_book(command: str) -> None:
    assert f"manage.py {command}" in read("operations.md")


def test_every_action_of_a_log_line_is_in_the_operators_book() -> None:
    sources = "".join(path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    actions = {*re.findall(r'"action": "(\w+)"', sources), "beat", "poll", "tidy"}  # kernel.worker names its steps
    logs = read("operations.md").split("## Logs\n")[1].split("\n## ")[0]
    firsts = "".join(line.split("|")[1] for line in logs.splitlines() if line.startswith("| `"))
    assert actions - set(re.findall(r"`([\w:]+)", firsts)) == set()


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_every_link_between_documents_leads_somewhere(path: Path) -> None:
    text = path.read_text()
    lost = []
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
        file = path.parent / target if target else path
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            lost.append(f"{target}#{anchor}")
    assert lost == []
