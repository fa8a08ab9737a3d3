"""What one turn may use, as a guard against runaways: output tokens, cost, the same call over and over. Pure.

A turn that reaches a limit ends in `LimitReached`: an error with a stable `finish_reason`, never an abort, so that what
had arrived is kept and nothing follows by itself. An answer that is complete stays complete, whatever it has used.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernel.errors import ToldError
from kernel.events import Usage
from kernel.tools.call import parse_arguments

MAX_OUTPUT_TOKENS = "max_output_tokens"
MAX_COST = "max_cost"
REPEATED_CALL = "repeated_call"

# The cost in USD of so many input and output tokens; None where no price is known.
Price = Callable[[int, int], float | None]
PRICED_TOKENS = 1_000_000


class LimitReached(ToldError):
    """The turn has used what it may; `finish_reason` says of what."""

    def __init__(self, finish_reason: str, message: str):
        super().__init__(message)
        self.finish_reason = finish_reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """The limits of one turn; None: as much as it takes.

    `cost_usd` binds only models whose price is known. `repeated_calls` is how many steps in a row may make the same
    call: the same tool with the same arguments.
    """

    output_tokens: int | None = None
    cost_usd: float | None = None
    repeated_calls: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """How many tokens one answer may still have, and what is reached with them."""

    tokens: int
    reached: LimitReached


class Guard:
    """One turn, held against its allowance."""

    def __init__(self, allowance: Allowance, price: Price):
        self._allowance = allowance
        self._price = price
        self._streaks: dict[tuple[str, str], int] = {}

    def check(self, done: Usage, running: Usage) -> None:
        """Raise `LimitReached` if finished calls and the running one have used a limit up. Called for every delta."""
        tokens, cost = self._allowance.output_tokens, self._allowance.cost_usd
        if tokens is not None and done.output_tokens + running.output_tokens >= tokens:
            raise _out_of_tokens(tokens)
        if cost is not None and (done.cost_usd or 0) + (running.cost_usd or 0) >= cost:
            raise _out_of_money(cost)

    def room(self, done: Usage, input_tokens: int) -> Room | None:
        """What is left for the answer to a request of so many tokens; None without limits. Call `check` first."""
        rooms = []
        tokens, cost = self._allowance.output_tokens, self._allowance.cost_usd
        if tokens is not None:
            rooms.append(Room(tokens=tokens - done.output_tokens, reached=_out_of_tokens(tokens)))
        unit = self._price(0, PRICED_TOKENS) if cost is not None else None
        if cost is not None and unit:
            left = cost - (done.cost_usd or 0) - (self._price(input_tokens, 0) or 0)
            rooms.append(Room(tokens=max(1, int(left / unit * PRICED_TOKENS)), reached=_out_of_money(cost)))
        return min(rooms, key=lambda room: room.tokens, default=None)

    def check_calls(self, calls: Iterable[tuple[str, str]]) -> None:
        """Raise `LimitReached` if a step makes a call (name, arguments) that as many before it have made as may.

        Calls of one step count once: only a model that has seen the result and asks again repeats itself.
        """
        asked = {(name, _same_form(arguments)) for name, arguments in calls}
        self._streaks = {call: self._streaks.get(call, 0) + 1 for call in asked}
        most = self._allowance.repeated_calls
        repeated = [name for (name, _), count in self._streaks.items() if most is not None and count > most]
        if repeated:
            raise LimitReached(
                REPEATED_CALL,
                f"The model made the same call of {repeated[0]!r} more than {most} times in a row, so the turn was "
                "ended. Tell it what to do differently, or continue.",
            )


def _out_of_tokens(limit: int) -> LimitReached:
    return LimitReached(
        MAX_OUTPUT_TOKENS,
        f"The turn reached its limit of {limit:,} output tokens. What had arrived is kept; continue to go on from it.",
    )


def _out_of_money(limit: float) -> LimitReached:
    return LimitReached(
        MAX_COST,
        f"The turn reached its limit of {limit:g} USD. What had arrived is kept; continue to go on from it, or choose "
        "a cheaper model.",
    )


def _same_form(arguments: str) -> str:
    """The arguments as they mean, whatever their spaces and the order of their names."""
    try:
        return json.dumps(parse_arguments(arguments), sort_keys=True)
    except ValueError:
        return arguments
