"""Which models there are, and which one answers when nobody chose.

First what `STUDIO_MODEL` says, else the first provider whose key is in the environment (OpenAI's is not taken where
`OPENAI_API_BASE` names another server: which models that has, nobody knows), else an Ollama on this machine,
else the small local model if it is installed, else the scripted demo. The page offers
`available_models()`; a program may name any model that litellm knows.
The first call may look for an Ollama, for `PROBE_S` at most: make it in a thread, not on the event loop.
"""

import asyncio
import functools
import json
import logging
import os
import urllib.request
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from django.conf import settings

from kernel import conf
from kernel.llm import demo, library, local
from kernel.llm.demo import DemoModel
from kernel.llm.litellm_model import LitellmModel
from kernel.llm.local import LocalModel, local_model_installed
from kernel.llm.model import Model

logger = logging.getLogger(__name__)

# In the order in which they are preferred. Each model is the provider's smaller current one that calls tools well.
PROVIDERS = {
    "OPENAI_API_KEY": "openai/gpt-5.4-mini",
    "ANTHROPIC_API_KEY": "anthropic/claude-haiku-5-5",
    "GEMINI_API_KEY": "gemini/gemini-flash-latest",
    "GROQ_API_KEY": "groq/openai/gpt-oss-120b",
    "MISTRAL_API_KEY": "mistral/mistral-medium-latest",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-v4-flash",
    "OPENROUTER_API_KEY": "openrouter/openrouter/auto",
}
OPENAI = "https://api.openai.com/v1"
OLLAMA = "http://127.0.0.1:11434"
OLLAMA_PREFIXES = ("ollama/", "ollama_chat/")
PROBE_S = 0.3

UNANSWERED = (OSError, ValueError, KeyError, TypeError)

Kind = Literal["configured", "local", "demo"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """One model that a person may choose. `id` is what `model_named` takes, `label` is what they read."""

    id: str
    label: str
    kind: Kind
    default: bool = False


def default_model() -> str:
    """The id of the model that answers when nobody chose."""
    return available_models()[0].id


def available_models() -> list[ModelChoice]:
    """What may be chosen, without repetition; the default is the first."""
    names = [settings.STUDIO_MODEL] if settings.STUDIO_MODEL else []
    names += [model for variable, model in PROVIDERS.items() if _usable(variable)]
    names += ollama_models()
    names += [local.NAME] if local_model_installed() else []
    names += [demo.NAME]
    first, *others = dict.fromkeys(names)
    return [_choice(first, default=True), *map(_choice, others)]


def model_named(name: str) -> Model:
    """The model behind an id of this catalog, or behind any model string that litellm knows. May ask an Ollama."""
    match _kind(name):
        case "demo":
            return DemoModel()
        case "local":
            return LocalModel(fast=conf.fast_lane())
    if not name.startswith(OLLAMA_PREFIXES):
        return LitellmModel(name=name, fast=conf.fast_lane())
    # Without it, litellm asks for Ollama under the name `localhost`, where it may not listen.
    os.environ.setdefault("OLLAMA_API_BASE", OLLAMA)
    return LitellmModel(name=name, takes_tools=_takes_tools(name.partition("/")[2]))


async def ready_model(name: str) -> Model:
    """`model_named`, with what it needs imported and learned: that is our time, and no clock of the provider runs."""
    model = await asyncio.to_thread(model_named, name) if name.startswith(OLLAMA_PREFIXES) else model_named(name)
    if isinstance(model, LitellmModel):
        await model.find_route()
    elif isinstance(model, LocalModel):
        await library.load()
    return model


def calls_tools(name: str) -> bool:
    """Whether the model is known to call tools. For a model that `ready_model` has made ready."""
    match _kind(name):
        case "demo":
            return True
        case "local":
            return False
    return name.startswith(OLLAMA_PREFIXES) or library.calls_tools(name)


def price(name: str, input_tokens: int, output_tokens: int) -> float | None:
    """What so many tokens of the model cost in USD; None where no price is known, as for what runs here."""
    return library.cost_usd(name, input_tokens, output_tokens) if _kind(name) == "configured" else None


@functools.cache
def ollama_models() -> list[str]:
    """The models of an Ollama at `OLLAMA_API_BASE` or on this machine; none if it does not answer. Asked once."""
    try:
        return [f"ollama_chat/{model['name']}" for model in _ollama("tags")["models"]]
    except UNANSWERED as error:
        logger.debug("No Ollama answers: %s", error)
        return []


def _takes_tools(model: str) -> bool:
    """Whether Ollama says so of one of its models: it refuses requests that offer tools to the others."""
    try:
        return "tools" in _abilities(model)
    except UNANSWERED as error:
        logger.debug("Ollama does not tell what %r can do: %s", model, error)
        return True


@functools.cache
def _abilities(model: str) -> list[str]:
    return _ollama("show", {"model": model})["capabilities"]


def _ollama(what: str, question: dict[str, str] | None = None) -> dict[str, Any]:
    base = os.environ.get("OLLAMA_API_BASE") or OLLAMA
    # Straight, past any proxy: it is this machine, or one named on purpose.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    data = json.dumps(question).encode() if question else None
    with opener.open(f"{base.rstrip('/')}/api/{what}", data, timeout=PROBE_S) as answer:
        return json.load(answer)


def _usable(variable: str) -> bool:
    """Whether the provider's key is set, and is for that provider: OpenAI's may go with another server's address."""
    bases = (os.environ.get(name, "").strip() for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"))
    host = urlsplit(next(filter(None, bases), OPENAI)).hostname or ""
    elsewhere = variable == "OPENAI_API_KEY" and not host.endswith("openai.com")
    return bool(os.environ.get(variable, "").strip()) and not elsewhere


def _choice(name: str, default: bool = False) -> ModelChoice:
    labels = {local.NAME: local.LABEL, demo.NAME: demo.LABEL}
    return ModelChoice(id=name, label=labels.get(name, name), kind=_kind(name), default=default)


def _kind(name: str) -> Kind:
    provider = name.partition("/")[0]
    return provider if provider in ("local", "demo") else "configured"  # type: ignore[return-value]  # just tested
