"""Stop and panic as an operator gives them, in the admin and on the command line.

The orders are control's own, given by the worker of the running event loop: the server's, which strikes at once what it
owns; or, on the command line, one that never started and owns nothing. Whatever is owned elsewhere reads its intent.
"""

import time
from collections.abc import Iterable

from django.db.models import Q
from django.dispatch import Signal

from kernel import control
from kernel.abort import AbortReason
from kernel.control import Counts, HoldOrder, Ordered, Target
from kernel.models import Intent
from kernel.worker import this_worker

# While an order is waited for, orphans among what it named are looked for this often.
LOOK_FOR_ORPHANS_S = 1.0

# Asked, with the `target`, how much waits to run there; receivers return a number.
waiting_asked = Signal()


async def panic(*, by: str, source: str, why: str = "", hold: bool, user_id: int | None, model: str) -> Ordered:
    """Abort everything, or everything of a user or a model; with `hold`, refuse new runs until it is released."""
    target = Target(user_id=user_id, model=model or None)
    intent = Intent(reason=AbortReason.PANIC_STOP, by=by, source=source, why=why)
    hold_order = HoldOrder(reason=why, by=by, user_id=user_id, model=model) if hold else None
    return await control.order(this_worker(), target, intent, hold=hold_order, alone=True)


async def stop(targets: Iterable[Target], *, by: str, source: str) -> Ordered:
    """Stop each target by an order of its own, so that each locks only its own session."""
    intent = Intent(reason=AbortReason.SESSION_STOP, by=by, source=source)
    all_ordered = Ordered(struck=[])
    struck = {target: control.strike(this_worker(), target, intent) for target in targets}  # all, before any waits
    for target in struck:
        ordered = await control.order(this_worker(), target, intent, struck=struck[target])
        all_ordered.struck += ordered.struck
        all_ordered.ids += ordered.ids
        all_ordered.channels |= ordered.channels
        all_ordered.failed |= ordered.failed
    return all_ordered


async def confirmed(ordered: Ordered, wait_s: float) -> Counts:
    """Wait for the owners, `wait_s` at most, and count; an owner whose lease runs out is waited for no more."""
    this_worker().bus.speak()
    give_up_s = time.monotonic() + wait_s
    while True:
        left_s = max(0.0, give_up_s - time.monotonic())
        counts = await control.confirm(this_worker(), ordered, active=Q(), wait_s=min(left_s, LOOK_FOR_ORPHANS_S))
        if counts.failed or not counts.unconfirmed or not left_s:
            return counts


def waiting(target: Target) -> int:
    """How much waits to run in `target`, and stays put while it is held."""
    return sum(int(count or 0) for _, count in waiting_asked.send(sender=Target, target=target))
