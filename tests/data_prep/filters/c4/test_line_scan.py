"""The compiled pass gives the rules' verdict on every line."""

import re
import sys

import numpy as np
import pytest
from datatrove.data import Document
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.line_scan import (
    KEPT,
    OTHER,
    UNDECIDED,
    UNSURE,
    character_class,
    code_points,
    compiled,
    lower_case_table,
    number_characters,
    scanned_lines,
)
from headrace.data_prep.filters.c4.lines import (
    C4Lines,
    C4Rule,
    Citations,
    CurlyBracket,
    Ellipsis,
    EndMark,
    FewWords,
    Javascript,
    LongWord,
    LoremIpsum,
    Policy,
)
from headrace.data_prep.text.folding import CODE_POINTS

PIECES = [
    *" \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000\u200b\ufeff",
    *"ab.?!\"'{[]}1éİΣσςſ\u212a…\U0001f600\ud800",
    "\r\n",
    "word ",
    "Four small words are here.",
    "...",
    "[1]",
    "[edit]",
    "lorem ipsum",
    "Lorem Ipsum",
    "javascript",
    "JAVASCRIPT",
    "javascrİpt",
    "terms of use",
    "use coo\u212aies",
    "USE OF COOKIES",
    "use of water",
    "privacy",
]
pieces = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
strings = st.lists(
    st.sampled_from(["", ".", "a.", "é", "σ", "i", "k", "use of", "cookies", "i\u0307", "Σ"]), max_size=4
)
rules = st.one_of(
    st.builds(LongWord, max_word_characters=st.integers(0, 12)),
    st.builds(FewWords, min_words=st.integers(0, 6)),
    st.builds(EndMark, marks=strings.map(tuple)),
    st.builds(Policy, phrases=strings.map(lambda found: tuple(map(str.lower, found)))),
    st.sampled_from([Citations(), Ellipsis(), LoremIpsum(), Javascript(), CurlyBracket(), Policy(), EndMark()]),
)


Judged = tuple[Drop | None, str, dict[str, int]]
"""The page's drop, its text, its removed lines by rule."""


def judged(text: str, rules: tuple[C4Rule, ...]) -> Judged:
    document = Document(text, "a:0")
    drop = C4Lines(rules=rules, min_sentences=0).judge(document)
    return drop, document.text, document.metadata.get("removed_lines", {})


def plain(text: str, rules: tuple[C4Rule, ...]) -> Judged:
    """The same by the rules alone, line by line."""
    kept, removed = [], {}
    for line in filter(None, map(str.strip, text.splitlines())):
        left: str | None = line
        for rule in rules:
            before, left = left, rule.apply(left)
            if left is None and rule.drops_page:
                return Drop(f"c4_lines.{rule.type}", before[:200]), text, {}
            if left is None:
                removed[f"c4_lines.{rule.type}"] = removed.get(f"c4_lines.{rule.type}", 0) + 1
                break
        else:
            kept.append(left)
    return None, "\n".join(kept).strip(), removed


@given(text=pieces | st.text(), rules=st.lists(rules, max_size=6).map(tuple))
@settings(max_examples=200)
@example(text="a", rules=(Policy(phrases=("",)),))
@example(text="aİ", rules=(Policy(phrases=("i\u0307",)),))
@example(text="aΣ", rules=(Policy(phrases=("ς",)),))
@example(text="abcd", rules=(LongWord(max_word_characters=3),))
def test_lines_are_judged_as_the_rules_judge_them(text, rules) -> None:
    assert judged(text, rules) == plain(text, rules)


@given(text=pieces)
@settings(max_examples=300)
def test_the_rules_of_c4(text) -> None:
    assert judged(text, C4Lines().rules) == plain(text, C4Lines().rules)


def test_more_strings_than_places() -> None:
    """Two strings beyond the 64th share a bit: a line with either one is left to the rule."""
    phrases = tuple(f"{number:03d}x" for number in range(200))
    rules = (Policy(phrases=phrases),)
    text = "\n".join([f"line {phrase}" for phrase in phrases] + ["no number", "x 0 1"])
    assert judged(text, rules) == plain(text, rules)
    assert judged(text, rules)[1] == "no number\nx 0 1"


def test_real_pages(web_texts) -> None:
    for text in web_texts:
        assert judged(text, C4Lines().rules) == plain(text, C4Lines().rules)
    verdicts = [verdict for text in web_texts for _, _, verdict in scanned_lines(text, C4Lines()._checks).rows()]
    assert verdicts.count(UNDECIDED) < len(verdicts) / 20, "most lines must be decided"
    assert verdicts.count(KEPT) > len(verdicts) / 5


@pytest.mark.parametrize("text", ["", "\n", " \u2028 \r\n"])
def test_no_lines(text) -> None:
    assert list(scanned_lines(text, C4Lines()._checks).rows()) == []


def test_a_program_is_made_once() -> None:
    assert compiled(C4Lines()._checks) is compiled(C4Lines()._checks)


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
