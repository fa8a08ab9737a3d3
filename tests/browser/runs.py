"""The Runs page as an operator meets it."""

from typing import Any, Self

from playwright.async_api import Locator, expect

from tests.browser.driver import StudioPage


class RunsPage:
    """The Runs page in the tab of somebody who has logged in."""

    def __init__(self, tab: StudioPage):
        self.tab = tab
        self.page = tab.page

    @classmethod
    async def open(cls, tab: StudioPage, **filters: str) -> Self:
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        await tab.page.goto(f"{tab.base_url}/runs/?{query}")
        await expect(tab.connection("live")).to_be_visible()
        return cls(tab)

    @property
    def rows(self) -> Locator:
        return self.page.locator("tr.run")

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    @property
    def told(self) -> Locator:
        """How the last stop went."""
        return self.page.locator("studio-runs-stop [role=status]")

    def row(self, session_key: str) -> Locator:
        return self.rows.filter(has=self.page.locator(f"[title='{session_key}']"))

    async def confirm(self, words: str) -> None:
        await self.dialog.get_by_role("button", name=words, exact=True).click()

    def sent(self, type_: str) -> list[dict[str, Any]]:
        """The frames of this type that the tab has sent."""
        return [frame for frame in self.tab.sent if frame["type"] == type_]
