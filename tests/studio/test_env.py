"""The environment is read into typed values, and an error names the variable."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from studio import env

NAME = "STUDIO_TEST_VARIABLE"


def options(name: str) -> str:
    return env.choice(name, ("continue", "abort"))


@pytest.mark.parametrize(
    ("read", "value", "parsed"),
    [
        (env.text, " a b ", "a b"),
        (env.text, None, ""),
        (env.flag, "1", True),
        (env.flag, "TRUE", True),
        (env.flag, "off", False),
        (env.flag, "0", False),
        (env.flag, " ", False),
        (env.flag, None, False),
        (lambda name: env.flag(name, default=True), None, True),
        (lambda name: env.flag(name, default=True), "no", False),
        (lambda name: env.seconds(name, 5), None, 5.0),
        (lambda name: env.seconds(name, 5), "0.25", 0.25),
        (lambda name: env.count(name, 8), None, 8),
        (lambda name: env.count(name, 8), "3", 3),
        (lambda name: env.limit(name, 8), None, 8),
        (lambda name: env.limit(name, 8), "3", 3),
        (lambda name: env.limit(name, 8), "0", None),
        (lambda name: env.limit(name, 8), " ", None),
        (lambda name: env.amount(name, 5), None, 5.0),
        (lambda name: env.amount(name, 5), "0.25", 0.25),
        (lambda name: env.amount(name, 5), "0.0", None),
        (lambda name: env.amount(name, 5), "", None),
        (options, None, "continue"),
        (options, "abort", "abort"),
        (env.items, "a, b,,c ", ["a", "b", "c"]),
        (env.items, None, []),
        (lambda name: env.items(name, ["a"]), None, ["a"]),
        (lambda name: env.items(name, ["a"]), "", []),
        (lambda name: env.items(name, ["a"]), "b", ["b"]),
    ],
)
def test_a_value_is_read(
    read: Callable[[str], Any], value: str | None, parsed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NAME, raising=False)
    if value is not None:
        monkeypatch.setenv(NAME, value)
    assert read(NAME) == parsed


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (env.flag, "maybe"),
        (env.flag, "2"),
        *((lambda name: env.seconds(name, 5), value) for value in ("soon", "0", "-1", "inf", "nan", "1e9", "5s")),
        *((lambda name: env.count(name, 8), value) for value in ("many", "0", "-1", "1.5", "²")),
        *((lambda name: env.limit(name, 8), value) for value in ("many", "-1", "1.5", "none")),
        *((lambda name: env.amount(name, 5), value) for value in ("much", "-1", "inf", "nan", "$5")),
        (options, "never"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(
    read: Callable[[str], Any], value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=NAME) as caught:
        read(NAME)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("address", "engine"),
    [
        ("postgres://studio@host/name", "django.db.backends.postgresql"),
        ("postgresql://studio@host:5433/name", "django.db.backends.postgresql"),
        ("sqlite:////path", "django.db.backends.sqlite3"),
        ("", "django.db.backends.sqlite3"),
    ],
)
def test_a_database_is_read(address: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, address)
    read = env.database(NAME, "sqlite:///default", conn_max_age=600)
    assert (read["ENGINE"], read["CONN_MAX_AGE"]) == (engine, 600)


@pytest.mark.parametrize("address", ["mysql://studio:secret@host/name", "secret", "postgres://u:secret@host:port/name"])
def test_another_database_is_refused_without_repeating_its_address(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, address)
    with pytest.raises(ImproperlyConfigured, match=f"{NAME} must be postgres://… or sqlite:///…") as caught:
        env.database(NAME, "sqlite:///default")
    assert "secret" not in str(caught.value)
