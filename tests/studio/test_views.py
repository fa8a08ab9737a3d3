"""The studio's page as Django serves it: who may see it, what it is given, and that its policy holds."""

import json
import re

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.staticfiles import finders
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

pytestmark = pytest.mark.django_db

NONCE = re.compile(r"'nonce-([^']+)'")


@pytest.fixture
def client() -> Client:
    return Client(headers={"X-Forwarded-Proto": "https"})


@pytest.fixture
def ann(client: Client) -> Client:
    client.force_login(User.objects.create_user("ann"))
    return client


def test_a_stranger_is_sent_to_the_login_and_back(client: Client) -> None:
    response = client.get("/s/abc/")
    assert response.status_code == 302
    assert response["Location"] == f"{reverse('login')}?next=/s/abc/"


def test_after_a_refused_login_the_password_is_what_to_type_again(client: Client) -> None:
    def fields(response: HttpResponse) -> dict[str, bool]:
        inputs = re.findall(r'<input id="id_(\w+)"([^>]*)>', response.content.decode())
        return {name: "autofocus" in attributes for name, attributes in inputs}

    assert fields(client.get("/accounts/login/")) == {"username": True, "password": False}
    refused = client.post("/accounts/login/", {"username": "nobody", "password": "wrong"})
    assert fields(refused) == {"username": False, "password": True}


def test_the_page_is_told_which_session_its_address_names(ann: Client) -> None:
    assert ann.get("/").context["page"]["sessionKey"] is None
    assert ann.get("/s/A_b-9/").context["page"]["sessionKey"] == "A_b-9"


@pytest.mark.parametrize("key", ["a" * 65, "a.b", "ключ"], ids=["too long", "with a dot", "not ASCII"])
def test_an_address_that_can_be_no_session_is_not_found(ann: Client, key: str) -> None:
    assert ann.get(f"/s/{key}/").status_code == 404


def test_the_only_inline_script_carries_the_nonce_of_the_policy(ann: Client) -> None:
    response = ann.get("/")
    policy = response["Content-Security-Policy"]
    nonce = NONCE.search(policy)
    assert nonce
    assert f'<script type="importmap" nonce="{nonce[1]}">' in response.text
    assert "unsafe" not in policy


def test_without_the_libraries_the_page_says_so_and_asks_for_none(ann: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    find = finders.find
    monkeypatch.setattr(finders, "find", lambda path: None if path.startswith("vendor/") else find(path))
    page = ann.get("/").text
    assert "libraries are not installed" in page
    assert "vendor/" not in page


@pytest.mark.parametrize(
    ("language", "words"),
    [("pt-br", "Nova sessão"), ("ru", "Новая сессия"), ("en", "New session")],
    ids=["pt-br", "ru", "en"],
)
def test_the_page_and_its_scripts_speak_the_language_that_was_chosen(ann: Client, language: str, words: str) -> None:
    ann.post(reverse("set_language"), {"language": language})
    response = ann.get("/")
    assert f'<html lang="{language}">' in response.text
    assert words in response.text
    catalogue = ann.get(reverse("javascript-catalog")).text
    assert language == "en" or json.dumps(words) in catalogue


def test_each_language_is_offered_by_its_own_name(client: Client) -> None:
    page = client.get("/accounts/login/", headers={"Accept-Language": "ru"}).content.decode()
    names = re.findall(r'<button class="language"[^>]*>([^<]+)</button>', page)
    assert names == ["English", "Português Brasileiro", "Русский"]


def test_the_runs_page_is_for_who_may_panic(client: Client, ann: Client) -> None:
    assert ann.get(reverse("runs")).status_code == 403
    assert f'href="{reverse("runs")}"' not in ann.get("/").text
    User.objects.get(username="ann").user_permissions.add(Permission.objects.get(codename="panic"))
    assert ann.get(reverse("runs")).context["page"]["userName"] == "ann"
    assert f'href="{reverse("runs")}"' in ann.get("/").text


def test_a_stranger_is_sent_from_the_runs_page_to_the_login(client: Client) -> None:
    assert client.get(reverse("runs"))["Location"] == f"{reverse('login')}?next={reverse('runs')}"
