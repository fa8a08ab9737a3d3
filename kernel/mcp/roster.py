"""The MCP servers of this worker: those of the database's rows, connected ahead or at first need, never by a run.

A run is given the tools that are known when it starts; for a server that is being connected for the first time it
waits `PATIENCE_S` at most, counted from the beginning of that. Without a row there is nothing here, and costs nothing.
"""

import asyncio
import logging
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernel import lanes
from kernel.mcp.errors import McpFailure
from kernel.mcp.link import Link
from kernel.mcp.models import McpServer, ServerConfig
from kernel.mcp.translate import SEPARATOR
from kernel.tools import Tool, Toolbox
from kernel.worker import ThisWorker, this_worker

logger = logging.getLogger(__name__)

PATIENCE_S = 1.0
LOOK_S = 5.0  # how soon a changed row is followed while nobody talks
# So many tools a request, where nobody chose: some providers refuse more.
OFFERED_MAX = 128


class Roster:
    """The links of one worker."""

    def __init__(self, worker: ThisWorker):
        self._worker = worker
        self._links: dict[int, Link] = {}
        self._retired: list[Link] = []
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect ahead, in the background."""
        await self._read()

    async def add_to(self, own: Toolbox, configs: list[ServerConfig], names: list[str] | None) -> Toolbox:
        """`own` with the tools of these servers, or, with `names`, those of both that are named, in that order."""
        self._follow(configs)
        if not self._links:
            return own if names is None else own.only(names)
        links = [link for link in self._links.values() if _is_wanted(link, names)]
        await self._wait_for(links)
        known = {each.name: each for link in links for each in link.tools}
        known |= {each.name: each for each in own}
        if names is None:
            return Toolbox(_first([*own, *known.values()]))
        return Toolbox(known.values()).only(names)

    async def close(self) -> None:
        """End all connections, and the programs behind them."""
        if self._looking is not None:
            self._looking.cancel()
        links = [*self._links.values(), *self._retired]
        self._links, self._retired = {}, []
        await asyncio.gather(*(link.close() for link in links))

    def _follow(self, configs: list[ServerConfig]) -> None:
        """Keep a link to each of these servers as they are now, and to no other."""
        wanted = {config.pk: config for config in configs}
        self._retired = [link for link in self._retired if link.is_open]
        for pk, link in list(self._links.items()):
            if wanted.get(pk) != link.config:
                self._retired.append(self._links.pop(pk))
                link.retire()
        for pk, config in wanted.items():
            if pk not in self._links:
                self._links[pk] = Link(config, self._worker.spawn, self._noter(pk))
                self._links[pk].want()
        if self._links and (self._looking is None or self._looking.done()):
            self._looking = self._worker.spawn(self._look(), "mcp looks")

    async def _look(self) -> None:
        """Follow the rows for as long as there are any: a server that was switched off is left soon, not at a turn."""
        while self._links:
            await asyncio.sleep(LOOK_S)
            await self._read()

    async def _read(self) -> None:
        try:
            self._follow(await lanes.reads.run(McpServer.objects.configs))
        except lanes.FAILURES as error:
            logger.warning("The MCP servers cannot be read: %s", type(error).__name__, extra={"action": "mcp"})

    async def _wait_for(self, links: list[Link]) -> None:
        for link in links:
            link.want()
        waits = [wait for link in links if (wait := link.first_listing(PATIENCE_S)) is not None]
        if waits:
            openings, left_s = zip(*waits, strict=True)
            await asyncio.wait(openings, timeout=max(left_s))
        missing = ", ".join(link.config.name for link in links if not link.is_known)
        if missing:
            logger.info("A turn starts without the tools of %s.", missing, extra={"action": "mcp"})

    def _noter(self, pk: int) -> Callable[[int | McpFailure], None]:
        def note(news: int | McpFailure) -> None:
            self._worker.spawn(_note(pk, news), f"mcp notes:{pk}")

        return note


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """What came of trying a server: its tools by name, or why it cannot be used."""

    config: ServerConfig
    tools: tuple[str, ...] = ()
    failure: str = ""


async def try_out(config: ServerConfig) -> Tried:
    """Connect to the server apart from all runs, ask for its tools, and leave."""
    link = Link(config, this_worker().spawn, lambda _: None)
    try:
        failure = await link.open()
        return Tried(
            config=config,
            tools=tuple(each.name for each in link.tools),
            failure=failure.message if failure is not None else "",
        )
    finally:
        await link.close()


_rosters: "weakref.WeakKeyDictionary[ThisWorker, Roster]" = weakref.WeakKeyDictionary()


def roster_of(worker: ThisWorker) -> Roster:
    """The servers of `worker`."""
    if worker not in _rosters:
        _rosters[worker] = Roster(worker)
    return _rosters[worker]


def _is_wanted(link: Link, names: list[str] | None) -> bool:
    prefix = f"{link.config.name}{SEPARATOR}"
    return names is None or any(name.startswith(prefix) for name in names)


def _first(tools: Iterable[Tool]) -> list[Tool]:
    """As many as fit into a request, without repetition."""
    distinct = list(dict.fromkeys(tools))
    if len(distinct) > OFFERED_MAX:
        logger.info("%s tools are too many for a request; the first %s are offered.", len(distinct), OFFERED_MAX)
    return distinct[:OFFERED_MAX]


async def _note(pk: int, news: int | McpFailure) -> None:
    try:
        if isinstance(news, McpFailure):
            await lanes.writes.run(McpServer.objects.failed, pk, news.message)
        else:
            await lanes.writes.run(McpServer.objects.met, pk, tools=news)
    except lanes.FAILURES as error:
        logger.warning("What an MCP server did is not noted: %s", type(error).__name__, extra={"action": "mcp"})
