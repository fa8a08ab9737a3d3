"""Holds: new runs are refused until a person releases them."""

import uuid
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class HoldQuerySet(models.QuerySet["Hold"]):
    def active(self) -> Self:
        return self.filter(released_at=None)

    def over(self, *, user_id: int | None, model: str) -> Self:
        """The active holds that refuse a new run of this person with this model."""
        return self.active().filter(
            models.Q(scope_user=None) | models.Q(scope_user_id=user_id),
            models.Q(scope_model="") | models.Q(scope_model=model),
        )


class Hold(models.Model):
    """New runs are refused until a person releases it. Scope: everything, a user, a model, or a user with a model."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    scope_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="holds"
    )
    scope_model = models.CharField(max_length=255, blank=True)
    reason = models.TextField(blank=True)
    by = models.CharField(max_length=150, blank=True)
    at = models.DateTimeField(db_default=Now())
    released_at = models.DateTimeField(null=True, blank=True, db_index=True)
    released_by = models.CharField(max_length=150, blank=True)

    objects = HoldQuerySet.as_manager()

    def __str__(self) -> str:
        return str(self.id)
