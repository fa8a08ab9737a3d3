"""The drawing of the last day: bounded, in the right place, and honest about what was not measured."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kernel.abort import AbortReason
from kernel.admin.plots import COLUMNS, COUNT_BOTTOM, COUNT_TOP, DAY, HEIGHT, MS_BOTTOM, MS_TOP, Stop, plot_of

NOW = datetime(2026, 3, 1, 10, 17, tzinfo=UTC)


def stop(ago: timedelta, reason: str = "session_stop", closed: float | None = 2.0, settled: float | None = 8.0) -> Stop:
    return Stop(at=NOW - ago, reason=reason, closed_ms=closed, settled_ms=settled)


def test_an_empty_day_is_drawn_with_its_axes_and_nothing_else() -> None:
    plot = plot_of([], NOW)
    assert (plot.total, plot.closed_ms, plot.busy_columns) == (0, None, [])
    assert len(plot.columns) == COLUMNS
    assert len(plot.hours) == 8


def test_a_stop_of_another_day_is_left_out() -> None:
    assert plot_of([stop(DAY + timedelta(seconds=1)), stop(timedelta(seconds=-1))], NOW).total == 0


def test_stops_are_told_apart_by_whose_wish_they_were() -> None:
    reasons = ["session_stop", "user_interrupt", "panic_stop", "timeout", "worker_lost"]
    [column] = plot_of([stop(timedelta(minutes=1), reason) for reason in reasons], NOW).busy_columns
    assert column.counts == {"panic": 1, "stop": 2, "other": 2}


def test_what_was_not_measured_is_not_drawn() -> None:
    [column] = plot_of([stop(timedelta(minutes=1), "worker_lost", None, None)], NOW).busy_columns
    assert (column.closed_y, column.settled_y, column.slowest_y) == (None, None, None)


def test_the_newest_stop_is_in_the_last_column_and_the_oldest_in_the_first() -> None:
    plot = plot_of([stop(timedelta()), stop(DAY - timedelta(seconds=1))], NOW)
    assert [plot.columns[0].total, plot.columns[-1].total] == [1, 1]


moments = st.timedeltas(min_value=timedelta(), max_value=DAY - timedelta(seconds=1))
latency = st.none() | st.floats(min_value=0, max_value=1e7)
stops = st.builds(stop, moments, st.sampled_from([reason.value for reason in AbortReason]), latency, latency)


@given(st.lists(stops, max_size=60))
def test_every_stop_is_counted_once_and_drawn_inside_its_panel(day: list[Stop]) -> None:
    plot = plot_of(day, NOW)
    assert sum(column.total for column in plot.columns) == plot.total == len(day)
    for column in plot.busy_columns:
        for bar in column.bars:
            assert COUNT_TOP <= float(bar.y) <= float(bar.y) + float(bar.height) <= COUNT_BOTTOM + 0.2
        drawn = [y for y in (column.closed_y, column.settled_y, column.slowest_y) if y is not None]
        assert all(MS_TOP <= float(y) <= MS_BOTTOM <= HEIGHT for y in drawn)
