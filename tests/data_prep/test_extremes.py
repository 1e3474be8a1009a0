"""The pages of a task that lose the least and the most in extraction."""

import pytest
from datatrove.data import Document

from headrace.data_prep.extraction.page import HtmlPage, read_page
from headrace.data_prep.extremes import LEAST_CHARACTERS, Extremes, read_extremes
from headrace.data_prep.sources.html import HtmlExtraction

ALL = HtmlExtraction(extractor="all_text")


def offered(extremes: Extremes, name: str, kept: int, left_out: int) -> None:
    page = read_page(f"<p>{name}<p>text")
    assert isinstance(page, HtmlPage)
    extremes.offer(Document("x" * kept, name, metadata={"url": f"https://{name}", "left_out": left_out}), page)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([], []),
        ([0.5], [0.5]),
        ([0.5, 0.5], [0.5]),
        ([0.5, 0.2], [0.2, 0.5]),
        ([0.2, 0.5, 0.4, 0.9, 0.1, 0.3], [0.1, 0.9]),
    ],
)
def test_extremes(tmp_path, shares, expected):
    extremes = Extremes(ALL)
    for number, share in enumerate(shares):
        offered(extremes, f"a{number}", 1000 - int(share * 1000), int(share * 1000))
    offered(extremes, "small", 0, LEAST_CHARACTERS - 1)
    extremes.write(tmp_path / "pages")
    found = read_extremes(tmp_path / "pages")
    assert [page.share for page in found] == expected
    for page in found:
        assert page.blocks == [(True, page.id), (True, "text")]
        assert page.url == f"https://{page.id}"
