"""The pages that keep lines, spans or the URL of a page that was dropped for them."""

import json
from pathlib import Path

import pytest
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.c4.lines import PageLength
from headrace.data_prep.filters.unique_text import UniqueLines, UniqueSpans, page_rank
from headrace.data_prep.filters.urls import OnePagePerUrl
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.documents.document_path import keepers

LINES = [f"The wheel of mill {number} turns in the river." for number in range(6)]
OWN = "This line is on one page alone."


def found(run_clean, folder: Path, filters: tuple[AnyFilter, ...], pages: list[dict[str, str]]):
    """Dropped page → its keepers as (id, parts, of)."""
    (folder / "a.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    clean = run_clean(Jsonl(paths=(str(folder / "a.jsonl"),)), Cleaning(filters=filters), folder)
    dropped = [document for path in clean.shards("dropped") for document in read_documents(path)]
    return {
        document.id: [(keeper.document.id, keeper.parts, keeper.of) for keeper in keepers(clean, filters, document)]
        for document in dropped
    }, clean


def md5(url: str) -> list[int]:
    return page_rank(Document(text="", id="", metadata={"url": url})).tolist()


URLS = sorted((f"http://{name}.example" for name in "abcd"), key=md5)
"""URLs in the order in which their pages keep equal lines."""


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("abc", {"c": [("a", 4, 6), ("b", 2, 6)]}),
        ("cab", {"a": [("c", 4, 4)]}),
        ("acb", {}),
    ],
)
def test_the_page_that_keeps_each_line(run_clean, tmp_path: Path, order: str, expected: dict) -> None:
    """A page that an earlier filter dropped keeps no line."""
    texts = {"a": LINES[:4], "b": [*LINES[4:], OWN], "c": [line.upper() for line in LINES], "d": [*LINES, "x" * 500]}
    pages = [{"text": "\n".join(texts[name]), "url": URLS[(f"d{order}").index(name)]} for name in "abcd"]
    filters = (PageLength(max_characters=400), UniqueLines(min_sentences=1))
    results, _ = found(run_clean, tmp_path, filters, pages)
    named = {
        "abcd"[int(identity[-1])]: [("abcd"[int(name[-1])], parts, of) for name, parts, of in keeping]
        for identity, keeping in results.items()
    }
    assert named == {"d": [], **expected}


def test_a_page_that_is_dropped_itself_may_have_the_first_copy(run_clean, tmp_path: Path) -> None:
    pages = [{"text": "\n".join(LINES[:number]), "url": URLS[order]} for order, number in enumerate((1, 2, 3))]
    results, _ = found(run_clean, tmp_path, (UniqueLines(min_sentences=2),), pages)
    assert results == {
        "a.jsonl:0": [],
        "a.jsonl:1": [("a.jsonl:0", 1, 2)],
        "a.jsonl:2": [("a.jsonl:0", 1, 3), ("a.jsonl:1", 1, 3)],
    }


def test_the_newest_page_of_a_url(run_clean, tmp_path: Path) -> None:
    pages = [
        {"text": "Old.", "url": "http://www.a.example/", "date": "2020-01-01"},
        {"text": "New.", "url": "https://a.example", "date": "2021-01-01"},
        {"text": "Other.", "url": "https://b.example", "date": "2022-01-01"},
    ]
    results, _ = found(run_clean, tmp_path, (OnePagePerUrl(),), pages)
    assert results == {"a.jsonl:0": [("a.jsonl:1", 1, 1)]}


@pytest.mark.parametrize("least", [1, 5])
def test_spans_of_sentences(run_clean, tmp_path: Path, least: int) -> None:
    pages = [{"text": " ".join(LINES), "url": f"http://{name}.example"} for name in "abc"]
    winner = min(range(3), key=lambda number: md5(pages[number]["url"]))
    results, _ = found(run_clean, tmp_path, (UniqueSpans(min_sentences=least),), pages)
    assert results == {f"a.jsonl:{n}": [(f"a.jsonl:{winner}", 4, 4)] for n in range(3) if n != winner}
