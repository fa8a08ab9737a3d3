"""The last day's stops and how long they took, as the geometry of one drawing. Pure; the template draws it.

Bounded whatever the ledger holds: the day is cut into columns, and each shows numbers, a median and the slowest.
Coordinates are strings, so that no language writes them with a comma.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from kernel.abort import AbortReason

DAY = timedelta(hours=24)
COLUMN = timedelta(minutes=30)
COLUMNS = DAY // COLUMN
TICK = timedelta(hours=3)

# The drawing's own units.
WIDTH, HEIGHT = 960, 270
LEFT, RIGHT = 56, 948
COUNT_TOP, COUNT_BOTTOM = 24, 104
MS_TOP, MS_BOTTOM = 138, 238
# The axis of latency is logarithmic, from 1 ms to 10 s.
MS_DECADES = (1, 10, 100, 1000, 10_000)

KINDS = ("panic", "stop", "other")
KIND_OF = {
    AbortReason.PANIC_STOP: "panic",
    AbortReason.SESSION_STOP: "stop",
    AbortReason.USER_INTERRUPT: "stop",
    AbortReason.DELETED: "stop",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """One aborted execution: when it was ordered, why, and both latencies where they were measured."""

    at: datetime
    reason: str
    closed_ms: float | None
    settled_ms: float | None

    @property
    def kind(self) -> str:
        """Whether a person stopped one, somebody stopped all, or it was nobody's wish (a timeout, a lost worker)."""
        return KIND_OF.get(AbortReason(self.reason), "other")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    kind: str
    y: str
    height: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """Half an hour: its numbers, and where they are drawn. `None` where nothing was measured."""

    start: datetime
    end: datetime
    counts: dict[str, int]
    closed_ms: float | None
    settled_ms: float | None
    slowest_ms: float | None
    x: str
    middle: str
    width: str
    bars: list[Bar]
    closed_y: str | None
    settled_y: str | None
    slowest_y: str | None

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    label: object
    at: str


@dataclass(frozen=True, kw_only=True)
class Plot:
    columns: list[Column]
    hours: list[Tick]
    counts: list[Tick]
    latencies: list[Tick]
    total: int
    closed_ms: float | None
    settled_ms: float | None
    box: str = f"0 0 {WIDTH} {HEIGHT}"
    frame: dict[str, int] = field(
        default_factory=lambda: {
            "left": LEFT,
            "right": RIGHT,
            "count_top": COUNT_TOP,
            "count_bottom": COUNT_BOTTOM,
            "ms_top": MS_TOP,
            "ms_bottom": MS_BOTTOM,
            "label": HEIGHT - 8,
        }
    )

    @property
    def busy_columns(self) -> list[Column]:
        return [column for column in self.columns if column.total]


def plot_of(stops: Iterable[Stop], now: datetime) -> Plot:
    """The drawing of the day that ends at `now`; other days' stops are left out."""
    start = now - DAY
    by_column: list[list[Stop]] = [[] for _ in range(COLUMNS)]
    for stop in stops:
        if start < stop.at <= now:
            by_column[min((stop.at - start) // COLUMN, COLUMNS - 1)].append(stop)
    highest = _round_up(max(map(len, by_column)))
    everything = [stop for column in by_column for stop in column]
    return Plot(
        columns=[_column(start + COLUMN * index, index, column, highest) for index, column in enumerate(by_column)],
        hours=_hours(start, now),
        counts=[Tick(label=count, at=_text(_count_y(count, highest))) for count in (0, highest)],
        latencies=[Tick(label=_ms_label(ms), at=_text(_ms_y(ms))) for ms in MS_DECADES],
        total=len(everything),
        closed_ms=_median(stop.closed_ms for stop in everything),
        settled_ms=_median(stop.settled_ms for stop in everything),
    )


def _column(start: datetime, index: int, stops: Sequence[Stop], highest: int) -> Column:
    width = (RIGHT - LEFT) / COLUMNS
    x = LEFT + width * index
    counts = {kind: sum(stop.kind == kind for stop in stops) for kind in KINDS}
    closed_ms = _median(stop.closed_ms for stop in stops)
    settled_ms = _median(stop.settled_ms for stop in stops)
    slowest_ms = max((stop.settled_ms for stop in stops if stop.settled_ms is not None), default=None)
    return Column(
        start=start,
        end=start + COLUMN,
        counts=counts,
        closed_ms=closed_ms,
        settled_ms=settled_ms,
        slowest_ms=slowest_ms,
        x=_text(x + 1),
        middle=_text(x + width / 2),
        width=_text(width - 2),
        bars=_bars(counts, highest),
        closed_y=None if closed_ms is None else _text(_ms_y(closed_ms)),
        settled_y=None if settled_ms is None else _text(_ms_y(settled_ms)),
        slowest_y=None if slowest_ms is None else _text(_ms_y(slowest_ms)),
    )


def _bars(counts: dict[str, int], highest: int) -> list[Bar]:
    """The kinds of a column, stacked."""
    bars, below = [], 0
    for kind, count in counts.items():
        if count:
            top, bottom = _count_y(below + count, highest), _count_y(below, highest)
            bars.append(Bar(kind=kind, y=_text(top), height=_text(bottom - top)))
            below += count
    return bars


def _hours(start: datetime, now: datetime) -> list[Tick]:
    """Every third full hour of the day."""
    ticks = []
    hour = start.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    while hour <= now:
        if hour.hour % (TICK // timedelta(hours=1)) == 0:
            ticks.append(Tick(label=hour, at=_text(LEFT + (RIGHT - LEFT) * ((hour - start) / DAY))))
        hour += timedelta(hours=1)
    return ticks


def _count_y(count: int, highest: int) -> float:
    return COUNT_BOTTOM - (COUNT_BOTTOM - COUNT_TOP) * count / highest


def _ms_y(ms: float) -> float:
    low, high = math.log10(MS_DECADES[0]), math.log10(MS_DECADES[-1])
    share = (math.log10(min(max(ms, MS_DECADES[0]), MS_DECADES[-1])) - low) / (high - low)
    return MS_BOTTOM - (MS_BOTTOM - MS_TOP) * share


def _ms_label(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms // 1000} s"


def _round_up(count: int) -> int:
    """The next of 1, 2, 5, 10, 20, 50 …"""
    scale = 1
    while True:
        for step in (1, 2, 5):
            if count <= step * scale:
                return step * scale
        scale *= 10


def _median(values: Iterable[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return round(median(measured), 1) if measured else None


def _text(coordinate: float) -> str:
    return f"{coordinate:.1f}"
