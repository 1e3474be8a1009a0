import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.without_addresses import WithoutAddresses


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
