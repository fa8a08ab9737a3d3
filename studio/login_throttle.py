"""Slowing down those who guess passwords. Counts failures only: whoever knows the password is never kept waiting by it.

Counted in the cache, which all workers share where there is a Redis. A cache that does not answer lets people in: the
password still decides.
"""

import hashlib
import logging
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.cache import cache
from django.utils.translation import gettext_lazy as _
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

FAILURES_MAX = 10
WINDOW_S = 300
TOO_MANY = _("Too many failed logins. Wait five minutes, or ask an operator for a login link.")


class ThrottledLoginForm(AuthenticationForm):
    """The login form; after `FAILURES_MAX` failures of one name from one address it refuses for `WINDOW_S`."""

    def clean(self) -> dict[str, Any]:
        key = self._key()
        if _failures(key) >= FAILURES_MAX:
            raise forms.ValidationError(TOO_MANY, code="too_many")
        try:
            cleaned = super().clean()
        except forms.ValidationError:
            _count(key)
            raise
        return cleaned

    def _key(self) -> str:
        """Hashed: a name may hold anything, and a cache may be read by others."""
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        who = f"{self.cleaned_data.get('username', '').casefold()}\0{address}"
        return f"failed-logins:{hashlib.sha256(who.encode()).hexdigest()}"


def _failures(key: str) -> int:
    try:
        return int(cache.get(key, 0))
    except (RedisError, OSError):
        logger.warning("Failed logins cannot be counted: the cache does not answer.", extra={"action": "login"})
        return 0


def _count(key: str) -> None:
    try:
        cache.add(key, 0, WINDOW_S)
        cache.incr(key)
    except (RedisError, OSError, ValueError):  # ValueError: the window ended between the two
        logger.warning("A failed login was not counted.", extra={"action": "login"})
