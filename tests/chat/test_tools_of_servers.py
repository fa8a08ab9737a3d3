"""Turns and the tools of MCP servers: who is offered them, and a stop inside one of them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from chat.models import AgentRole
from kernel.abort import AbortReason
from kernel.llm import catalog, local
from kernel.llm.model import CallDelta, Finished
from kernel.mcp import roster as roster_module
from kernel.mcp.roster import roster_of
from tests.chat.live_studio import Studio
from tests.fakes import words
from tests.kernel.live import db
from tests.kernel.mcp.conftest import program, row
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

TOOLS = ["test__echo", "test__slow", "test__late", "test__die"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "received"


@pytest.fixture
async def served(
    studio: Studio, log: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Studio]:
    """A studio with one enabled server and no tools of its own."""
    settings.STUDIO_TOOLS_CHOSEN = False
    monkeypatch.setattr(catalog, "calls_tools", lambda _name: False)
    monkeypatch.setattr(roster_module, "PATIENCE_S", 3600)
    await row(program(log))
    yield studio
    await roster_of(studio.worker).close()


def offered(studio: Studio, request: int = 0) -> list[str]:
    return [spec["function"]["name"] for spec in studio.model.requests[request].tools]


def received(log: Path, method: str) -> list[dict[str, Any]]:
    messages = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    return [message for message in messages if message.get("method") == method]


async def test_to_enable_a_server_is_to_choose_its_tools(served: Studio) -> None:
    served.answers(words(3))
    await served.result(await served.send())
    assert offered(served) == TOOLS


async def test_a_role_chooses_among_the_tools_of_a_server(served: Studio) -> None:
    role = await db(lambda: AgentRole.objects.create(name="careful", tools=["test__slow", "unknown"]))
    served.answers(words(3))
    await served.result(await served.send(role_id=str(role.pk)))
    assert offered(served) == ["test__slow"]


async def test_the_local_model_takes_none_and_nothing_is_started_for_it(
    served: Studio, settings: Settings, log: Path
) -> None:
    settings.STUDIO_MODEL = local.NAME
    served.answers(words(3))
    await served.result(await served.send())
    assert offered(served) == []
    assert not log.exists()


async def test_what_a_tool_of_a_server_brings_goes_back_to_the_model(served: Studio) -> None:
    served.answers(call("test__echo", text="from the server"), words(3))
    await served.result(await served.send())
    assert served.model.requests[1].messages[-1]["content"] == "from the server"


async def test_a_stop_ends_a_turn_while_the_server_never_answers(served: Studio, log: Path) -> None:
    served.answers(call("test__slow"))
    started = await served.send()
    [request] = await eventually(lambda: log.exists() and received(log, "tools/call"))
    served.execution(started).controller.abort(AbortReason.SESSION_STOP)
    assert (await served.result(started))["abortReason"] == "session_stop"
    [notice] = await eventually(lambda: received(log, "notifications/cancelled"))
    assert notice["params"]["requestId"] == request["id"]


def call(name: str, **arguments: str) -> list[Any]:
    return [CallDelta(index=0, call_id="c1", name=name, arguments=json.dumps(arguments)), Finished(reason="tool_calls")]
