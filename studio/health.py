"""Is this process alive, and can it do its work? Names what is wrong, and no secrets."""

import time

from django.db import connection
from django.http import HttpRequest, JsonResponse

from kernel import conf, lanes
from kernel.worker import this_worker

# The poll is late when it has missed this many turns.
LATE_POLLS = 5


async def healthz(_request: HttpRequest) -> JsonResponse:
    """200 while the event loop turns."""
    return JsonResponse({"ok": True})


async def readyz(_request: HttpRequest) -> JsonResponse:
    """200 when the database answers, the poll is on time and the broker, if any, is heard; else 503 with what is wrong.

    A broker that is not heard makes this worker slower, not wrong: stops go by the poll.
    """
    checks = {"database": await _database(), "poll": _poll(), "broker": _broker()}
    wrong = {name: what for name, what in checks.items() if what}
    return JsonResponse({"ok": not wrong, "wrong": wrong}, status=503 if wrong else 200)


async def _database() -> str:
    try:
        await lanes.control.run(_ask_database)
    except lanes.FAILURES as error:
        return f"the database does not answer ({type(error).__name__})"
    return ""


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _poll() -> str:
    worker = this_worker()
    if worker.draining:
        return "this worker is shutting down"
    if worker.polled_s is None:  # nothing has run here yet
        return ""
    late_s = time.monotonic() - worker.polled_s
    return f"the intent poll is {late_s:.1f} s late" if late_s > conf.poll_s() * LATE_POLLS + 1 else ""


def _broker() -> str:
    bus = this_worker().bus
    return "the broker is not heard; stops between workers go by the poll" if bus.is_open and not bus.hears else ""
