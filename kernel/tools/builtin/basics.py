"""The time, and arithmetic. Pure.

Neither touches anything, and neither runs what a model wrote: an expression is read as a tree of numbers and operators,
and its size is bounded before it is computed.
"""

import ast
import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from kernel.errors import ToldError
from kernel.tools import tool

Number = int | float

EXPRESSION_MAX = 200
# About 1,200 digits: far beyond any use, and computed in no time.
NUMBER_MAX_BITS = 4096

UNARY: dict[type[ast.AST], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
BINARY: dict[type[ast.AST], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@tool
async def current_time(timezone: str = "UTC") -> str:
    """Tell the current date and time, with the day of the week.

    Args:
        timezone: A name of the IANA database, such as America/Sao_Paulo.
    """
    now = datetime.now(_zone(timezone))
    return f"{now:%A} {now.isoformat(timespec='seconds')} ({timezone})"


@tool
async def calculate(
    expression: Annotated[str, Field(max_length=EXPRESSION_MAX, examples=["(3 + 4) * 2 ** 5"])],
) -> str:
    """Compute an arithmetic expression exactly.

    Args:
        expression: Numbers, parentheses, and the operators + - * / // % ** only; no names and no functions.
    """
    try:
        number = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, MemoryError, RecursionError) as error:  # the parser's own words for too deep a nesting
        raise ToldError(f"{expression!r} cannot be read as arithmetic.") from error
    except OverflowError as error:
        raise ToldError(f"The result of {expression!r} is too large.") from error
    except ArithmeticError as error:
        raise ToldError(f"{expression!r} has no result: {error}") from error
    return f"{number:.15g}" if isinstance(number, float) else str(number)


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # unknown, no name at all, a folder
        raise ToldError(f"There is no time zone {name!r}. Give a name such as Europe/Berlin.") from error


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in UNARY:
            return UNARY[type(sign)](_value(operand))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _bounded(_power(_value(left), _value(right)))
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in BINARY:
            return _bounded(BINARY[type(operation)](_value(left), _value(right)))
    raise ToldError(f"Only numbers, parentheses and + - * / // % ** are understood, not {ast.unparse(node)!r}.")


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > NUMBER_MAX_BITS:
        raise OverflowError("The result is too large.")
    if base < 0 and not isinstance(exponent, int):
        raise ToldError("A root of a negative number is no real number.")
    return base**exponent


def _bounded(number: Number) -> Number:
    too_large = number.bit_length() > NUMBER_MAX_BITS if isinstance(number, int) else not math.isfinite(number)
    if too_large:
        raise OverflowError("The result is too large.")
    return number
