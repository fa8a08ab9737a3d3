"""Provider text made storable, however it was cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.llm.text import REPLACEMENT, Cleaner

# Everything that Python calls a string, with more of what is dangerous: halves of pairs, NUL, emoji.
TEXTS = st.text(
    st.one_of(st.characters(), st.sampled_from("\0\ud83d\ude00\udbff\udc00\ufffd👩a"), st.characters(categories=["Cs"]))
)


def clean(pieces: list[str]) -> list[str]:
    cleaner = Cleaner()
    return [*(cleaner.clean(piece) for piece in pieces), cleaner.flush()]


def whole(text: str) -> str:
    """The text as it should be: pairs joined, lonely halves and NUL replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", REPLACEMENT)


@given(TEXTS, st.data())
def test_any_split_of_any_text_gives_the_same_whole(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(clean(pieces)) == whole(text)


@given(st.lists(TEXTS))
def test_each_piece_can_be_stored_and_sent(pieces: list[str]) -> None:
    for piece in clean(pieces):
        assert "\0" not in piece
        piece.encode()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_sound_text_passes_unchanged_and_at_once(pieces: list[str]) -> None:
    assert clean(pieces) == [*pieces, ""]


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["a\ud83d", "\ude00b"], ["a", "😀b", ""]),
        (["\ud83d", "", "\ude00"], ["", "", "😀", ""]),
        (["\ud83d", "a"], ["", f"{REPLACEMENT}a", ""]),
        (["a\ud83d"], ["a", REPLACEMENT]),
        (["\ude00"], [REPLACEMENT, ""]),
        (["a\0b"], [f"a{REPLACEMENT}b", ""]),
    ],
    ids=["a pair cut in two", "nothing in between", "no other half", "no end", "a second half alone", "NUL"],
)
def test_half_a_character_waits_for_its_other_half(pieces: list[str], shown: list[str]) -> None:
    assert clean(pieces) == shown
