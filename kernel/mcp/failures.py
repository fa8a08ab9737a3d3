"""Why a server could not be used: what the library raises, as our own failures."""

import re

from mcp import MCPError
from mcp.types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT
from pydantic import ValidationError

from kernel.llm.text import storable
from kernel.mcp.errors import McpFailure, SessionOver, Silent
from kernel.mcp.http import REFUSED, UNREACHABLE
from kernel.mcp.models import ServerConfig

# What the library says of itself; servers use its codes for errors of any kind.
CLOSED = (CONNECTION_CLOSED, "Connection closed")
TIMED_OUT = re.compile(r"Request '.*' timed out")
# What the library makes of an answer that the session is not known (any more).
FORGOTTEN = "Session terminated"


def failure_of(error: BaseException, config: ServerConfig, last_words: str = "") -> McpFailure:
    """What happened to the connection or to a call of it. `last_words` is what the program last said."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, McpFailure):
        return error
    told = f"The MCP server {config.name!r} {storable(config.without_secrets(_what_it_does(error, config)))}."
    return _kind(error)(f"{told} It last said: {storable(last_words)}" if last_words else told)


def is_over(error: BaseException) -> bool:
    """Whether the connection can take no more calls."""
    if not isinstance(error, MCPError):
        return False
    return (error.code, error.message) == CLOSED or error.code == UNREACHABLE or _is_forgotten(error)


def _is_forgotten(error: MCPError) -> bool:
    return (error.code, error.message) == (INVALID_REQUEST, FORGOTTEN)


def _is_timed_out(error: MCPError) -> bool:
    return error.code == REQUEST_TIMEOUT and TIMED_OUT.fullmatch(error.message) is not None


def _kind(error: BaseException) -> type[McpFailure]:
    if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and _is_timed_out(error)):
        return Silent
    return SessionOver if isinstance(error, MCPError) and _is_forgotten(error) else McpFailure


def _what_it_does(error: BaseException, config: ServerConfig) -> str:
    if _kind(error) is Silent:
        return f"does not answer within {config.connect_timeout_s:g} s"
    match error:
        case MCPError(message="Connection closed" | "Session terminated"):
            return "has ended the connection"
        case MCPError() if error.code in (UNREACHABLE, REFUSED):
            return error.message.rstrip(".")
        case MCPError():
            return f"answers: {error.message.rstrip('.')}"
        case OSError():
            return f"cannot be run: {error.strerror or type(error).__name__}"
        case ValidationError():
            return "gives an answer that the protocol does not allow"
        case RuntimeError():  # the library's own: a version, a schema, a result that does not fit
            return f"cannot be understood: {str(error).rstrip('.')}"
    return f"cannot be used ({type(error).__name__})"
