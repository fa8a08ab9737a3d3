"""Conversations in the admin: roles are edited, everything said is only read, and aborted runs tell what was kept."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Length
from django.http import HttpRequest
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chat.models import AgentRole, ChatMessage, ChatSession, MessageRole, QueuedMessage
from chat.role_form import AgentRoleForm
from kernel.admin import AbortedRunAdmin, words
from kernel.admin.readonly import ReadOnlyAdmin
from kernel.models import AbortedRun

EXCERPT_CHARS = 80


@admin.register(AgentRole)
class AgentRoleAdmin(admin.ModelAdmin):
    """The agents' profiles."""

    form = AgentRoleForm
    list_display = ("name", "model", "tool_list", *AgentRole.LIMITS)
    search_fields = ("name", "instructions")
    fieldsets = (
        (None, {"fields": ("name", "instructions")}),
        (_("What it works with"), {"fields": ("model", "tools")}),
        (_("Limits of one turn"), {"fields": tuple(AgentRole.LIMITS)}),
    )

    @admin.display(description=_("tools"))
    def tool_list(self, role: AgentRole) -> str:
        return gettext("all") if role.tool_names is None else Truncator(", ".join(role.tool_names)).chars(EXCERPT_CHARS)


@admin.register(ChatSession)
class ChatSessionAdmin(ReadOnlyAdmin):
    """Who talks, with which agent, and how much."""

    list_display = ("updated_at", "key", "user", "title", "agent_role", "model", "message_count")
    list_select_related = ("user", "agent_role")
    list_filter = ("model", "agent_role")
    date_hierarchy = "updated_at"
    ordering = ("-updated_at", "-pk")
    search_fields = ("key", "title", "user__username")
    readonly_fields = ("message_count",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ChatSession]:
        return super().get_queryset(request).annotate(messages_in_all=Count("messages"))

    @admin.display(description=_("messages"), ordering="messages_in_all")
    def message_count(self, session: Any) -> str:
        address = reverse("admin:chat_chatmessage_changelist")
        return format_html(
            '<a href="{}?session__id__exact={}">{}</a>', address, session.pk, number_format(session.messages_in_all)
        )


@admin.register(ChatMessage)
class ChatMessageAdmin(ReadOnlyAdmin):
    """What was said, whole and partial alike."""

    list_display = ("created_at", "session", "role", "status", "excerpt", "characters")
    list_select_related = ("session",)
    list_filter = ("status", "role")
    date_hierarchy = "created_at"
    ordering = ("-pk",)
    search_fields = ("=session__key", "text")

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup == "session__id__exact" or super().lookup_allowed(lookup, value, request)

    @admin.display(description=_("text"))
    def excerpt(self, message: ChatMessage) -> str:
        return Truncator(message.text).chars(EXCERPT_CHARS) or words.NOTHING

    @admin.display(description=_("characters"))
    def characters(self, message: ChatMessage) -> str:
        return number_format(len(message.text))


@admin.register(QueuedMessage)
class QueuedMessageAdmin(ReadOnlyAdmin):
    """What waits to be sent, in its sessions' own order."""

    list_display = ("created_at", "session", "position", "excerpt", "model", "promoted", "editing_until")
    list_select_related = ("session",)
    ordering = ("session", "position", "pk")
    search_fields = ("=session__key", "text")

    @admin.display(description=_("text"))
    def excerpt(self, message: QueuedMessage) -> str:
        return Truncator(message.text).chars(EXCERPT_CHARS)


@admin.register(AbortedRun)
class KeptRunAdmin(AbortedRunAdmin):
    """Aborted runs, with the number of characters of the answer that were kept."""

    list_display = (*AbortedRunAdmin.list_display[:3], "kept", *AbortedRunAdmin.list_display[3:])
    readonly_fields = (*AbortedRunAdmin.readonly_fields, "kept")
    fieldsets = (*AbortedRunAdmin.fieldsets, (_("Kept"), {"fields": ("kept",)}))

    def get_queryset(self, request: HttpRequest) -> QuerySet[AbortedRun]:
        answers = ChatMessage.objects.filter(execution=OuterRef("pk"), role=MessageRole.ASSISTANT)
        kept = answers.annotate(characters=Length("text")).values("characters")[:1]
        return super().get_queryset(request).annotate(kept_characters=Subquery(kept))

    @admin.display(description=_("kept characters"), ordering="kept_characters")
    def kept(self, run: Any) -> str:
        return words.NOTHING if run.kept_characters is None else number_format(run.kept_characters)
