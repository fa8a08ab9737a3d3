"""Server-sent events, as far as models speak them: bytes in, the data of each event out. Pure.

Bytes may be cut anywhere: within a line, a line's end, a character (WHATWG HTML, 9.2.6).
"""

from collections.abc import Iterator

EVENT_MAX_BYTES = 8 * 1024 * 1024


class EventTooLong(ValueError):
    """An event is longer than any answer's piece could be."""


class Events:
    """Splits one stream."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the line that has not ended
        self._lines: list[bytes] = []  # of the event that has not ended
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the data of each event that ends in `data`. Raises `EventTooLong`."""
        first, *others = data.split(b"\n")
        self._add(first)
        for piece in others:
            line = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces.clear()
            yield from self._end_line(line)
            self._add(piece)

    def end(self) -> Iterator[bytes]:
        """Yield what has come of an event whose end is missing."""
        yield from self.feed(b"\n\n")

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > EVENT_MAX_BYTES:
            raise EventTooLong

    def _end_line(self, line: bytes) -> Iterator[bytes]:
        if line.endswith(b"\r"):
            line = line[:-1]
        if line.startswith(b"data:"):
            self._lines.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif not line:
            if self._lines:
                yield self._lines[0] if len(self._lines) == 1 else b"\n".join(self._lines)
                self._lines.clear()
            self._size = 0
