"""The catalog: which model answers, and which may be chosen."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from kernel.llm import catalog, demo, local
from kernel.llm.catalog import PROVIDERS, available_models, default_model, model_named
from kernel.llm.demo import DemoModel
from kernel.llm.litellm_model import LitellmModel
from kernel.llm.local import LocalModel
from kernel.llm.model import ModelRequest

ABILITIES = {"llama3.2:3b": ["completion", "tools"], "gemma3": ["completion", "vision"]}
NOBODY = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, settings) -> Iterator[None]:
    """Nothing configured, no Ollama, no local model."""
    settings.STUDIO_MODEL = ""
    for variable in PROVIDERS:
        monkeypatch.delenv(variable, raising=False)
    for variable in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OLLAMA_API_BASE", NOBODY)
    monkeypatch.setattr(catalog, "local_model_installed", lambda: False)
    catalog.ollama_models.cache_clear()
    catalog._abilities.cache_clear()
    yield
    catalog.ollama_models.cache_clear()
    catalog._abilities.cache_clear()


@pytest.fixture
def _local_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "local_model_installed", lambda: True)


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """An Ollama with two models; yields the paths that it is asked for."""
    asked: list[str] = []

    class Tags(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"models": [{"name": "llama3.2:3b"}, {"name": "qwen3"}]}).encode())

        def do_POST(self) -> None:
            model = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["model"]
            asked.append(f"{self.path} {model}")
            if model not in ABILITIES:
                self.send_error(404)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"capabilities": ABILITIES[model]}).encode())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Tags) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OLLAMA_API_BASE", f"http://127.0.0.1:{server.server_port}")
        yield asked
        server.shutdown()
        thread.join()


def test_on_a_bare_machine_the_labelled_demo_answers():
    (only,) = available_models()
    assert (only.id, only.kind, only.default) == (demo.NAME, "demo", True)
    assert "demo" in only.label.lower()


@pytest.mark.usefixtures("_local_model")
def test_the_local_model_comes_before_the_demo():
    assert [choice.id for choice in available_models()] == [local.NAME, demo.NAME]
    assert default_model() == local.NAME


@pytest.mark.usefixtures("_local_model")
def test_ollama_comes_before_the_local_model(ollama: list[str]):
    assert default_model() == "ollama_chat/llama3.2:3b"
    assert "ollama_chat/qwen3" in [model.id for model in available_models()]


def test_ollama_is_asked_once(ollama: list[str]):
    available_models()
    available_models()
    assert ollama == ["/api/tags"]


@pytest.mark.parametrize("variable", PROVIDERS)
def test_a_provider_key_comes_before_ollama(variable: str, monkeypatch: pytest.MonkeyPatch, ollama: list[str]):
    monkeypatch.setenv(variable, "a-key")
    assert default_model() == PROVIDERS[variable]


@pytest.mark.parametrize("blank", ["", " "])
def test_a_blank_key_is_no_key(blank: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", blank)
    assert default_model() == demo.NAME


@pytest.mark.parametrize("variable", ["OPENAI_API_BASE", "OPENAI_BASE_URL"])
def test_openais_model_is_not_offered_where_its_key_is_for_another_server(
    variable: str, settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv(variable, "http://127.0.0.1:9000/v1")
    assert default_model() == demo.NAME
    settings.STUDIO_MODEL = PROVIDERS["OPENAI_API_KEY"]
    assert default_model() == PROVIDERS["OPENAI_API_KEY"]


@pytest.mark.parametrize("address", ["https://eu.api.openai.com/v1", "https://api.openai.com/v1", " "])
def test_openais_own_addresses_are_openai(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("OPENAI_API_BASE", address)
    assert default_model() == PROVIDERS["OPENAI_API_KEY"]


def test_the_setting_comes_first_and_the_rest_stays_choosable(settings, monkeypatch: pytest.MonkeyPatch):
    settings.STUDIO_MODEL = "openai/my-model"
    monkeypatch.setenv("GROQ_API_KEY", "a-key")
    assert [choice.id for choice in available_models()] == [
        "openai/my-model",
        PROVIDERS["GROQ_API_KEY"],
        demo.NAME,
    ]


@pytest.mark.parametrize("name", [demo.NAME, PROVIDERS["OPENAI_API_KEY"], "openai/other"])
def test_exactly_one_model_is_the_default_and_none_is_listed_twice(name, settings, monkeypatch: pytest.MonkeyPatch):
    settings.STUDIO_MODEL = name
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    models = available_models()
    assert [choice.id for choice in models if choice.default] == [name]
    assert len({choice.id for choice in models}) == len(models)


def test_a_name_leads_to_its_model():
    assert isinstance(model_named("demo/scripted"), DemoModel)
    assert isinstance(model_named("local/smollm2"), LocalModel)
    assert isinstance(model_named("openai/anything"), LitellmModel)


def test_an_ollama_model_is_asked_where_the_catalog_found_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OLLAMA_API_BASE")
    model_named("ollama_chat/qwen3")
    assert os.environ["OLLAMA_API_BASE"] == catalog.OLLAMA
    monkeypatch.setenv("OLLAMA_API_BASE", "http://elsewhere")
    model_named("ollama_chat/qwen3")
    assert os.environ["OLLAMA_API_BASE"] == "http://elsewhere"


@pytest.mark.parametrize(("model", "taken"), [("llama3.2:3b", True), ("gemma3", False), ("unknown", True)])
async def test_an_ollama_model_is_offered_tools_unless_ollama_says_that_it_takes_none(
    model: str, taken: bool, ollama: list[str]
):
    found = await catalog.ready_model(f"ollama_chat/{model}")
    offered = ModelRequest(model=model, messages=[], tools=[{"type": "function"}])
    assert ("tools" in found._arguments(model, offered)) is taken
    assert ollama == [f"/api/show {model}"]


def test_the_table_of_providers_names_models_that_litellm_knows():
    code = (
        "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; os.environ['LITELLM_OFFLINE_MODE'] = 'true'\n"
        "import sys, litellm\n"
        "for name in sys.argv[1:]: assert litellm.get_model_info(name)['mode'] == 'chat', name"
    )
    names = [name for name in PROVIDERS.values() if not name.startswith("openrouter/")]  # it chooses the model itself
    subprocess.run([sys.executable, "-c", code, *names], check=True)


def test_the_catalog_is_loaded_without_litellm():
    code = "import sys, kernel.llm.catalog; assert 'litellm' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
