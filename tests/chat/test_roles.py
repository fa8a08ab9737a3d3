"""Roles: edited in the admin, where nothing is taken that a turn would stumble over; and what a turn makes of them."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from chat import role_form, toolbox
from chat.briefing import brief
from chat.models import AgentRole, ChatSession
from kernel.allowance import Allowance
from kernel.llm import catalog
from kernel.llm.errors import UNKNOWN
from kernel.models import McpServer
from kernel.tools import Toolbox, ToolDefinitionError, tool
from tests.chat.live_studio import Studio
from tests.chat.rows import start
from tests.fakes import words
from tests.kernel.live import db

pytestmark = pytest.mark.django_db(transaction=True)

FORM = {"name": "Clerk", "instructions": "Be brief.", "model": "", "tools": ""}


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def subtract(a: int, b: int) -> int:
    """Subtract two numbers."""
    return a - b


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Two tools, one model that is offered, and one provider that is known, without a look at this machine."""
    tools = Toolbox([add, subtract])
    monkeypatch.setattr(toolbox, "toolbox", lambda: tools)
    monkeypatch.setattr(role_form, "toolbox", lambda: tools)
    monkeypatch.setattr("chat.answering.toolbox", lambda: tools)
    monkeypatch.setattr(catalog, "ollama_models", list)
    settings.STUDIO_MODEL = "demo/scripted"

    async def complaint(model: str) -> str:
        return "" if model.startswith("openai/") else UNKNOWN.format(model=model)

    monkeypatch.setattr(role_form, "complaint", complaint)


@pytest.fixture
def client() -> Client:
    user = User.objects.create_user("op", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__endswith="_agentrole"))
    client = Client(headers={"X-Forwarded-Proto": "https"})
    client.force_login(user)
    return client


def refusals(client: Client, role: AgentRole | None = None, **changes: Any) -> dict[str, Any]:
    """What the form refuses; empty if it was saved."""
    where = reverse("admin:chat_agentrole_change", args=[role.pk]) if role else reverse("admin:chat_agentrole_add")
    answer = client.post(where, {**FORM, **changes})
    return {} if answer.status_code == 302 else dict(answer.context["adminform"].form.errors)


def test_a_role_is_written_and_changed(client: Client) -> None:
    limits = {"max_steps": "3", "max_output_tokens": "500", "max_cost_usd": "0.25", "max_repeated_calls": "2"}
    assert refusals(client, model="openai/x", tools="add\n\n subtract \nadd", **limits) == {}
    role = AgentRole.objects.get()
    assert (role.name, role.model, role.tools) == ("Clerk", "openai/x", ["add", "subtract"])
    assert (role.max_steps, role.max_output_tokens, role.max_cost_usd, role.max_repeated_calls) == (3, 500, 0.25, 2)
    assert refusals(client, role, name="Scribe") == {}
    role.refresh_from_db()
    assert (role.name, role.tools, role.max_steps) == ("Scribe", None, None)


@pytest.mark.parametrize("name", list(AgentRole.LIMITS))
@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_limit_is_a_positive_number(name: str, value: str, client: Client) -> None:
    assert list(refusals(client, **{name: value})) == [name]


def test_a_tool_that_is_not_there_is_refused_by_its_name(client: Client) -> None:
    assert "divide" in str(refusals(client, tools="add\ndivide")["tools"])


def test_a_tool_of_a_known_server_may_be_named_while_the_server_is_away(client: Client) -> None:
    McpServer.objects.create(name="files", command="x")
    assert refusals(client, tools="files__read") == {}
    assert "mails__read" in str(refusals(client, name="b", tools="mails__read")["tools"])


def test_a_role_that_has_outlived_a_tool_can_still_be_edited(client: Client) -> None:
    role = AgentRole.objects.create(name="Old", tools=["gone"])
    assert refusals(client, role, tools="gone\nadd") == {}


def test_tools_that_cannot_be_loaded_are_told_of_and_nothing_is_taken_for_unknown(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Toolbox:
        raise ToolDefinitionError("The module 'x' is broken.")

    monkeypatch.setattr(toolbox, "toolbox", broken)
    monkeypatch.setattr(role_form, "toolbox", broken)
    assert "The module 'x' is broken." in client.get(reverse("admin:chat_agentrole_add")).text.replace("&#x27;", "'")
    assert "The module" in str(refusals(client, tools="add")["tools"])
    assert refusals(client) == {}


@pytest.mark.parametrize(("model", "taken"), [("demo/scripted", True), ("openai/any", True), ("nobody/any", False)])
def test_a_model_is_taken_if_it_is_offered_or_its_provider_known(model: str, taken: bool, client: Client) -> None:
    assert (refusals(client, model=model) == {}) is taken


def test_the_form_says_which_tools_models_and_limits_there_are(client: Client) -> None:
    page = client.get(reverse("admin:chat_agentrole_add")).text
    for text in ("add, subtract", "demo/scripted", "STUDIO_MAX_COST_USD"):
        assert text in page


def test_the_list_shows_what_each_role_may_use(client: Client) -> None:
    AgentRole.objects.create(name="Clerk", tools=["add"], max_output_tokens=12345)
    page = client.get(reverse("admin:chat_agentrole_changelist")).text
    assert "12345" in page
    assert "add" in page


def test_who_may_only_look_is_shown_the_role(client: Client) -> None:
    role = AgentRole.objects.create(name="Clerk", tools=["add"])
    User.objects.get().user_permissions.set(Permission.objects.filter(codename="view_agentrole"))
    assert "Clerk" in client.get(reverse("admin:chat_agentrole_change", args=[role.pk])).text


# In a turn


def test_its_limits_hold_instead_of_the_servers_higher_and_lower() -> None:
    site = Allowance(output_tokens=100, cost_usd=1.0, repeated_calls=3)
    assert AgentRole().allowance(site) == site
    role = AgentRole(max_output_tokens=500, max_cost_usd=0.5)
    assert role.allowance(site) == Allowance(output_tokens=500, cost_usd=0.5, repeated_calls=3)
    assert role.allowance(Allowance()) == Allowance(output_tokens=500, cost_usd=0.5)


@pytest.mark.parametrize("stored", ["add", {"add": 1}, [1, None], [], None])
def test_a_list_of_tools_that_is_none_offers_every_tool(stored: Any) -> None:
    assert AgentRole(tools=stored).tool_names is None


def test_a_turn_knows_its_role_as_it_is_now() -> None:
    role = AgentRole.objects.create(name="Clerk", instructions="Be brief.", tools=["add"], max_steps=2)
    started = start(role_id=str(role.pk))
    AgentRole.objects.update(instructions="Be long.", max_output_tokens=7)
    briefing = brief(started)
    assert briefing.role is not None
    assert briefing.role.instructions == "Be long."
    assert (briefing.tool_names, briefing.max_steps, briefing.allowance.output_tokens) == (["add"], 2, 7)


def test_a_turn_whose_role_is_deleted_goes_on_without_one() -> None:
    role = AgentRole.objects.create(name="Clerk", tools=["add"], max_steps=2)
    started = start(role_id=str(role.pk))
    role.delete()
    briefing = brief(started)
    assert (briefing.role, briefing.tool_names) == (None, None)


async def test_a_session_whose_role_is_deleted_is_answered_all_the_same(studio: Studio) -> None:
    role = await db(lambda: AgentRole.objects.create(name="Clerk", instructions="Be brief."))
    studio.answers(words(1), words(1))
    await studio.result(await studio.send(role_id=str(role.pk)))
    await db(role.delete)
    result = await studio.result(await studio.send("again"))
    assert result["ok"] is True
    prompts = [request.messages[0]["content"] for request in studio.model.requests]
    assert ["Be brief." in prompt for prompt in prompts] == [True, False]
    assert (await db(ChatSession.objects.get)).agent_role_id is None


async def test_the_roles_model_runs_and_its_tools_are_offered(studio: Studio, caplog: pytest.LogCaptureFixture) -> None:
    role = await db(lambda: AgentRole.objects.create(name="Clerk", model="test/other", tools=["subtract", "gone"]))
    studio.answers(words(1))
    started = await studio.send(role_id=str(role.pk))
    await studio.result(started)
    [request] = studio.model.requests
    assert (started.record.model, request.model) == ("test/other", "test/other")
    assert [each["function"]["name"] for each in request.tools] == ["subtract"]
    [logged] = [record for record in caplog.records if getattr(record, "action", "") == "role"]
    assert logged.getMessage() == "A role names tools that are not there: gone"


async def test_a_message_may_name_another_model_than_its_role(studio: Studio) -> None:
    role = await db(lambda: AgentRole.objects.create(name="Clerk", model="test/other"))
    studio.answers(words(1))
    started = await studio.send(role_id=str(role.pk), model="test/model")
    await studio.result(started)
    assert started.record.model == "test/model"
