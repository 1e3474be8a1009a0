"""The tables agree with str's own methods on every code point; lower-casing a page is lower-casing its lines."""

import re
import sys

import numpy as np
import pytest

from headrace.data_prep.filters.c4.character_tables import (
    OTHER,
    UNSURE,
    character_class,
    code_points,
    lower_case_table,
    number_characters,
)
from headrace.data_prep.text.folding import CODE_POINTS

EVERY = [chr(code) for code in range(CODE_POINTS)]


def test_every_code_point_has_a_place() -> None:
    assert sys.maxunicode + 1 == CODE_POINTS
    assert code_points("aé\U0001f600\ud800").tolist() == [0x61, 0xE9, 0x1F600, 0xD800]


@pytest.mark.parametrize(
    ("pattern", "expected"), [(r"\s", str.isspace), (r"\w", lambda c: c.isalnum() or c == "_"), (r"\d", str.isdecimal)]
)
def test_classes(pattern, expected) -> None:
    assert character_class(pattern).tolist() == list(map(expected, EVERY))


def test_numbers_are_those_of_the_lower_case() -> None:
    numbers = number_characters("javascript Kké{")
    table = lower_case_table(numbers)
    for code, character in enumerate(EVERY):
        expected = numbers.get(character.lower(), OTHER) if character not in "İΣ" else UNSURE
        assert table[code] == expected, hex(code)
    assert table[ord("\u212a")] == numbers["k"]
    assert min(numbers.values()) > max(OTHER, UNSURE)


@pytest.mark.parametrize("around", ["", "a", "Α", " ", ".", "1", "\u00b7"])
def test_only_unsure_characters_change_with_their_neighbours(around) -> None:
    """Comparison by character therefore finds the same as comparison of lower-cased text."""
    plain = [character for character in EVERY if character not in "İΣ"]
    assert around.join(plain).lower() == around.lower().join(map(str.lower, plain))
    assert all(len(character.lower()) == 1 for character in plain)


def test_white_space_is_a_border_for_the_lower_case() -> None:
    """A page may therefore be lower-cased before it is cut into lines and these are stripped."""
    for space in re.findall(r"\s", "".join(EVERY)):
        assert space.lower() == space
        for left, right in (("ΑΣ", "Α"), ("ΑΣ", ""), ("", "Σ"), ("Α", "Σ"), ("Σ", "Σ")):
            assert f"{left}{space}{right}".lower() == f"{left.lower()}{space}{right.lower()}"
    assert not any(character.lower().isspace() for character in EVERY if not character.isspace())


def test_tables_are_small() -> None:
    assert lower_case_table({}).dtype == np.uint16
