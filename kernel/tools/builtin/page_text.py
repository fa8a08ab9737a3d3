"""The text of a page: a program of its own, since it reads what strangers wrote.

It is run by its path, in a child process that ends with the call (kernel.process), so that a page that is slow, huge or
hostile to read costs the server nothing but a child. From standard input comes the body, as the server sent it; the
one argument says what it is; to standard output goes JSON: `title`, `text`, and `cut` where there was more.
"""

import codecs
import json
import re
import resource
import sys
import zlib
from contextlib import suppress

UNPACKED_MAX_BYTES = 2 * 1024 * 1024
TEXT_MAX_CHARS = 150_000  # as JSON, at the worst, and with the title, less than what is read of a child
TITLE_MAX_CHARS = 300
CPU_S = 10
MEMORY_BYTES = 1024**3

HTML = {"text/html", "application/xhtml+xml"}
NOISE = (
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "iframe",
    "object",
    "nav",
    "aside",
    "footer",
    "select",
    "button",
)
MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
META = re.compile(rb"""<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
META_WITHIN = 2048


def read_page(body: bytes, *, content_type: str, charset: str, encoding: str) -> dict[str, object]:
    """The page as text. What cannot be decoded is replaced, not refused."""
    body, cut = _unpacked(body, encoding)
    text = _decoded(body, charset)
    title, text = _of_html(text) if content_type in HTML else ("", text)
    text = "\n".join(line.rstrip(" \t") for line in text.split("\n"))
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return {"title": title, "text": text[:TEXT_MAX_CHARS], "cut": cut or len(text) > TEXT_MAX_CHARS}


def _unpacked(body: bytes, encoding: str) -> tuple[bytes, bool]:
    """The body without its compression, up to the cap; a body that was cut short gives what it has."""
    if encoding in ("", "identity"):
        return body, False
    raw_deflate = encoding == "deflate" and body[:1] and body[0] & 0x0F != 8
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS if raw_deflate else zlib.MAX_WBITS | 32)
    unpacked = unpacker.decompress(body, UNPACKED_MAX_BYTES)
    return unpacked, bool(unpacker.unconsumed_tail)


def _decoded(body: bytes, charset: str) -> str:
    """By the mark at its beginning, by what the server or the page says, else as UTF-8, else as old pages are."""
    marked = next((name for mark, name in MARKS.items() if body.startswith(mark)), "")
    told = META.search(body[:META_WITHIN])
    for name in (marked, charset, told[1].decode("ascii", "replace") if told else ""):
        with suppress(LookupError, ValueError):  # no such charset, or none of text
            if name:
                return body.decode(name, "replace").removeprefix("\ufeff")
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body)  # which does not mind half a letter at its cut end
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def _of_html(html: str) -> tuple[str, str]:
    from inscriptis.html_engine import Inscriptis  # type: ignore[import-untyped]  # it has no types
    from inscriptis.model.config import ParserConfig  # type: ignore[import-untyped]
    from lxml import etree  # type: ignore[import-untyped]  # nor has this
    from lxml.html import HTMLParser, document_fromstring  # type: ignore[import-untyped]

    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        tree = document_fromstring(html.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError:  # there is nothing in it
        return "", ""
    title = " ".join((tree.findtext(".//title") or "").split())[:TITLE_MAX_CHARS]
    etree.strip_elements(tree, *NOISE, with_tail=False)
    for hidden in tree.xpath("//*[@hidden]"):
        hidden.drop_tree()
    return title, Inscriptis(tree, ParserConfig()).get_text()


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    page = read_page(sys.stdin.buffer.read(), **json.loads(sys.argv[1]))
    sys.stdout.buffer.write(json.dumps(page, ensure_ascii=False).encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
