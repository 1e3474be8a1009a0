"""Folding is casefold and NFC, and costs its length; tables over all code points are those of a loop over them."""

import functools
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.text import folding
from headrace.data_prep.text.folding import CODE_POINTS, LONG_RUN, all_characters, changed_by, fold

PIECES = st.sampled_from(["a", "\u1ed9", "\u0f40", "\u304b", "\uac00", "\u1100\u1161", " ", "\u0130", "\ud800"])
MARKS = st.sampled_from("\u0301\u0316\u0344\u0345\u0f71\u0f73\u0f75\u0f81\u3099\u0308\u0334\U0001d165")
RUNS = st.lists(MARKS, max_size=3) | st.lists(MARKS, min_size=LONG_RUN - 2, max_size=LONG_RUN + 20)


PARTS = st.lists(st.builds(lambda piece, run: piece + "".join(run), PIECES, RUNS), max_size=4)


@given(text=st.text() | PARTS.map("".join))
def test_equal_to_casefold_and_nfc(text) -> None:
    assert fold(text) == unicodedata.normalize("NFC", text.casefold())


def test_marks_out_of_order_cost_their_number() -> None:
    """Python's NFC would take hours."""
    number = 500_000
    assert fold("a" + "\u0301\u0316" * number) == "\u00e1" + "\u0316" * number + "\u0301" * (number - 1)


CHARACTERS = [chr(code) for code in range(CODE_POINTS)]


def test_all_characters_are_those_of_chr() -> None:
    assert list(all_characters()) == CHARACTERS


@pytest.mark.parametrize("change", [str.lower, functools.partial(unicodedata.normalize, "NFD")], ids=["lower", "NFD"])
def test_no_change_is_passed_over(change: Callable[[str], str]) -> None:
    expected = {character: change(character) for character in CHARACTERS if change(character) != character}
    assert dict(changed_by(change)) == expected


def test_marks_decompose_to_combining_characters() -> None:
    decomposed = ((character, unicodedata.normalize("NFD", character)) for character in CHARACTERS)
    assert folding._marks() == {character for character, parts in decomposed if unicodedata.combining(parts[0])}
