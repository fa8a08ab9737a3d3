"""manage.py tells a wrong setting in one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings


def ended(*arguments: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "manage.py", *arguments]
    env = {**os.environ, **changes}
    return subprocess.run(command, cwd=Path(settings.BASE_DIR), env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["migrate", "which_model"])
@pytest.mark.parametrize(("name", "value"), [("STUDIO_TIMEOUT_S", "abc"), ("DATABASE_URL", "mysql://x")])
def test_a_wrong_setting_is_told_in_one_line(command: str, name: str, value: str) -> None:
    done = ended(command, **{name: value})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{name} must be ")
    assert done.stderr.count("\n") == 1


def test_the_traceback_can_be_had() -> None:
    done = ended("migrate", "--traceback", STUDIO_TIMEOUT_S="abc")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
