"""An operator's doors on a real studio: the shell, with parts down or broken, and the admin under Daphne."""

import asyncio
import json
import os
import pwd
import re
import signal
import subprocess
import sys
from typing import Any

import aiohttp
import pytest

from tests.client import CSRF_FIELD, StudioClient
from tests.processes.conftest import StudioMaker
from tests.processes.harness import EXIT_TIMEOUT_S, ROOT, Studio, environment
from tests.provider import Provider
from tests.provider_script import directive
from tests.waiting import eventually

pytestmark = pytest.mark.processes

ME = pwd.getpwuid(os.getuid()).pw_name
# With this poll, nothing but the operator's own process can have told the owner.
NO_POLL_S = "60"


def start(studio: Studio, *arguments: str, **changes: str) -> "subprocess.Popen[str]":
    """Start manage.py on the studio's database with --json."""
    return subprocess.Popen(
        [sys.executable, "manage.py", *arguments, "--json"],
        cwd=ROOT,
        env=environment(studio.directory, "http://127.0.0.1:1/v1", **changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_ctrl_c,
    )


def _hear_ctrl_c() -> None:
    """Tests that were started in the background of a shell ignore Ctrl-C, and what they start would inherit it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def answer(process: "subprocess.Popen[str]") -> tuple[int, Any]:
    """Its exit code and the one value that it printed."""
    out, errors = await asyncio.to_thread(process.communicate, timeout=EXIT_TIMEOUT_S)
    assert out, errors
    return process.returncode, json.loads(out)


async def run(studio: Studio, *arguments: str, **changes: str) -> tuple[int, Any]:
    return await answer(start(studio, *arguments, **changes))


async def hang(client: StudioClient, provider: Provider, key: str) -> str:
    """Start a turn that has said something and hangs; return its execution's id."""
    reply = await client.send(key, directive(id=key, hang=3, n=9))
    await provider.wait_deltas(key, 3)
    return reply["executionId"]


async def post(studio: Studio, path: str, **fields: Any) -> str:
    """Send a form of the admin as `op`; return the page that answers."""
    url = f"{studio.base_url}{path}"
    cookies = await studio.cookies("op")
    async with aiohttp.ClientSession(cookies=cookies, cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        async with browser.get(url) as page:
            token = CSRF_FIELD.search(await page.text())
            assert token, f"no form at {path} ({page.status})"
        form = {"csrfmiddlewaretoken": token[1], **fields}
        async with browser.post(url, data=form, headers={"Referer": url}) as page:
            return await page.text()


async def test_panic_all_stops_what_runs_elsewhere_and_says_who(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    execution_id = await hang(ann, provider, key)
    code, told = await run(studio, "panic_all", "--reason", "fire")
    assert (code, told["abortedCount"], told["unconfirmedCount"], told["activeCount"]) == (0, 1, 0, 0)
    result = await ann.result(execution_id)
    assert (result["status"], result["abortReason"], result["error"]) == (
        "aborted",
        "panic_stop",
        "Execução interrompida por Pânico.",
    )
    assert (result["stop"]["by"], result["stop"]["source"]) == (ME, "command")
    await provider.wait_closed(key)


async def test_panic_all_works_with_half_broken_settings_and_an_unreachable_broker(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    await hang(ann, provider, key)
    broken = {"STUDIO_MODEL": "no/such-model", "STUDIO_TOOLS": "no.such.module", "REDIS_URL": "redis://127.0.0.1:1/0"}
    code, told = await run(studio, "panic_all", **broken)
    assert (code, told["abortedCount"]) == (0, 1)


async def test_stop_session_stops_one_session(studio: Studio, ann: StudioClient, provider: Provider, key: str) -> None:
    execution_id = await hang(ann, provider, key)
    other = await hang(ann, provider, f"{key}-other")
    code, told = await run(studio, "stop_session", key)
    assert (code, told["abortedCount"], told["activeCount"]) == (0, 1, 1)
    assert (await ann.result(execution_id))["abortReason"] == "session_stop"
    assert studio.execution_row(other)["status"] == "running"
    await ann.stop(f"{key}-other")


async def test_panic_all_with_hold_refuses_new_runs_until_panic_release(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    code, told = await run(studio, "panic_all", "--hold", "--reason", "bill", "--user", "ann")
    try:
        assert (code, told["hold"]["scope"]) == (0, {"user": "ann"})
        refused = await ann.call("studio_chat_send", sessionKey=key, text=directive(id=key, n=1))
        assert (refused["ok"], refused["code"]) == (False, "held")
    finally:
        assert (await run(studio, "panic_release", told["hold"]["id"]))[1]["released"] is True
    assert (await ann.send(key, directive(id=key, n=1)))["ok"]


async def test_panic_all_with_the_web_tier_dead_waits_for_the_lease_and_settles(
    make_studio: StudioMaker, provider: Provider, key: str
) -> None:
    studio = make_studio(STUDIO_LEASE_S="4")
    async with await studio.connect("ann") as ann:
        execution_id = await hang(ann, provider, key)
        studio.kill()
    code, told = await run(studio, "panic_all", "--wait", "15")
    assert (code, told["abortedCount"], told["activeCount"]) == (0, 1, 0)
    row = studio.execution_row(execution_id)
    assert (row["status"], row["abort_reason"], row["requested_by"]) == ("aborted", "panic_stop", ME)
    assert studio.streaming_messages() == []


async def test_ctrl_c_ends_the_wait_and_the_owner_obeys_when_it_wakes(
    make_studio: StudioMaker, provider: Provider, key: str
) -> None:
    studio = make_studio(STUDIO_LEASE_S="60")
    async with await studio.connect("ann") as ann:
        execution_id = await hang(ann, provider, key)
        studio.stop_process()
        panic = start(studio, "panic_all", "--wait", "60")
        await eventually(lambda: studio.execution_row(execution_id)["intent"])
        panic.send_signal(signal.SIGINT)
        code, told = await answer(panic)
        assert (code, told["unconfirmedCount"], told["activeCount"]) == (3, 1, 1)
        studio.continue_process()
        assert (await ann.result(execution_id))["abortReason"] == "panic_stop"


async def test_the_admin_strikes_at_once_what_its_own_server_runs(
    make_studio: StudioMaker, provider: Provider, key: str
) -> None:
    studio = make_studio(STUDIO_POLL_S=NO_POLL_S)
    async with await studio.connect("ann") as ann:
        one, two = await hang(ann, provider, key), await hang(ann, provider, f"{key}-two")
        chosen = {"action": "stop_selected", "_selected_action": one}
        page = await post(studio, "/admin/kernel/executionrecord/", **chosen)
        assert re.search(r"Stopped: 1\. Not confirmed: 0\.", page)
        result = await ann.result(one)
        assert (result["abortReason"], result["stop"]["by"], result["stop"]["source"]) == (
            "session_stop",
            "op",
            "admin",
        )
        assert studio.execution_row(two)["status"] == "running"
        page = await post(studio, "/admin/kernel/executionrecord/panic/", confirmed="on", reason="fire")
        assert re.search(r"Stopped: 1\. Not confirmed: 0\.", page)
        assert (await ann.result(two))["abortReason"] == "panic_stop"
