"""What a start costs: apps, models, admin and commands load no provider's library, so that panic works at once."""

import subprocess
import sys

import pytest

HEAVY = ("litellm", "openai", "aiohttp", "xllamacpp", "httpx", "tiktoken", "tokenizers", "mcp")
COMMANDS = """
import django
django.setup()
from django.core.management import get_commands, load_command_class
for name, app in get_commands().items():
    if app in ("kernel", "chat", "studio"):
        load_command_class(app, name)
"""
LOADED = f"print(*(name for name in {HEAVY!r} if name in sys.modules))"


def loaded_by(code: str) -> str:
    """Which of the heavy modules a fresh Python has loaded after `code`."""
    code = f"import os, sys\nos.environ['DJANGO_SETTINGS_MODULE'] = 'studio.settings'\n{code}\n{LOADED}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "import django; django.setup(); import chat.turns, kernel.control, kernel.runner, kernel.agent",
        "import django; django.setup(); from django.contrib import admin; admin.autodiscover()",
        "import studio.asgi",
        COMMANDS,
    ],
    ids=["apps and models", "admin", "the server's application", "commands"],
)
def test_no_providers_library_is_loaded_by(code: str) -> None:
    assert loaded_by(code) == ""
