"""The operators' pages in Django's admin. Importing it registers them."""

from kernel.admin import mcp_servers as _mcp_servers  # noqa: F401  # importing it registers them
from kernel.admin.ledger import AbortedRunAdmin

__all__ = ["AbortedRunAdmin"]
