"""Each single line rule, the order of the rules, and the sentences of a page."""

import pytest
from datatrove.data import Document
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.lines import (
    C4Lines,
    Citations,
    CurlyBracket,
    Ellipsis,
    EndMark,
    FewWords,
    Javascript,
    LongLines,
    LongWord,
    LoremIpsum,
    PageLength,
    Policy,
    StrippedLines,
    page_text,
)
from headrace.data_prep.filters.punkt import sentences_of
from headrace.pipeline.core.errors import ConfigError

GOOD = "The wheel turns as long as the water runs."


def page(*lines: str) -> Document:
    return Document("\n".join(lines), "a:0")


@pytest.mark.parametrize(
    ("rule", "line", "left"),
    [
        (LongWord(), "x" * 1000 + " y", "x" * 1000 + " y"),
        (LongWord(), "y " + "x" * 1001, None),
        (Citations(), "a [1] b[23] [] [edit] [citation needed] [x] [Edit]", "a  b    [x] [Edit]"),
        (EndMark(), 'He said "no"', 'He said "no"'),
        (EndMark(), "no mark'", None),
        (EndMark(), "space after. ", None),
        (Ellipsis(), "on and on...", None),
        (Ellipsis(), "on and on..", "on and on.."),
        (Ellipsis(), "on and on…", "on and on…"),
        (FewWords(), "one two three four five", "one two three four five"),
        (FewWords(), "one two\tthree  four", None),
        (FewWords(min_words=3), "one two three", "one two three"),
        (LoremIpsum(), "Some LOREM Ipsum.", None),
        (LoremIpsum(), "Some lorem  ipsum.", "Some lorem  ipsum."),
        (Javascript(), "Turn JavaScript on.", None),
        (Javascript(), "Turn Java script on.", "Turn Java script on."),
        (CurlyBracket(), "a { b", None),
        (CurlyBracket(), "a } b", "a } b"),
        (Policy(), "Our COOKIE policy is here.", None),
        (Policy(), "This site used cookies.", "This site used cookies."),
        (Policy(phrases=("all rights",)), "All rights kept.", None),
    ],
)
def test_rule(rule, line, left) -> None:
    assert rule.apply(line) == left


def test_page_rules_see_only_what_got_through_the_line_rules() -> None:
    assert C4Lines().judge(page(GOOD, GOOD, GOOD, "no end mark { here")) is None
    drop = C4Lines().judge(page(GOOD, GOOD, GOOD, "A bracket stands in { this line."))
    assert drop == Drop("c4_lines.curly_bracket", "A bracket stands in { this line.")
    first = C4Lines(rules=(CurlyBracket(), EndMark()))
    assert first.judge(page(GOOD, GOOD, GOOD, "no end mark { here")) == Drop(
        "c4_lines.curly_bracket", "no end mark { here"
    )


def test_removed_lines_are_counted_by_rule() -> None:
    document = page(
        GOOD, "no mark", "", GOOD, "Too short.", "Too.", GOOD + " [1]", "It ends in three little dots...", GOOD
    )
    assert C4Lines().judge(document) is None
    assert document.text == "\n".join([GOOD] * 3)
    assert document.metadata["removed_lines"] == {
        "c4_lines.end_mark": 2,
        "c4_lines.few_words": 2,
        "c4_lines.ellipsis": 1,
    }


def test_a_dropped_page_keeps_its_text() -> None:
    document = page(GOOD, "no mark", GOOD)
    assert C4Lines().judge(document) == Drop("c4_lines.sentences", "2")
    assert document.text == f"{GOOD}\nno mark\n{GOOD}"
    assert document.metadata == {}


@pytest.mark.parametrize(("sentences", "stays"), [(2, False), (3, True)])
def test_sentences_on_one_line(sentences, stays) -> None:
    assert (C4Lines().judge(page(" ".join([GOOD] * sentences))) is None) == stays


@given(
    lines=st.lists(
        st.sampled_from([GOOD, GOOD + " It does.", "Dr. Who met Mr. X at 5 p.m. on Main St. today."]), max_size=6
    )
)
def test_sentences_equal_the_sum_over_lines(lines) -> None:
    stays = C4Lines(min_sentences=5).judge(page(*lines)) is None
    assert stays == (sum(len(sentences_of(line)) for line in lines) >= 5)


def test_missing_punkt_files_are_a_config_error(tmp_path) -> None:
    with pytest.raises(ConfigError) as caught:
        C4Lines(punkt_path=str(tmp_path))
    assert str(caught.value) == (
        f"punkt_path: {tmp_path} does not hold abbrev_types.txt, sent_starters.txt, collocations.tab, "
        "ortho_context.tab; "
        "name a folder with nltk's punkt_tab files for English"
    )


@pytest.mark.parametrize(
    ("text", "drop"),
    [
        ("x" * 10, None),
        ("x" * 11, Drop("page_length", "11")),
        ("  xxxxx  \r\n\r\n xxxx \r", None),
        ("xxxxx\n\n\nxxxxxx", Drop("page_length", "12")),
    ],
)
def test_page_length(text, drop) -> None:
    assert PageLength(max_characters=10).judge(Document(text, "a:0")) == drop


def test_stripped_lines_are_the_text_and_drop_nothing() -> None:
    document = Document(" a\n\n\tb c \r\n\u3000\nd", "a:0")
    assert StrippedLines().judge(document) is None
    assert document.text == "a\nb c\nd"


def test_the_default_is_that_of_c4() -> None:
    assert PageLength().judge(Document("x" * 190_000, "a:0")) is None
    assert PageLength().judge(Document("x" * 190_001, "a:0")) == Drop("page_length", "190001")


def test_lines_end_at_line_feeds_and_carriage_returns_only() -> None:
    assert page_text("a\rb\r\n\x0b c \u2028d\n \n") == "a\nb\nc \u2028d"


LONG, SHORT = "x" * 200, "x" * 199


@pytest.mark.parametrize(
    ("lines", "drop"),
    [
        ([LONG] * 3, None),
        ([LONG, SHORT, LONG, SHORT, LONG], None),
        ([LONG, LONG, SHORT], Drop("long_lines", "2")),
        ([SHORT] * 9, Drop("long_lines", "0")),
    ],
)
def test_three_lines_of_200_characters(lines, drop) -> None:
    assert LongLines().judge(Document("\n".join(lines), "a:0")) == drop
