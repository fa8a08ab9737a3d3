"""Say which model answers when nobody chooses one, and how to have another."""

import asyncio
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from kernel.llm.catalog import ModelChoice, available_models
from kernel.llm.litellm_model import lane_of
from kernel.llm.local import NOT_INSTALLED, local_model_installed
from kernel.llm.preflight import complaint

ABOUT = {
    "configured": "",
    "local": "It runs on this machine, needs no key, and is very small: good for a try, not for work.",
    "demo": "It is no model: it plays scripts that show the studio.",
}
HOW_TO_CHANGE = (
    "For another model set a provider's key or STUDIO_MODEL, then start again (README.md, “Choosing a model”)."
)


class Command(BaseCommand):
    """Prints the default first, then what else may be chosen in the page."""

    help = "Print which model answers."

    def handle(self, **options: Any) -> None:
        default, *others = available_models()
        self.stdout.write(f"Answers come from {default.id}. {ABOUT[default.kind]}".rstrip())
        if default.kind == "configured" and settings.STUDIO_MODEL:
            self.stdout.write(f"It is asked {asyncio.run(lane_of(default.id))}.")
        if warning := _warning(default):
            self.stdout.write(self.style.WARNING(f"Warning: {warning}"))
        self.stdout.write(f"Also to choose in the page: {', '.join(choice.id for choice in others) or 'none'}.")
        if default.kind != "configured":
            self.stdout.write(HOW_TO_CHANGE)


def _warning(default: ModelChoice) -> str:
    """What is wrong with a model that was named: one that was found needs no look, nor litellm's seconds."""
    if default.kind == "local" and not local_model_installed():
        return NOT_INSTALLED
    return asyncio.run(complaint(default.id)) if default.kind == "configured" and settings.STUDIO_MODEL else ""
