"""Tables over all code points are those of a loop over them."""

import functools
import unicodedata
from collections.abc import Callable

import pytest

from headrace.data_prep.text import folding
from headrace.data_prep.text.code_points import CODE_POINTS, all_characters, changed_by

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
