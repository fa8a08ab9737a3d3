"""How fast a program is read: a storm of messages is paced, and nothing else is."""

from kernel.mcp.pace import WINDOW_MESSAGES, WINDOW_S, Pace


def test_what_fits_into_its_window_never_waits() -> None:
    pace = Pace()
    waits = [pace.wait_s(float(second)) for second in range(3) for _ in range(WINDOW_MESSAGES)]
    assert waits == [0.0] * 3 * WINDOW_MESSAGES


def test_a_storm_is_read_at_the_pace_of_the_windows() -> None:
    pace, now_s = Pace(), 0.0
    for _ in range(10 * WINDOW_MESSAGES):
        now_s += pace.wait_s(now_s)
    assert now_s == 9 * WINDOW_S


def test_after_a_storm_the_next_message_is_read_at_once() -> None:
    pace, now_s = Pace(), 0.0
    for _ in range(3 * WINDOW_MESSAGES):
        now_s += pace.wait_s(now_s)
    assert pace.wait_s(now_s + WINDOW_S) == 0.0
