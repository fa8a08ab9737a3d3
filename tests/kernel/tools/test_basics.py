"""The tools that come along: the time in a zone, and arithmetic that runs nothing a model wrote."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from kernel.errors import ToldError
from kernel.tools import Toolbox, builtin
from kernel.tools.builtin import calculate, current_time
from kernel.tools.builtin.basics import EXPRESSION_MAX


def test_all_are_offered_by_the_package_and_the_time_needs_no_arguments() -> None:
    toolbox = Toolbox.load([builtin.__name__])
    assert {tool.name for tool in toolbox} == {"current_time", "calculate", "read_web_page"}
    assert "required" not in current_time.schema


async def test_the_time_is_told_with_its_day_and_zone() -> None:
    day, moment, zone = (await current_time()).split()
    told = datetime.fromisoformat(moment)
    assert abs(datetime.now(UTC) - told) < timedelta(minutes=1)
    assert (day, zone) == (f"{told:%A}", "(UTC)")


async def test_the_time_is_told_in_the_zone_that_was_asked_for() -> None:
    told = await current_time("Asia/Kolkata")
    assert "+05:30" in told
    assert told.endswith("(Asia/Kolkata)")


@pytest.mark.parametrize("name", ["Nowhere/Land", "", "../etc/passwd", "Europe", "a\0b"])
async def test_an_unknown_zone_is_an_error_that_helps(name: str) -> None:
    with pytest.raises(ToldError, match="such as Europe/Berlin"):
        await current_time(name)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("(3 + 4) * 2 ** 5", "224"),
        ("-7 // 2", "-4"),
        ("10 % 4 - +1", "1"),
        ("10 / 4", "2.5"),
        ("0.1 + 0.2", "0.3"),
        ("2 ** -1", "0.5"),
        (" 1_000 * 1e3 ", "1000000"),
        ("2 ** 100", str(2**100)),
        ("+".join(["1"] * 100), "100"),
    ],
)
async def test_arithmetic_is_computed(expression: str, result: str) -> None:
    assert await calculate(expression) == result


@pytest.mark.parametrize(
    "expression",
    [
        "x",
        "__import__('os')",
        "abs(1)",
        "(1).real",
        "'a' * 3",
        "True + 1",
        "[1][0]",
        "1 if 1 else 2",
        "1 < 2",
        "~1",
        "1 << 9",
        "2j",
        "(y := 1)",
    ],
)
async def test_anything_but_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(ToldError, match=r"understood|cannot be read"):
        await calculate(expression)


@pytest.mark.parametrize("expression", ["", "1 +", "2 x 3", "1; 2", "(" * 100, "a\0b", "(" * 99 + "1" + ")" * 99 + "("])
async def test_what_cannot_be_read_is_an_error_that_names_it(expression: str) -> None:
    with pytest.raises(ToldError, match="cannot be read"):
        await calculate(expression)


@pytest.mark.parametrize(
    "expression",
    ["9 ** 9 ** 9", "2 ** 4096 * 2", "10.0 ** 400", "1e999", "1e308 * 10", "9 ** 999 * 1.0", "-9 ** 9999"],
)
async def test_a_result_that_is_too_large_is_refused_before_it_is_computed(expression: str) -> None:
    with pytest.raises(ToldError, match="large"):
        await calculate(expression)


@pytest.mark.parametrize(("expression", "told"), [("1 / 0", "zero"), ("0 ** -1", "0.0"), ("(-8) ** 0.5", "no real")])
async def test_what_has_no_result_says_why(expression: str, told: str) -> None:
    with pytest.raises(ToldError, match=told):
        await calculate(expression)


async def test_deep_nesting_is_computed_or_refused_and_never_ends_the_process() -> None:
    assert await calculate("-" * (EXPRESSION_MAX - 1) + "1") == "-1"


def test_a_long_expression_is_refused() -> None:
    with pytest.raises(ValidationError, match="at most 200"):
        calculate.validate({"expression": "1" * (EXPRESSION_MAX + 1)})
