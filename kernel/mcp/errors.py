"""The failures of MCP servers. Their words are for people and for the model."""

from kernel.errors import ToldError


class McpFailure(ToldError):
    """A server could not be used, or says that a call failed."""


class Silent(McpFailure):
    """It did not answer in time."""


class SessionOver(McpFailure):
    """The server has forgotten the session, and so has not begun what it was asked for."""
