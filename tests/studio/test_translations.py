"""Every text of the templates and of the Python code is translated, with its placeholders, and nothing else is kept.

The scripts' catalogue is held by tests/js/catalogues.test.js.
"""

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Engine, Template
from django.template.base import Node
from django.templatetags.i18n import BlockTranslateNode, TranslateNode

ROOT = Path(settings.BASE_DIR)
ROOMS = ("kernel", "chat", "studio")
LANGUAGES = ("pt_BR", "ru")
CALLS = {"gettext": 1, "gettext_lazy": 1, "_": 1, "ngettext": 2, "ngettext_lazy": 2}
PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[sd]")


def nodes(template: Template) -> Iterator[Node]:
    yield from template.nodelist.get_nodes_by_type(Node)


def texts_of_templates() -> set[str]:
    engine = Engine.get_default()
    found: set[str] = set()
    for path in (ROOT / "templates").rglob("*.html"):
        for node in nodes(engine.from_string(path.read_text())):
            match node:
                case TranslateNode():
                    found.add(str(node.filter_expression.var.literal))
                case BlockTranslateNode():
                    found |= {node.render_token_list(part)[0] for part in (node.singular, node.plural) if part}
    return {trimmed(text) for text in found}


def trimmed(text: str) -> str:
    """As `blocktranslate trimmed` makes it; the other texts are one line already."""
    return " ".join(line.strip() for line in text.strip().splitlines())


def texts_of_code() -> set[str]:
    found: set[str] = set()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
                    literals = node.args[: CALLS[node.func.id]]
                    assert all(isinstance(text, ast.Constant) for text in literals), f"{path}:{node.lineno}"
                    found |= {text.value for text in literals if isinstance(text, ast.Constant)}
    return found


def catalogue(language: str) -> dict[str, set[str]]:
    """Each text of the compiled catalogue with its translations; a plural's under both of its texts."""
    path = ROOT / "locale" / language / "LC_MESSAGES" / "django.mo"
    with path.open("rb") as file:
        compiled = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]  # there is no other way to list
    forms: dict[str, set[str]] = {}
    for key, form in compiled.items():
        forms.setdefault(key if isinstance(key, str) else key[0], set()).add(form)
    return {text: told for text, told in forms.items() if text}


@pytest.fixture(scope="module")
def used() -> set[str]:
    return texts_of_templates() | texts_of_code()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated(used: set[str], language: str) -> None:
    assert sorted(used - texts_of_source(language)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_translation_is_kept_of_a_text_that_is_gone(used: set[str], language: str) -> None:
    assert sorted(texts_of_source(language) - used) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_has_the_placeholders_of_its_text(language: str) -> None:
    wrong = [
        (text, form)
        for text, forms in catalogue(language).items()
        for form in forms
        if sorted(PLACEHOLDER.findall(form)) != sorted(PLACEHOLDER.findall(text)) or not form
    ]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_marked_as_unsure(language: str) -> None:
    for path in (ROOT / "locale" / language / "LC_MESSAGES").glob("*.po"):
        assert "fuzzy" not in path.read_text(), path


def texts_of_source(language: str) -> set[str]:
    """Every msgid and plural of the written catalogue; one may be broken over several lines."""
    text = (ROOT / "locale" / language / "LC_MESSAGES" / "django.po").read_text()
    entries = re.findall(r'^msgid(?:_plural)? ((?:".*"\n)+)', text, re.MULTILINE)
    return {"".join(ast.literal_eval(line) for line in entry.splitlines()) for entry in entries} - {""}
