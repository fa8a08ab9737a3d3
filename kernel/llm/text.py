"""Provider text made storable: no split code points, no NUL. Pure.

Some providers cut an emoji in two and send each half of its surrogate pair in a delta of its own; PostgreSQL refuses
NUL.
"""

from typing import Any

REPLACEMENT = "\ufffd"


class Cleaner:
    """Cleans one stream of text, delta by delta; what it returns, joined, is the whole text without loss."""

    def __init__(self) -> None:
        self._half = ""

    def clean(self, text: str) -> str:
        """Return what of `text` can be shown now; half a code point waits for its other half."""
        if not self._half and text.isascii() and "\0" not in text:
            return text
        text = self._half + text
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return _whole(text)

    def flush(self) -> str:
        """Return what is left: a half that never found its other half is shown as the replacement character."""
        half, self._half = self._half, ""
        return _whole(half)


def storable(value: Any) -> Any:
    """The same JSON value with every string made storable."""
    match value:
        case str():
            return _whole(value)
        case dict():
            return {_whole(key): storable(each) for key, each in value.items()}
        case list():
            return [storable(each) for each in value]
        case _:
            return value


def _whole(text: str) -> str:
    text = text.replace("\0", REPLACEMENT)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
