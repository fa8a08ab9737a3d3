"""How much the first page weighs, as it would travel."""

import gzip

import pytest
from playwright.async_api import Response, expect

from tests.browser.conftest import Browse
from tests.processes.harness import Studio

pytestmark = pytest.mark.browser

SCRIPT_MAX_BYTES = 150_000


async def test_the_first_page_loads_less_than_150_kb_of_script_and_the_highlighter_only_when_it_is_needed(
    studio: Studio, browse: Browse
) -> None:
    ann = await browse(studio, "ann")
    tools = await ann.page.context.new_cdp_session(ann.page)
    await tools.send("Network.setCacheDisabled", {"cacheDisabled": True})
    scripts: list[Response] = []
    ann.page.on("response", lambda response: scripts.append(response) if _is_script(response) else None)
    await ann.reload()
    await expect(ann.composer).to_be_focused()
    sizes = {response.url: len(gzip.compress(await response.body(), 6)) for response in scripts}
    assert any("marked" in url for url in sizes), "the libraries are installed"
    assert not [url for url in sizes if "highlight" in url]
    assert sum(sizes.values()) < SCRIPT_MAX_BYTES, sizes


def _is_script(response: Response) -> bool:
    return response.request.resource_type == "script"
