"""Which tools there are: those of the modules in STUDIO_TOOLS, and what MCP servers bring while they are there."""

import functools
from collections.abc import Iterable

from django.conf import settings

from kernel.mcp.models import McpServer
from kernel.mcp.translate import SEPARATOR
from kernel.tools import Toolbox


@functools.cache
def toolbox() -> Toolbox:
    """The tools of STUDIO_TOOLS. Raises `ToolDefinitionError`."""
    return Toolbox.load(settings.STUDIO_TOOLS)


def unknown(names: Iterable[str]) -> list[str]:
    """Those that no module has and no known MCP server can bring: its list of tools may be any, now or later.

    Raises `ToolDefinitionError`.
    """
    servers = set(McpServer.objects.values_list("name", flat=True))
    return [name for name in names if name not in toolbox() and name.partition(SEPARATOR)[0] not in servers]
