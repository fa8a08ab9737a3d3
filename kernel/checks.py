"""What `manage.py check` says of the kernel's settings."""

from typing import Any

from django.core.checks import CheckMessage, Error, register

from kernel import conf
from kernel.tools import Toolbox, ToolDefinitionError


@register
def tools_load(**_: Any) -> list[CheckMessage]:
    """The modules of STUDIO_TOOLS can be imported and define usable tools."""
    try:
        Toolbox.load(conf.tool_modules())
    except ToolDefinitionError as error:
        return [Error(str(error), hint="Correct the tool or the setting STUDIO_TOOLS.", id="kernel.E001")]
    return []
