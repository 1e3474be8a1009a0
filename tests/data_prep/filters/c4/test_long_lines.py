import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.long_lines import LongLines

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
