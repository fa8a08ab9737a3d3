"""The command that says which model answers."""

import io

import pytest
from django.core.management import call_command

from kernel.llm.catalog import ModelChoice
from studio.management.commands import which_model


def said(monkeypatch: pytest.MonkeyPatch, *models: ModelChoice) -> str:
    monkeypatch.setattr(which_model, "available_models", lambda: list(models))
    out = io.StringIO()
    call_command("which_model", stdout=out)
    return out.getvalue()


def test_it_names_the_default_and_what_else_may_be_chosen(monkeypatch: pytest.MonkeyPatch):
    text = said(
        monkeypatch,
        ModelChoice(id="openai/one", label="one", kind="configured", default=True),
        ModelChoice(id="demo/scripted", label="demo", kind="demo"),
    )
    assert text == "Answers come from openai/one.\nAlso to choose in the page: demo/scripted.\n"


def test_it_says_that_the_demo_is_no_model_and_how_to_have_one(monkeypatch: pytest.MonkeyPatch):
    text = said(monkeypatch, ModelChoice(id="demo/scripted", label="demo", kind="demo", default=True))
    assert "It is no model" in text
    assert "STUDIO_MODEL" in text


DEMO = ModelChoice(id="demo/scripted", label="demo", kind="demo", default=True)


def test_it_warns_of_a_named_model_that_no_provider_has(monkeypatch: pytest.MonkeyPatch, settings):
    settings.STUDIO_MODEL = "gpt5typo/nothing"
    named = ModelChoice(id="gpt5typo/nothing", label="", kind="configured", default=True)
    assert "\nWarning: No provider is known for the model 'gpt5typo/nothing'." in said(monkeypatch, named, DEMO)


def test_it_warns_of_a_local_model_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(which_model, "local_model_installed", lambda: False)
    local = ModelChoice(id="local/smollm2", label="", kind="local", default=True)
    assert "Warning: The local model is not installed." in said(monkeypatch, local, DEMO)
