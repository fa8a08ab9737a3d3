"""Figures as people read them: percentiles and Markdown tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Table:
    """One scenario's figures. Cells are text."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"## {self.title}", table, *self.notes])


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of the values do not exceed; NaN if there is none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def spread(values: Sequence[float]) -> list[str]:
    """p50, p99 and max."""
    return [number(percentile(values, percent)) for percent in (50, 99, 100)]


def target(*bounds: tuple[str, float, float]) -> str:
    """What was aimed at beside whether it was met: each bound is a name, the figure and the most it may be."""
    words = [f"{name} ≤ {limit:,g}" for name, _, limit in bounds]
    missed = [name for name, figure, limit in bounds if not figure <= limit]
    verdict = f"**missed** ({', '.join(missed)})" if missed else "met"
    return f"{', '.join(words)}: {verdict}"


def ratio(value: float, floor: float) -> str:
    """How many times the floor; a dash where there is none."""
    return f"× {number(value / floor)}" if floor > 0 and not math.isnan(value) else "–"


def number(value: float) -> str:
    """Three digits that count."""
    if math.isnan(value):
        return "–"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"
