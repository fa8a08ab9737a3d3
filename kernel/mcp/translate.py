"""Between the protocol's words and ours: what a server lists as `Tool`s, what a call brought as text. Pure.

A server is a stranger. It may list a tool twice, under names that no provider takes, with a schema that is none, or by
the thousand: whatever can be offered is, and the rest is told of.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from kernel import jsontext
from kernel.mcp.errors import McpFailure
from kernel.tools import Tool, safe_name

if TYPE_CHECKING:  # the library is loaded where it is used, and nowhere before
    from mcp import types

logger = logging.getLogger(__name__)

SEPARATOR = "__"
TOOL_NAME_MAX = 64
DESCRIPTION_MAX = 4096
SCHEMA_MAX = 64 * 1024
HASH_CHARS = 6

Call = Callable[[str, dict[str, Any]], Awaitable[str]]

_anything: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


def tools_of(server: str, listed: "Iterable[types.Tool]", call: Call, timeout_s: float | None) -> tuple[Tool, ...]:
    """The tools that can be offered, named `server__tool`; each calls `call(its own name, arguments)`."""
    usable: dict[str, types.Tool] = {}
    for each in listed:
        if _is_usable(each):
            usable.setdefault(each.name, each)
        else:
            extra = {"action": "mcp", "server": server}
            logger.warning("An MCP server lists a tool that no model can be offered.", extra=extra)
    names = offered_names(server, usable)
    return tuple(_tool(names[name], each, call, timeout_s) for name, each in usable.items())


def offered_names(server: str, names: Iterable[str]) -> dict[str, str]:
    """A name for each tool that every provider takes, the same whenever the server lists the same."""
    prefix = f"{server}{SEPARATOR}"
    plain = {name: safe_name(name) for name in names}
    count = Counter(plain.values())
    offered = {}
    for name, safe in plain.items():
        is_own = safe == name or (count[safe] == 1 and len(name) <= TOOL_NAME_MAX)
        if is_own and len(prefix + safe) <= TOOL_NAME_MAX:
            offered[name] = prefix + safe
        else:
            tail = "_" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:HASH_CHARS]
            offered[name] = (prefix + safe)[: TOOL_NAME_MAX - len(tail)] + tail
    return offered


def text_of(result: "types.CallToolResult") -> str:
    """What the call brought, as text; what is none is named in a note. Raises `McpFailure` if it is an error."""
    parts = [_text(part) for part in result.content]
    if not parts and result.structured_content is not None:
        parts = [jsontext.dumps(result.structured_content)]
    text = "\n".join(parts)
    if result.is_error:
        raise McpFailure(text or "The tool failed and did not say why.")
    return text


def _is_usable(listed: "types.Tool") -> bool:
    schema = listed.input_schema
    return (
        bool(listed.name.strip())
        and isinstance(schema.get("properties", {}), dict)
        and len(jsontext.dumps(schema)) <= SCHEMA_MAX
    )


def _tool(name: str, listed: "types.Tool", call: Call, timeout_s: float | None) -> Tool:
    async def function(**arguments: Any) -> str:
        return await call(listed.name, arguments)

    schema = {key: value for key, value in listed.input_schema.items() if key != "$schema"}
    return Tool(
        name=name,
        description=(listed.description or listed.title or "")[:DESCRIPTION_MAX],
        schema={"type": "object", "properties": {}, **schema},
        function=function,
        is_async=True,
        takes_signal=False,
        timeout_s=timeout_s,
        arguments=_anything,  # the server checks them
    )


def _text(part: Any) -> str:
    match part.type:
        case "text":
            return part.text
        case "image" | "audio":
            return f"[An {part.type} that cannot be shown here: {part.mime_type}.]"
        case "resource_link":
            return f"[A link to a resource: {part.title or part.name}, {part.uri}]"
    resource = part.resource
    if hasattr(resource, "text"):
        return f"[The resource {resource.uri}:]\n{resource.text}"
    return f"[The resource {resource.uri} that cannot be shown here: {resource.mime_type or 'of no known type'}.]"
