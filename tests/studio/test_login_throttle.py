"""Guessing passwords is slowed down; knowing one is not."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from studio.login_throttle import FAILURES_MAX

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def plain_http(settings: pytest.FixtureRequest) -> None:
    settings.SECURE_SSL_REDIRECT = False  # type: ignore[attr-defined]  # pytest-django's settings


@pytest.fixture(autouse=True)
def forget_failures() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", password="the right one")


def log_in(password: str, name: str = "ann", address: str = "192.0.2.1") -> int:
    form = {"username": name, "password": password}
    return Client().post("/accounts/login/", form, REMOTE_ADDR=address).status_code


def test_after_many_failures_the_right_password_must_wait_too(ann: User) -> None:
    for _ in range(FAILURES_MAX):
        assert log_in("a guess") == 200
    assert log_in("the right one") == 200
    page = Client().post("/accounts/login/", {"username": "ann", "password": "x"}, REMOTE_ADDR="192.0.2.1")
    assert "Too many failed logins" in page.content.decode()


def test_logins_that_succeed_are_not_counted(ann: User) -> None:
    for _ in range(FAILURES_MAX + 1):
        assert log_in("the right one") == 302


def test_another_address_and_another_name_are_not_kept_waiting(ann: User) -> None:
    User.objects.create_user("bob", password="bobs")
    for _ in range(FAILURES_MAX):
        log_in("a guess")
    assert log_in("the right one", address="192.0.2.2") == 302
    assert log_in("bobs", name="bob") == 302


def test_a_cache_that_does_not_answer_lets_the_password_decide(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise ConnectionError("the cache is away")

    for name in ("get", "add", "incr"):
        monkeypatch.setattr(cache, name, away, raising=False)
    assert log_in("a guess") == 200
    assert log_in("the right one") == 302
