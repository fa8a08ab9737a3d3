"""What is wrong with a model's name or key, as far as that can be told without asking its provider."""

import os

from kernel.llm.errors import UNKNOWN
from kernel.llm.library import load

NOT_SET = "{model!r} usually needs {variables} in the server's environment, and that is not set."
# The catalog knows where it is, and it wants no key.
KEYLESS = ("ollama", "ollama_chat")


async def complaint(model: str) -> str:
    """One sentence for whoever starts the server, empty if there is nothing to say. Imports litellm."""
    litellm = await load()
    try:
        provider = litellm.get_llm_provider(model)[1]
    except litellm.BadRequestError:
        return UNKNOWN.format(model=model)
    missing = [] if provider in KEYLESS else _missing(provider, litellm.validate_environment(model)["missing_keys"])
    return NOT_SET.format(model=model, variables=" and ".join(missing)) if missing else ""


def _missing(provider: str, told: list[str]) -> list[str]:
    """The variables that are not set, by the provider's own names where litellm tells others too, or set and blank."""
    own = f"{provider.upper()}_"
    blank = [name for name in (f"{own}API_KEY",) if name in os.environ and not os.environ[name].strip()]
    return [name for name in told if name.startswith(own)] or told or blank
