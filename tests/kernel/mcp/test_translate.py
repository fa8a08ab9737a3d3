"""A server's names and results, in our words."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from kernel.mcp.errors import McpFailure
from kernel.mcp.models import NAME_MAX
from kernel.mcp.translate import offered_names, text_of
from kernel.tools import NAME


def result(*content: types.ContentBlock, **more: object) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), **more)


def text(words: str) -> types.TextContent:
    return types.TextContent(text=words)


def test_texts_are_joined() -> None:
    assert text_of(result(text("one"), text("two"))) == "one\ntwo"


def test_what_is_no_text_is_named() -> None:
    image = types.ImageContent(data="aGVsbG8=", mime_type="image/png")
    link = types.ResourceLink(name="report", uri="file:///report.pdf")
    assert text_of(result(text("Here:"), image, link)) == (
        "Here:\n[An image that cannot be shown here: image/png.]\n[A link to a resource: report, file:///report.pdf]"
    )


def test_the_text_of_a_resource_is_shown_and_its_bytes_are_not() -> None:
    written = types.EmbeddedResource(resource=types.TextResourceContents(uri="a:b", text="words"))
    drawn = types.EmbeddedResource(resource=types.BlobResourceContents(uri="c:d", blob="aGVsbG8="))
    assert text_of(result(written, drawn)) == (
        "[The resource a:b:]\nwords\n[The resource c:d that cannot be shown here: of no known type.]"
    )


def test_structured_content_stands_in_for_a_text_that_is_missing() -> None:
    assert text_of(result(structured_content={"sum": 3})) == '{"sum":3}'
    assert text_of(result(text("three"), structured_content={"sum": 3})) == "three"


def test_an_error_is_raised_with_its_text() -> None:
    with pytest.raises(McpFailure, match="no such file"):
        text_of(result(text("no such file"), is_error=True))


def test_an_error_without_words_gets_some() -> None:
    with pytest.raises(McpFailure, match="did not say why"):
        text_of(result(is_error=True))


@given(st.lists(st.text(min_size=1), unique=True, max_size=20), st.text("ab", min_size=1, max_size=NAME_MAX))
def test_every_tool_gets_a_name_of_its_own_that_every_provider_takes(names: list[str], server: str) -> None:
    offered = offered_names(server, names)
    assert set(offered) == set(names)
    assert len(set(offered.values())) == len(names)
    assert all(NAME.fullmatch(name) for name in offered.values())


@given(st.lists(st.text(min_size=1), unique=True, max_size=20), st.randoms())
def test_the_names_do_not_depend_on_the_order_of_the_list(names: list[str], random: Random) -> None:
    shuffled = random.sample(names, len(names))
    assert offered_names("s", shuffled) == offered_names("s", names)


def test_a_name_that_fits_is_left_as_it_is() -> None:
    assert offered_names("files", ["read_file"]) == {"read_file": "files__read_file"}
