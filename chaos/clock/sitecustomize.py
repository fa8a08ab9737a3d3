"""A process whose wall clock jumps: SIGUSR2 sets it an hour forward, and the next one sets it back.

Python loads this by itself where it lies on PYTHONPATH. What Python code reads as the time of day is what jumps; the
monotonic clock runs on, as it does when a machine's clock is set.
"""

import datetime
import signal
import time

JUMP_S = 3600.0

_offset_s = 0.0
_time = time.time
_datetime = datetime.datetime


def _jump(*_: object) -> None:
    global _offset_s
    _offset_s = 0.0 if _offset_s else JUMP_S


class _Kind(type):
    """Every datetime is one of these, wherever it was made."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _datetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _datetime)


class _JumpingDatetime(_datetime, metaclass=_Kind):
    """Makes plain datetimes, so that nothing but the time is different."""

    def __new__(cls, *args, **kwargs):  # type: ignore[no-untyped-def]  # whatever a datetime is made of
        return _datetime(*args, **kwargs)

    @classmethod
    def now(cls, tz=None):  # type: ignore[no-untyped-def]
        return _datetime.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):  # type: ignore[no-untyped-def]
        return _datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls):  # type: ignore[no-untyped-def]
        return _datetime.fromtimestamp(time.time())


time.time = lambda: _time() + _offset_s
datetime.datetime = _JumpingDatetime  # type: ignore[misc]
signal.signal(signal.SIGUSR2, _jump)
