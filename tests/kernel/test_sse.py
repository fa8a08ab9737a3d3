"""Events are found wherever the bytes were cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.llm import sse
from kernel.llm.sse import Events, EventTooLong

STREAM = (
    b': a comment\n\ndata: {"a": 1}\n\ndata:{"b":2}\r\n\r\nevent: x\nid: 7\ndata: {"c":\ndata: 3}\n\n'
    + 'data: {"d": "né 🐍"}\r\n\r\n'.encode()
    + b"\n\n\r\ndata: [DONE]\n\n"
)
DATA = [b'{"a": 1}', b'{"b":2}', b'{"c":\n3}', '{"d": "né 🐍"}'.encode(), b"[DONE]"]


def read(*pieces: bytes) -> list[bytes]:
    events = Events()
    return [data for piece in pieces for data in events.feed(piece)] + list(events.end())


def test_several_events_may_come_in_one_read() -> None:
    assert read(STREAM) == DATA


def test_one_event_may_come_in_many_reads() -> None:
    assert read(*(bytes([byte]) for byte in STREAM)) == DATA


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM)), max_size=12))
def test_it_does_not_matter_where_the_bytes_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert read(*(STREAM[begin:end] for begin, end in itertools.pairwise(edges))) == DATA


def test_an_event_without_its_end_is_told_at_the_end() -> None:
    assert read(b"data: 1\n\ndata: 2") == [b"1", b"2"]


def test_only_one_space_after_the_colon_is_not_data() -> None:
    assert read(b"data:  1\n\n") == [b" 1"]


@pytest.mark.parametrize("piece", [b"x" * 40, b"data: 1\n" * 5])
def test_an_event_of_any_length_is_not_kept(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_MAX_BYTES", 100)
    with pytest.raises(EventTooLong):
        read(piece, piece, piece)


def test_the_length_of_a_stream_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_MAX_BYTES", 100)
    assert len(read(*[b"data: 0123456789\n\n"] * 50)) == 50
