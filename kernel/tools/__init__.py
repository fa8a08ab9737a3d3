"""What a model may call, and how a call is run: `from kernel.tools import tool`."""

from kernel.tools.definition import (
    NAME,
    RUN,
    SIGNAL,
    RunContext,
    Tool,
    Toolbox,
    ToolDefinitionError,
    safe_name,
    tool,
)

__all__ = ["NAME", "RUN", "SIGNAL", "RunContext", "Tool", "ToolDefinitionError", "Toolbox", "safe_name", "tool"]
