import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.page_length import LongLines, PageLength, StrippedLines, page_text


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
