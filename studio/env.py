"""Reading the environment: typed values, and an error that names the variable. Pure."""

import os
from collections.abc import Iterable
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

DATABASES = ("postgres", "postgresql", "pgsql", "sqlite")


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool = False) -> bool:
    value = text(name).lower()
    if value in ("", "1", "true", "yes", "on", "0", "false", "no", "off"):
        return default if not value else value in ("1", "true", "yes", "on")
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {value!r}.")


def seconds(name: str, default: float) -> float:
    """A positive duration in seconds."""
    value = text(name)
    try:
        parsed = float(value) if value else default
    except ValueError:
        parsed = -1.0
    if not 0 < parsed < 10**7:
        raise ImproperlyConfigured(f"{name} must be a positive number of seconds, not {value!r}.")
    return parsed


def count(name: str, default: int) -> int:
    """A positive whole number."""
    value = text(name)
    if value and not (value.isascii() and value.isdigit() and int(value) > 0):
        raise ImproperlyConfigured(f"{name} must be a positive whole number, not {value!r}.")
    return int(value) if value else default


def limit(name: str, default: int) -> int | None:
    """A whole number; None, no limit, where it is 0 or set and empty."""
    if name in os.environ and text(name, "0") == "0":
        return None
    return count(name, default)


def amount(name: str, default: float) -> float | None:
    """A sum of money; None, no limit, where it is 0 or set and empty."""
    value = text(name, "0") if name in os.environ else str(default)
    try:
        parsed = float(value)
    except ValueError:
        parsed = -1.0
    if not 0 <= parsed < 10**7:
        raise ImproperlyConfigured(f"{name} must be an amount in USD, such as 2.50, or 0 for no limit, not {value!r}.")
    return parsed or None


def choice(name: str, options: tuple[str, ...]) -> str:
    """One of `options`; the first is the default."""
    value = text(name, options[0])
    if value not in options:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(options)}, not {value!r}.")
    return value


def items(name: str, default: Iterable[str] = ()) -> list[str]:
    """A comma-separated list; `default` where the variable is not there at all: an empty one is an empty list."""
    if name not in os.environ:
        return list(default)
    return [item.strip() for item in text(name).split(",") if item.strip()]


def database(name: str, default: str, **options: Any) -> dict[str, Any]:
    """Django's settings of the database at this address. The error does not repeat it: it may hold a password."""
    address = text(name, default)
    try:
        if address.partition("://")[0] not in DATABASES:
            raise ValueError
        return {**dj_database_url.parse(address, **options)}
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be postgres://… or sqlite:///…") from error
