"""The text of a page, in each charset and packing, bounded whatever it is."""

import gzip
import zlib
from typing import Any

import pytest

from kernel.tools.builtin import page_text
from kernel.tools.builtin.page_text import read_page


def read(body: str | bytes, kind: str = "text/html", *, charset: str = "", encoding: str = "") -> dict[str, Any]:
    raw = body.encode() if isinstance(body, str) else body
    return read_page(raw, content_type=kind, charset=charset, encoding=encoding)


PAGE = """<!doctype html><html><head><title> The
 title </title><style>p {}</style><script>evil()</script></head><body><nav>Home | About</nav>
<h1>Heading</h1><p>First <b>words</b>.</p><p hidden>not seen</p><!-- a remark -->
<table><tr><td>one</td><td>two</td></tr></table><footer>Imprint</footer></body></html>"""


def test_a_page_is_read_as_people_see_it() -> None:
    page = read(PAGE)
    assert page["title"] == "The title"
    assert page["text"].split() == ["Heading", "First", "words.", "one", "two"]
    assert page["cut"] is False


@pytest.mark.parametrize("body", ["", "   ", "<html></html>", "<!-- nothing -->", "<script>x()</script>"])
def test_a_page_without_text_has_none(body: str) -> None:
    assert read(body)["text"] == ""


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "text/xml"])
def test_what_is_no_html_stays_as_it_is(kind: str) -> None:
    assert read("<a>1 < 2</a>", kind)["text"] == "<a>1 < 2</a>"


WORDS = "olá, привет"


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (WORDS.encode(), "", WORDS),
        (WORDS.encode(), "utf-8", WORDS),
        ("привет".encode("windows-1251"), "windows-1251", "привет"),
        ("привет".encode("koi8-r"), "KOI8-R", "привет"),
        ("olá!".encode("latin-1"), "", "olá!"),
        (b"\xef\xbb\xbf" + WORDS.encode(), "latin-1", WORDS),
        (WORDS.encode("utf-16"), "", WORDS),
        (b'<meta charset="windows-1251">' + "привет".encode("windows-1251"), "", "привет"),
        (b"<?xml version='1.0' encoding='koi8-r'?>" + "привет".encode("koi8-r"), "", "привет"),
        (WORDS.encode(), "no-such-charset", WORDS),
        (WORDS.encode(), "hex", WORDS),
        (WORDS.encode(), "undefined", WORDS),
        (WORDS.encode() + b"\xd0", "", WORDS),
        (b"a\xff\xfeb", "utf-8", "a\ufffd\ufffdb"),
    ],
)
def test_its_charset_is_found(body: bytes, charset: str, text: str) -> None:
    assert text in read(body, charset=charset)["text"]


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"here", mtime=0)),
        ("x-gzip", gzip.compress(b"here", mtime=0)),
        ("deflate", zlib.compress(b"here")),
        ("deflate", zlib.compress(b"here")[2:-4]),
        ("identity", b"here"),
    ],
)
def test_its_packing_is_undone(encoding: str, packed: bytes) -> None:
    assert read(packed, encoding=encoding)["text"] == "here"


def test_what_unfolds_without_end_is_cut() -> None:
    bomb = gzip.compress(b"x" * (20 * page_text.UNPACKED_MAX_BYTES))
    page = read(bomb, "text/plain", encoding="gzip")
    assert len(page["text"]) == page_text.TEXT_MAX_CHARS
    assert page["cut"] is True


def test_a_packed_page_that_was_cut_short_gives_what_it_has() -> None:
    packed = gzip.compress(bytes(range(32, 127)) * 50)
    assert read(packed[: len(packed) // 2], "text/plain", encoding="gzip")["text"].startswith("!")


def test_long_runs_of_blanks_cost_no_more_than_other_text() -> None:
    blanks = " " * 1_000_000  # what took a time that grows with the square would never end
    assert read(f"{blanks}a\nb{blanks}c\t \n", "text/plain")["text"].startswith("a\nb ")


def test_a_long_text_is_cut() -> None:
    page = read("x" * (page_text.TEXT_MAX_CHARS + 1), "text/plain")
    assert (len(page["text"]), page["cut"]) == (page_text.TEXT_MAX_CHARS, True)


def test_a_page_of_the_deepest_nesting_is_read() -> None:
    assert "core" in read("<div>" * 200 + "core")["text"]
