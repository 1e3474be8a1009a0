import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.line_corrections import (
    CounterLine,
    CutPhrase,
    LineCorrections,
    NumericLine,
    UppercaseLine,
    WithoutAddresses,
)

PROSE = "The wheel of the old mill was turning all day, and nobody came to see how it was done. " * 4


@pytest.mark.parametrize(
    ("rule", "line", "left"),
    [
        (UppercaseLine(), "ABcd", "ABcd"),
        (UppercaseLine(), "ABCde", None),
        (UppercaseLine(), "ABC   ", "ABC   "),
        (NumericLine(), "2019", None),
        (NumericLine(), "2,019", "2,019"),
        (NumericLine(), "20 19", "20 19"),
        (CounterLine(), "3 likes", None),
        (CounterLine(), "(1.2K Views)", None),
        (CounterLine(), "3 mills", "3 mills"),
        (CounterLine(), "he likes 3 likes", "he likes 3 likes"),
        (CutPhrase(phrase="items in cart"), "3 Items in cart now", "3 now"),
        (CutPhrase(phrase="read more...", place="end"), "The mill. Read more...", "The mill."),
        (CutPhrase(phrase="read more...", place="end"), "read more... here", "read more... here"),
        (CutPhrase(phrase="read more...", place="end"), "Read more...", None),
        (CutPhrase(phrase="sign-in", place="beginning"), "Sign-in to go on", "to go on"),
        (CutPhrase(phrase="sign-in", place="beginning"), "please sign-in", "please sign-in"),
        (CutPhrase(phrase="x", max_words=2), "a b x", "a b x"),
        (CutPhrase(phrase="x", max_words=3), "a b x", "a b"),
    ],
)
def test_rule(rule, line, left) -> None:
    assert rule.apply(line) == left


def test_lines_are_cut_and_counted() -> None:
    document = Document(f"HOME\n{PROSE}\n\n  \n2019\nComments\nSign-in to go on\n{PROSE}", "a:0")
    assert LineCorrections().judge(document) is None
    assert document.text == f"{PROSE}\n\nto go on\n{PROSE}".strip()
    assert document.metadata["removed_lines"] == {
        "line_corrections.uppercase_line": 1,
        "line_corrections.numeric_line": 1,
        "line_corrections.few_words": 2,
    }


def test_a_page_that_loses_too_much_is_dropped() -> None:
    text = "HOME ABOUT\n" + "word " * 38
    assert LineCorrections().judge(Document(text, "a:0")) is None
    text = "HOME ABOUT\n" + "word " * 37
    document = Document(text, "a:0")
    assert LineCorrections().judge(document) == Drop("line_corrections.removed_words", "0.0513")
    assert document == Document(text, "a:0")
    assert LineCorrections().judge(Document("12", "a:0")) == Drop("line_corrections.removed_words", "1.0000")
    assert LineCorrections().judge(Document("", "a:0")) == Drop("line_corrections.removed_words", "0.0000")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("See https://a.org/x?y=1#z for more.", "See for more."),
        ("See HTTP://a.org.", "See."),
        ("(see www.a.org/b) and ftp://c.org!", "(see) and!"),
        ("a.org stays, so does www and http:", "a.org stays, so does www and http:"),
        ("one\nhttp://a.org\ntwo", "one\n\ntwo"),
        ("a\n\n\nb\n\nc\n\n\n\nd", "a\n\nb\n\nc\n\nd"),
    ],
)
def test_addresses_and_blank_lines(text, left) -> None:
    document = Document(text, "a:0")
    assert WithoutAddresses().judge(document) is None
    assert document.text == left


def test_nothing_else() -> None:
    assert WithoutAddresses().judge(Document(" http://a.org\n", "a:0")) == Drop("without_addresses", "nothing else")
