"""The rounds that once broke something. What they broke has a test of its own; some are played again by the tests."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kept:
    seed: int
    round: int
    broke: str
    in_tests: bool = False

    def __str__(self) -> str:
        return f"seed {self.seed} round {self.round}"


KEPT = (
    Kept(1, 0, "a socket that subscribed again was told a result twice", in_tests=True),
    Kept(3, 1, "a turn that one worker told of later than the next one of another stood behind it", in_tests=True),
    Kept(5, 0, "Redis died for an instant, and a tab showed a session as running that was idle", in_tests=True),
    Kept(9, 5, "Redis froze, and a frame that came seconds late told an old state that stayed"),
    Kept(12, 4, "a stop that met a turn just being let in ended it, and had no row in the audit"),
    Kept(3, 4, "a worker killed between a turn's start and its first words left its readers without the question"),
)
