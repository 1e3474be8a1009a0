"""Which blocks of a labelled page are main text."""

import json

import numpy as np
import pytest

from headrace.data_prep.extraction.main_text.labels import labelled, labelled_pages, site_of
from headrace.data_prep.extraction.page import HtmlPage, read_page
from headrace.pipeline.core.errors import ArtifactError

NAN = float("nan")


def shares(html: str, **fields) -> list[float]:
    page = read_page(html)
    assert isinstance(page, HtmlPage)
    return labelled(page, fields).shares.tolist()


@pytest.mark.parametrize(
    ("html", "truth", "expected"),
    [
        ("<p>a b c d<p>x y z", "A b, c d.", [1, 0]),
        ("<p>a b c d e f<p>", "b c d", [0.5]),
        ("<h2>One</h2><p>a b c d e f<nav>One</nav><i>q</i>", "One\na b c d e f", [1, 1, 0]),
        ("<p>x x x x x x<h2>One</h2><p>y y y y y", "One", [0, 0, 0]),
        ("<p>a <b>b</b><p>c d", "a b c d", [1, 1]),
        ("<p>...<p>a b c", "a b c", [0, 1]),
    ],
)
def test_shares_of_a_truth(html, truth, expected):
    assert shares(html, truth=truth)[: len(expected)] == expected


def test_shares_of_sentences():
    html = "<p>Wanted text here.<p>Unknown.<p>Menu<p>Both: Wanted text here."
    found = shares(html, snippets_in=["wanted  TEXT here.", "no"], snippets_out=["menu"])
    np.testing.assert_equal(found, [1, NAN, 0, 1])


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://www.a.example.org/x", "example.org"),
        ("https://news.bbc.co.uk/", "bbc.co.uk"),
        ("example.org", "example.org"),
        ("", ""),
        ("https://x.de", "x.de"),
    ],
)
def test_sites(url, site):
    assert site_of(url) == site


def test_pages_of_files(tmp_path):
    rows = [{"html": "<p>a b c", "truth": "a b c", "url": "https://a.org", "language": "de"}, {"html": "<svg>"}]
    path = tmp_path / "pages.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    (page,) = labelled_pages([path])
    assert (page.site, page.group, page.truth, page.words.tolist()) == ("a.org", "de", "a b c", [3])


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"html": 1}'])
def test_lines_that_are_no_pages(tmp_path, line):
    path = tmp_path / "pages.jsonl"
    path.write_text(f'{{"html": "x"}}\n{line}\n')
    with pytest.raises(
        ArtifactError, match=r"pages.jsonl:2: is no labelled page .*; give JSON objects with html and truth"
    ):
        list(labelled_pages([path]))


@pytest.mark.parametrize("name", ["truth", "url", "id", "page_type", "language", "snippets_in", "snippets_out"])
@pytest.mark.parametrize("value", [5, True, {}, [5], "text", ["text"], None])
def test_fields_of_every_type(tmp_path, name, value):
    """A field is right, absent, or named with its value; nothing else happens."""
    path = tmp_path / "pages.jsonl"
    path.write_text(json.dumps({"html": "<p>some text", name: value}))
    right = value is None or (isinstance(value, list if name.startswith("snippets") else str) and value != [5])
    if right:
        assert len(list(labelled_pages([path]))) == 1
    else:
        with pytest.raises(ArtifactError, match=rf"pages.jsonl:1: is no labelled page \(its {name} is "):
            list(labelled_pages([path]))


def test_a_url_that_cannot_be_read_is_a_site():
    assert site_of("http://[x") == "http://[x"
