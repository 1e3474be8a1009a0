"""Which blocks of a labelled page are main text; training on labelled pages, and its program."""

import json
import re

import numpy as np
import pytest

from benchmarks.data.extractor_training import cross_validated, main, part_of, train, word_f1
from benchmarks.data.labelled_pages import LISTS, TEXTS, labelled, labelled_pages, site_of
from headrace.data_prep.sources.html import Html
from headrace.pipeline.core.errors import ArtifactError
from tests.data_prep.extraction.labelled import labelled_page
from tests.data_prep.extraction.test_page import page

NAN = float("nan")


def shares_of(html: str, **fields) -> list[float]:
    return labelled(page(html), fields).shares.tolist()


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
    assert shares_of(html, truth=truth)[: len(expected)] == expected


def test_shares_of_sentences():
    html = "<p>Wanted text here.<p>Unknown.<p>Menu<p>Both: Wanted text here."
    found = shares_of(html, snippets_in=["wanted  TEXT here.", "no"], snippets_out=["menu"])
    np.testing.assert_equal(found, [1, NAN, 0, 1])


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://www.a.example.org/x", "example.org"),
        ("https://news.bbc.co.uk/", "bbc.co.uk"),
        ("example.org", "example.org"),
        ("", ""),
        ("https://x.de", "x.de"),
        ("http://[x", "http://[x"),
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
    problem = "is no labelled page (it has no html)" if "}" in line else "is no JSON object"
    with pytest.raises(ArtifactError, match=re.escape(f"{problem}; give JSON objects with html and truth")) as error:
        list(labelled_pages([path]))
    assert "pages.jsonl:2" in str(error.value)


@pytest.mark.parametrize("name", [*TEXTS, *LISTS])
def test_fields_of_every_type(tmp_path, name):
    """A field is right, absent, or named with its value; nothing else happens."""
    path = tmp_path / "pages.jsonl"
    for value in (5, True, {}, [5], "text", ["text"], None):
        path.write_text(json.dumps({"html": "<p>some text", name: value}))
        if value is None or (isinstance(value, list if name.startswith("snippets") else str) and value != [5]):
            assert len(list(labelled_pages([path]))) == 1
        else:
            with pytest.raises(ArtifactError, match=rf"pages.jsonl:1: is no labelled page \(its {name} is "):
                list(labelled_pages([path]))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    pytest.importorskip("lightgbm", reason="lightgbm trains the models: pip install headrace[extractor-training]")
    path = tmp_path_factory.mktemp("pages") / "pages.jsonl"
    path.write_text("\n".join(json.dumps(labelled_page(number)) for number in range(240)))
    return path


def test_pages_of_other_sites_are_read_right(file):
    pages = list(labelled_pages([file]))
    found = list(cross_validated(pages, 3, 1, lambda some: train(some, 20, 1, {})))
    assert len(found) == len(pages) == 240
    scores = [one.f1 for one in found if one.f1 is not None]
    assert len(scores) == 192
    assert sum(scores) / len(scores) > 0.98
    assert all(all(one.wanted) for one in found)
    assert not any(any(one.unwanted) for one in found)


def test_sites_are_in_one_part():
    assert {part_of("a.org", 5, 1) for _ in range(3)} == {part_of("a.org", 5, 1)}
    assert {part_of(f"{number}.org", 5, 1) for number in range(100)} == set(range(5))


def test_word_f1():
    assert word_f1("a b b", "B c") == pytest.approx((1 / 3, 1 / 2, 2 / 5))
    assert word_f1("", "a") == (0.0, 0.0, 0.0)


def test_the_program_writes_a_model_that_a_source_uses(file, tmp_path, capsys):
    one, two = tmp_path / "one.npz", tmp_path / "two.npz"
    main([str(file), "--folds", "2", "--trees", "20", "--out", str(one)])
    head, _, *rows, written = capsys.readouterr().out.splitlines()
    assert head == "| pages | number | F1 | precision | recall | wanted found | unwanted found |"
    assert [row.split(" | ")[:2] for row in rows] == [["| all", "240"], ["| article", "120"], ["| forum", "120"]]
    assert written.split() == ["written", str(one)]
    main([str(file), "--folds", "0", "--trees", "20", "--out", str(two)])
    assert one.read_bytes() == two.read_bytes()
    (tmp_path / "a.html").write_text(labelled_page(1001)["html"])
    source = Html(paths=(str(tmp_path / "a.html"),), extractor_model=str(one))
    ((document, drop),) = source.read("a.html")
    assert drop is None
    assert document.text.split("\n") == labelled_page(1001)["truth"].split("\n")


def test_what_the_program_refuses(tmp_path, capsys):
    page = tmp_path / "one.jsonl"
    page.write_text(json.dumps(labelled_page(1)))
    for arguments, message in {
        ("no.jsonl",): "there is no no.jsonl",
        (str(page), "--folds", "1"): "give 2 folds or more, or 0",
        (str(page), "--seed", "-1"): "a seed of 31 bits",
        (str(page), "--folds", "0"): "labelled blocks on 1 pages are too few",
        (str(page), "--folds", "2"): "labelled blocks on 0 pages are too few",
    }.items():
        with pytest.raises(SystemExit):
            main(arguments)
        assert message in capsys.readouterr().err
