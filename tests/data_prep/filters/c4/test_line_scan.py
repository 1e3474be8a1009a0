"""The compiled pass gives the rules' verdict on every line."""

import pytest
from datatrove.data import Document
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.line_scan import KEPT, UNDECIDED, compiled, scan_lines
from headrace.data_prep.filters.c4.lines import C4Lines
from headrace.data_prep.filters.c4.rules import (
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
    verdicts = [verdict for text in web_texts for _, _, verdict in scan_lines(text, C4Lines()._checks)]
    assert verdicts.count(UNDECIDED) < len(verdicts) / 20, "most lines must be decided"
    assert verdicts.count(KEPT) > len(verdicts) / 5


@pytest.mark.parametrize("text", ["", "\n", " \u2028 \r\n"])
def test_no_lines(text) -> None:
    assert list(scan_lines(text, C4Lines()._checks)) == []


def test_a_program_is_made_once() -> None:
    assert compiled(C4Lines()._checks) is compiled(C4Lines()._checks)
