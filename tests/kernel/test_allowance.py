"""What a turn may use: which use reaches a limit, what is left of it, and which calls repeat each other."""

import pytest

from kernel.allowance import MAX_COST, MAX_OUTPUT_TOKENS, REPEATED_CALL, Allowance, Guard, LimitReached
from kernel.events import Usage


def price(tokens_in: int, tokens_out: int) -> float | None:
    return tokens_in * 0.01 + tokens_out * 0.1


def used(output: int = 0, cost: float | None = None) -> Usage:
    return Usage(output_tokens=output, cost_usd=cost)


def reached(guard: Guard, done: Usage, running: Usage) -> str:
    try:
        guard.check(done, running)
    except LimitReached as limit:
        return limit.finish_reason
    return ""


@pytest.mark.parametrize(
    ("done", "running", "reason"), [(6, 3, ""), (6, 4, MAX_OUTPUT_TOKENS), (10, 0, MAX_OUTPUT_TOKENS)]
)
def test_finished_calls_and_the_running_one_count_together(done: int, running: int, reason: str) -> None:
    guard = Guard(Allowance(output_tokens=10), price)
    assert reached(guard, used(done), used(running)) == reason


@pytest.mark.parametrize(
    ("done", "running", "reason"), [(0.5, 0.4, ""), (0.5, 0.5, MAX_COST), (None, 1.0, MAX_COST), (None, None, "")]
)
def test_cost_counts_where_a_price_is_known(done: float | None, running: float | None, reason: str) -> None:
    guard = Guard(Allowance(cost_usd=1.0), price)
    assert reached(guard, used(cost=done), used(cost=running)) == reason


def test_without_limits_everything_may_be_used() -> None:
    guard = Guard(Allowance(), price)
    assert reached(guard, used(10**9, 10.0**9), used(10**9, 10.0**9)) == ""
    assert guard.room(used(10**9), 10**9) is None
    for _ in range(100):
        guard.check_calls([("add", "{}")])


def test_the_room_of_an_answer_is_what_the_tightest_limit_leaves() -> None:
    guard = Guard(Allowance(output_tokens=100, cost_usd=2.0), price)
    by_tokens = guard.room(used(95), 0)
    by_cost = guard.room(used(10, cost=1.0), 10)
    assert by_tokens is not None
    assert (by_tokens.tokens, by_tokens.reached.finish_reason) == (5, MAX_OUTPUT_TOKENS)
    assert by_cost is not None
    assert (by_cost.tokens, by_cost.reached.finish_reason) == (9, MAX_COST)


def test_the_room_is_never_nothing() -> None:
    room = Guard(Allowance(cost_usd=1.0), price).room(used(cost=0.99), 0)
    assert room is not None
    assert room.tokens == 1


def test_a_cost_leaves_any_room_where_no_price_is_known() -> None:
    assert Guard(Allowance(cost_usd=1.0), lambda _in, _out: None).room(used(), 10) is None


def steps_until_refused(guard: Guard, *steps: list[tuple[str, str]]) -> tuple[int, str]:
    """The number of the step that was refused, and why; zero and nothing if none was."""
    for number, calls in enumerate(steps, 1):
        try:
            guard.check_calls(calls)
        except LimitReached as limit:
            return number, limit.finish_reason
    return 0, ""


ONE, TWO = ("add", '{"a": 1, "b": 2}'), ("add", '{"a": 2}')


@pytest.mark.parametrize(
    ("steps", "refused"),
    [
        ([[ONE]] * 3, 0),
        ([[ONE]] * 4, 4),
        ([[ONE]] * 3 + [[TWO]] + [[ONE]] * 3, 0),
        ([[ONE]] * 3 + [[("add", '{"b":2,"a":1}')]], 4),
        ([[("sub", ONE[1]), ONE]] + [[ONE, TWO]] * 3, 4),
        ([[("add", "{broken")]] * 4, 4),
        ([[ONE, ONE, ONE, ONE, ONE]], 0),
        ([[("add", '{"a": 1}')], [("sub", '{"a": 1}')]] * 4, 0),
    ],
    ids=[
        "as often as may be",
        "once more",
        "not in a row",
        "another spelling",
        "beside others",
        "no JSON",
        "at once",
        "two",
    ],
)
def test_the_same_call_may_be_made_so_many_steps_in_a_row(steps: list[list[tuple[str, str]]], refused: int) -> None:
    guard = Guard(Allowance(repeated_calls=3), price)
    assert steps_until_refused(guard, *steps) == (refused, REPEATED_CALL if refused else "")
