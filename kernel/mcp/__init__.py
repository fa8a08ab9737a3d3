"""Tools of MCP servers: configured in the admin, offered beside the `@tool` ones, and stopped like them."""
