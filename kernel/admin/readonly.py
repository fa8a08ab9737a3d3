"""A model in the admin that is looked at and never edited."""

import uuid
from typing import Any

from django.contrib import admin
from django.db.models import Model, UUIDField
from django.http import HttpRequest


class ReadOnlyAdmin(admin.ModelAdmin):
    """A model that is seen and not edited, by those with one of `seen_with` or with Django's view permission."""

    seen_with: tuple[str, ...] = ()
    show_full_result_count = False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return super().has_view_permission(request, obj) or any(map(request.user.has_perm, self.seen_with))

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_search_results(self, request: HttpRequest, queryset: Any, term: str) -> tuple[Any, bool]:
        """A whole id finds its row, with or without dashes."""
        if isinstance(self.opts.pk, UUIDField) and (found := _uuid(term)):
            return queryset.filter(pk=found), False
        return super().get_search_results(request, queryset, term)


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text.strip())
    except ValueError:
        return None
