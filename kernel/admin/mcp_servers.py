"""MCP servers in the admin: written by those with Django's own permission for it, tried out, and seen to work or not.

Whoever may change a server of the stdio kind may run any program on this machine: give the permission accordingly.
"""

import asyncio
from typing import Any

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from kernel.admin import words
from kernel.mcp.fields import LinesField, SecretsField
from kernel.mcp.models import McpServer, ServerConfig
from kernel.mcp.roster import Tried, try_out

NAMES_SHOWN = 30


class McpServerForm(forms.ModelForm):
    """Lists and pairs as lines; secrets masked."""

    args = LinesField(required=False)
    env = SecretsField(required=False, separator="=")
    headers = SecretsField(required=False, separator=": ")

    class Meta:
        model = McpServer
        fields = "__all__"  # noqa: DJ007  # what workers write is not editable

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        for name in ("args", "env", "headers"):
            if (field := self.fields.get(name)) is not None:
                about: Any = McpServer._meta.get_field(name)
                field.label, field.help_text = capfirst(about.verbose_name), about.help_text
                if isinstance(field, SecretsField):
                    field.stored = dict(getattr(self.instance, name) or {})


@admin.register(McpServer)
class McpServerAdmin(admin.ModelAdmin):
    """The servers, how each of them does, and a way to try one."""

    form = McpServerForm
    list_display = ("name", "enabled", "transport", "state", "tool_count", "seen_at")
    list_filter = ("enabled", "transport")
    search_fields = ("name",)
    actions = ("try_selected",)
    readonly_fields = ("state", "tool_count", "seen_at", "failed_at", "names_in_env", "names_of_headers")
    fieldsets = (
        (None, {"fields": ("name", "enabled", "transport")}),
        (_("A program on this machine"), {"fields": ("command", "args", "env")}),
        (_("An address"), {"fields": ("url", "headers")}),
        (_("Limits"), {"fields": ("connect_timeout_s", "call_timeout_s")}),
        (_("As the workers see it"), {"fields": ("state", "tool_count", "seen_at", "failed_at")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: McpServer | None = None) -> Any:
        """Whoever may only look is shown the names of what may be secret."""
        if self.has_change_permission(request, obj) or (obj is None and self.has_add_permission(request)):
            return self.fieldsets
        shown: dict[Any, Any] = {"env": "names_in_env", "headers": "names_of_headers"}
        return [
            (title, {"fields": [shown.get(name, name) for name in options["fields"]]})
            for title, options in self.fieldsets
        ]

    @admin.display(description=_("environment"))
    def names_in_env(self, server: McpServer) -> str:
        return ", ".join(server.env) or words.NOTHING

    @admin.display(description=_("headers"))
    def names_of_headers(self, server: McpServer) -> str:
        return ", ".join(server.headers) or words.NOTHING

    @admin.display(description=_("state"))
    def state(self, server: McpServer) -> str:
        if server.last_error:
            since = words.age(timezone.now() - server.failed_at) if server.failed_at else words.NOTHING
            return gettext("fails (%(age)s ago): %(why)s") % {"age": since, "why": server.last_error}
        return gettext("works") if server.seen_at else gettext("not used yet")

    @admin.action(description=_("Try selected"), permissions=["change"])
    def try_selected(self, request: HttpRequest, queryset: QuerySet[McpServer]) -> None:
        """Connect to each, enabled or not, and tell its tools or what failed."""
        for tried in async_to_sync(_tried)([server.config for server in queryset]):
            if tried.failure:
                McpServer.objects.failed(tried.config.pk, tried.failure)
                messages.error(request, tried.failure)
            else:
                McpServer.objects.met(tried.config.pk, tools=len(tried.tools))
                messages.success(request, _told(tried))


async def _tried(configs: list[ServerConfig]) -> list[Tried]:
    return await asyncio.gather(*map(try_out, configs))


def _told(tried: Tried) -> str:
    count = len(tried.tools)
    told = ngettext("%(name)s works and has %(count)s tool", "%(name)s works and has %(count)s tools", count)
    names = ", ".join(tried.tools[:NAMES_SHOWN]) + (" …" if count > NAMES_SHOWN else "")
    return told % {"name": tried.config.name, "count": count} + (f": {names}" if names else ".")
