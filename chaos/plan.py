"""What happens in a round, as a pure function of the seed and the round's number: a failure replays with the same plan.

A round is what several tabs of several people do at once, each its own operations in order, and what breaks meanwhile.
Which message or queue item an operation means is known only when it happens: it carries a number in [0, 1) to pick by.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

OPERATIONS = 120  # in a round
TABS = ("ann", "ann", "ann", "bob", "bob", "bob", "op", "op")  # whose tab each is; op may panic
SLOTS = 3  # sessions of a person at a time
PAUSE_S = 0.35
LEASE_S = 4.0

VERBS = {
    "send": 30,
    "send_interrupt": 7,
    "send_reject": 3,
    "stop": 10,
    "stop_execution": 4,
    "stop_foreign": 1,
    "send_now": 8,
    "send_now_twice": 2,
    "queue_edit": 4,
    "queue_remove": 3,
    "queue_move": 3,
    "queue_hold": 4,
    "queue_let_go": 3,
    "continue": 5,
    "regenerate": 5,
    "resend": 4,
    "reload": 4,
    "vanish": 2,
    "second_tab": 2,
    "slow_tab": 1,
    "rename": 2,
    "delete": 2,
    "list": 2,
}
OPERATORS_VERBS = VERBS | {"panic": 3, "panic_hold": 3, "panic_scope": 2, "release": 12}

# Kinds of faults and how often they come; the first group strikes one worker, and each worker at most once in a round.
WORKER_FAULTS = {"kill": 4, "freeze": 3, "freeze_long": 3, "terminate": 3, "clock": 2}
SERVER_FAULTS = {"redis_kill": 3, "redis_freeze": 2, "postgres_restart": 3}
# How a round comes to rest: everything ends by itself, each session is stopped, or a panic stops them all.
RESTS = {"drain": 3, "stop": 2, "panic": 2}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Something that a person does. `orders` are the provider's, for what this sends."""

    number: int
    tab: int
    verb: str
    slot: int
    pause_s: float
    pick: float
    worker: int
    orders: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that breaks, `after_s` into the round and for `lasts_s`. Workers are counted modulo how many run."""

    kind: str
    worker: int
    after_s: float
    lasts_s: float


@dataclass(frozen=True, kw_only=True)
class Round:
    seed: int
    number: int
    operations: tuple[Operation, ...]
    faults: tuple[Fault, ...]
    rest: str

    def of_tab(self, tab: int) -> list[Operation]:
        return [operation for operation in self.operations if operation.tab == tab]


def rounds(seed: int, operations: int) -> Iterator[Round]:
    """The rounds of a campaign of that many operations."""
    for number in range(-(-operations // OPERATIONS)):
        yield plan(seed, number)


def plan(seed: int, number: int) -> Round:
    """The round of this number."""
    dice = random.Random(f"{seed}:{number}")  # noqa: S311  a plan, not a secret
    operations = tuple(_operation(dice, index) for index in range(OPERATIONS))
    return Round(
        seed=seed, number=number, operations=operations, faults=tuple(_faults(dice)), rest=_weighted(dice, RESTS)
    )


def _operation(dice: random.Random, number: int) -> Operation:
    tab = dice.randrange(len(TABS))
    return Operation(
        number=number,
        tab=tab,
        verb=_weighted(dice, OPERATORS_VERBS if TABS[tab] == "op" else VERBS),
        slot=dice.randrange(SLOTS),
        pause_s=round(dice.uniform(0, PAUSE_S), 3),
        pick=dice.random(),
        worker=dice.randrange(6),
        orders=_orders(dice),
    )


def _faults(dice: random.Random) -> Iterator[Fault]:
    workers = dice.sample(range(6), 6)
    struck = list(itertools.accumulate((0.85, 0.25), lambda first, second: first * second))
    for worker, likely in zip((workers[0], workers[0] + 1), struck, strict=True):
        if dice.random() < likely:
            kind = _weighted(dice, WORKER_FAULTS)
            yield Fault(kind=kind, worker=worker, after_s=_when(dice), lasts_s=_how_long(dice, kind))
    if dice.random() < 0.45:
        kind = _weighted(dice, SERVER_FAULTS)
        yield Fault(kind=kind, worker=0, after_s=_when(dice), lasts_s=_how_long(dice, kind))


def _when(dice: random.Random) -> float:
    return round(dice.uniform(0.2, 2.5), 2)


def _how_long(dice: random.Random, kind: str) -> float:
    shortest, longest = {
        "freeze": (0.3, 2.0),
        "freeze_long": (LEASE_S + 1, LEASE_S + 2),
        "redis_kill": (0.1, 4),
        "redis_freeze": (0.5, 4),
        "postgres_restart": (0, 1),
        "clock": (1, 3),
    }.get(kind, (0, 1))
    return round(dice.uniform(shortest, longest), 2)


def _orders(dice: random.Random) -> dict[str, Any]:
    """How the provider answers what this operation sends."""
    orders = dict(_weighted(dice, dict(_ANSWERS))(dice))
    if dice.random() < 0.1:
        orders["reason"] = dice.randint(1, 4)
    if dice.random() < 0.1:
        orders["usage"] = 0
    return orders


def _position(dice: random.Random) -> int:
    return dice.choice((0, 1, 2, 5, 12))


def _tool(dice: random.Random) -> dict[str, Any]:
    calls = {
        "add": {"a": dice.randint(0, 99), "b": dice.randint(0, 99)},
        "wait_async": {"seconds": dice.choice((0.2, 1, 480))},
        "wait_in_thread": {"seconds": dice.choice((0.2, 1.5))},
        "wait_deaf": {"seconds": 1},
        "fail": {"text": "on-purpose"},
    }
    names = dice.choices(list(calls), weights=(6, 4, 2, 1, 1), k=dice.choice((1, 1, 1, 2, 3)))
    chosen = [(name, calls[name]) for name in names]
    return {"call": chosen, "pre": dice.choice((0, 3)), "n": 6, "turns": dice.choice((1, 1, 2))}


_ANSWERS = (
    (lambda dice: {"n": dice.randint(1, 12)}, 20),
    (lambda dice: {"n": dice.randint(10, 80), "rate": dice.choice((20, 40, 80))}, 22),
    (lambda dice: {"n": 3000, "rate": 40}, 10),
    (lambda dice: {"n": 400, "pad": 200}, 2),
    (lambda dice: {"n": 20, "hang": _position(dice)}, 6),
    (lambda dice: {"hdr": "inf"}, 3),
    (lambda dice: {"ttft": "inf"}, 3),
    (lambda dice: {"hdr": round(dice.uniform(0.2, 1.5), 2)}, 4),
    (lambda dice: {"ttft": round(dice.uniform(0.2, 1.5), 2), "n": 8, "rate": 20}, 3),
    (lambda dice: {"n": 20, "rate": 40, dice.choice(("reset", "cut", "eof", "error", "garbage")): _position(dice)}, 9),
    (lambda dice: {"status": dice.choice((429, 500, 503)), "fails": dice.choice((1, 1, 2, 9)), "after": "0.3"}, 5),
    (lambda dice: {"status": 429, "after": "30"}, 2),
    (lambda dice: {"status": 401}, 1),
    (_tool, 14),
    (lambda dice: {"call": [("add", {"a": 1, "b": 2})], "hangargs": dice.choice((0, 1))}, 2),
)


def _weighted(dice: random.Random, weights: dict[Any, float]) -> Any:
    return dice.choices(list(weights), weights=list(weights.values()))[0]
