"""One-time login links, and the command that prints the first one."""

import io
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from studio import login_link
from studio.login_link import make_login_link

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _plain_http(settings) -> None:
    settings.SECURE_SSL_REDIRECT = False


@pytest.fixture
def operator() -> User:
    return User.objects.create_superuser("operator")


def path(user: User) -> str:
    return make_login_link(user, "")


def logged_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_the_link_starts_with_the_address_of_the_studio(operator: User):
    assert make_login_link(operator, "http://studio.example/").startswith("http://studio.example/login/")


def test_looking_at_the_link_asks_and_does_not_use_it_up(client: Client, operator: User):
    link = path(operator)
    for _ in range(2):
        page = client.get(link)
        assert page.status_code == 200
        assert "Log in as operator" in page.content.decode()
    assert not logged_in(client)
    client.post(link)
    assert logged_in(client)


def test_pressing_the_button_logs_in_and_goes_to_the_studio(client: Client, operator: User):
    answer = client.post(path(operator))
    assert (answer.status_code, answer.url) == (302, "/")
    assert client.session["_auth_user_id"] == str(operator.pk)


def test_the_button_needs_its_csrf_token(operator: User):
    client = Client(enforce_csrf_checks=True)
    assert client.post(path(operator)).status_code == 403
    assert not logged_in(client)


def test_a_used_link_says_what_to_do(client: Client, operator: User):
    link = path(operator)
    client.post(link)
    for answer in (Client().get(link), Client().post(link)):
        assert answer.status_code == 410
        assert "first_operator --new-link" in answer.content.decode()


def test_a_link_made_in_the_second_of_an_earlier_login_is_used_up_too(client: Client, operator: User, monkeypatch):
    login = timezone.now().replace(microsecond=1)
    User.objects.update(last_login=login)
    operator.refresh_from_db()
    link = path(operator)
    monkeypatch.setattr(timezone, "now", lambda: login + timedelta(microseconds=1))
    assert client.post(link).status_code == 302
    assert Client().post(link).status_code == 410


def test_of_two_who_press_at_once_one_logs_in(operator: User, monkeypatch: pytest.MonkeyPatch):
    link, clients = path(operator), [Client(), Client()]
    take = login_link._take

    def take_after_the_other(user: User) -> bool:
        monkeypatch.setattr(login_link, "_take", take)
        clients[1].post(link)
        return take(user)

    monkeypatch.setattr(login_link, "_take", take_after_the_other)
    assert clients[0].post(link).status_code == 410
    assert [logged_in(client) for client in clients] == [False, True]


def test_an_expired_link_is_refused(client: Client, operator: User, settings):
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert client.post(path(operator)).status_code == 410


@pytest.mark.parametrize(
    "link", ["/login/zzz/x-y/", "/login/MQ/x-y/", "/login/_/_/", "/login/OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5/x-y/"]
)
def test_a_wrong_link_is_refused(client: Client, operator: User, link: str):
    assert client.get(link).status_code == 410


def test_a_link_of_a_deactivated_person_is_refused(client: Client, operator: User):
    link = path(operator)
    User.objects.update(is_active=False)
    assert client.post(link).status_code == 410


# The command


def first_operator(*arguments: str) -> str:
    out = io.StringIO()
    call_command("first_operator", *arguments, stdout=out)
    return out.getvalue()


def link_in(text: str, base_url: str = "http://127.0.0.1:8000") -> str:
    return text.partition(f"{base_url}/")[2].split()[0]


def test_the_first_operator_has_no_password_and_gets_a_link_that_works(client: Client):
    said = first_operator("--base-url", "http://127.0.0.1:8123")
    operator = User.objects.get()
    assert operator.is_superuser
    assert operator.is_staff
    assert not operator.has_usable_password()
    client.post("/" + link_in(said, "http://127.0.0.1:8123"))
    assert logged_in(client)


def test_an_operator_who_never_came_in_gets_a_link_again():
    first_operator()
    assert "/login/" in first_operator()
    assert User.objects.count() == 1


def test_once_the_operator_was_in_the_way_to_a_new_link_is_told(client: Client):
    client.post("/" + link_in(first_operator()))
    said = first_operator()
    assert "/login/" not in said
    assert "--new-link" in said
    assert "/login/" in first_operator("--new-link")


def test_a_superuser_with_a_password_is_left_alone():
    User.objects.create_superuser("root", password="long and secret")
    assert "/login/" not in first_operator()
    assert [user.username for user in User.objects.all()] == ["root"]


def test_a_link_for_nobody_is_refused(operator: User):
    with pytest.raises(CommandError, match="'stranger'"):
        first_operator("--new-link", "--user", "stranger")


def test_a_taken_name_is_told():
    User.objects.create_user("operator")
    with pytest.raises(CommandError, match="createsuperuser"):
        first_operator()
