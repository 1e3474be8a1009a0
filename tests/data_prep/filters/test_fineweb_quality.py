import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fineweb_quality import (
    DuplicateLines,
    FineWebQuality,
    LineBreaks,
    LinePunctuation,
    ShortLines,
)
from headrace.data_prep.filters.page_statistics import DatatroveStatistics


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        (LinePunctuation(), "a.\n" * 3 + "b\n" * 22, None),
        (LinePunctuation(), "a.\n" * 2 + "b\n" * 22, "0.0833"),
        (LinePunctuation(), "你好。\n" + "b\n\n" * 7, None),
        (LinePunctuation(marks=(".",)), "你好。\nb", "0.0000"),
        (LinePunctuation(), " \n", "0.0000"),
        (ShortLines(), "x" * 30 + "\n" + "y" * 31, None),
        (ShortLines(), "x" * 30 + "\n" + "y" * 30 + "\n\n" + "z" * 31, None),
        (ShortLines(), ("x" * 30 + "\n") * 3 + "z" * 31, "0.7500"),
        (DuplicateLines(), "a" * 99 + "\nb\nb", None),
        (DuplicateLines(), "a" * 98 + "\nb\nb\nb", "0.0198"),
        (DuplicateLines(), "\n \n \n" + "a" * 96, None),
        (LineBreaks(), "a b c d e f g\nh\ni\nj", None),
        (LineBreaks(), "a\nb\n\nc", "1.0000"),
    ],
)
def test_rule(rule, text, value) -> None:
    assert rule.failure(DatatroveStatistics(text)) == value


def test_the_first_failure_is_the_reason() -> None:
    assert FineWebQuality().judge(Document("Home\nAbout\nContact", "a:0")) == Drop(
        "fineweb_quality.line_punctuation", "0.0000"
    )
    prose = "The wheel of the old mill was turning all day, and nobody came to see it.\nThen it rained for three days."
    assert FineWebQuality().judge(Document(prose, "a:0")) is None
