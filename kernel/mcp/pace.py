"""How fast a program is read: a storm of its messages must not keep the loop busy, which has stops to read. Pure."""

WINDOW_MESSAGES = 100
WINDOW_S = 0.25


class Pace:
    """So many messages in each window. What the program says meanwhile waits in its pipe, and it with it."""

    def __init__(self) -> None:
        self._since_s = float("-inf")
        self._count = 0

    def wait_s(self, now_s: float) -> float:
        """How long to wait before the next message is taken."""
        if now_s - self._since_s >= WINDOW_S:
            self._since_s, self._count = now_s, 0
        self._count += 1
        if self._count <= WINDOW_MESSAGES:
            return 0.0
        self._since_s, self._count = self._since_s + WINDOW_S, 1
        return self._since_s - now_s
