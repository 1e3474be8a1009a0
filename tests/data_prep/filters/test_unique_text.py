"""Global line and span deduplication through the real key, bucket and loser files."""

import hashlib
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from datatrove.data import Document
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import GlobalFilter
from headrace.data_prep.filters.keys import KeyWriter, Losers, decide
from headrace.data_prep.filters.unique_text import UniqueLines, UniqueSpans
from headrace.pipeline.core.artifact import TaskOutput

MEMORY_BYTES = 2000
"""Little enough to spill."""


def apply(rule: GlobalFilter, shards: list[list[Document]], buckets: int = 3) -> list[list[Drop | None]]:
    """Runs ``rule`` over the documents of ``shards``, which it changes in place; returns the drops."""
    with tempfile.TemporaryDirectory() as folder:
        outs = [TaskOutput(Path(folder), "test", task) for task in range(len(shards))]
        for out, documents in zip(outs, shards, strict=True):
            with KeyWriter(rule, out, buckets, MEMORY_BYTES) as writer:
                for document in documents:
                    writer.add(document)
            out.done({})
        for bucket in reversed(range(buckets)):
            out = TaskOutput(Path(folder), "decide", bucket)
            decide(rule, out, "test", len(shards), MEMORY_BYTES)
            out.done({})
        drops = []
        for out, documents in zip(outs, shards, strict=True):
            with Losers(out, "decide", buckets, MEMORY_BYTES) as losers:
                drops.append([rule.trim(document, losers.of(n)) for n, document in enumerate(documents)])
        return drops


def page(text: str, url: str = "", number: int = 0) -> Document:
    return Document(text, f"a:{number}", metadata={"url": url})


def by_md5(*names: str) -> list[str]:
    return sorted(names, key=lambda name: hashlib.md5(name.encode()).hexdigest())


LINES = UniqueLines(min_sentences=0)


def test_a_line_stays_on_the_page_of_least_md5() -> None:
    first, second = by_md5("http://a.org", "http://b.org")
    pages = [page("one.\nshared.", second), page(" SHARED. \ntwo.", first)]
    assert apply(LINES, [pages[:1], pages[1:]]) == [[None], [None]]
    assert [p.text for p in pages] == ["one.", " SHARED. \ntwo."]
    assert pages[0].metadata["removed_lines"] == {"unique_lines": 1}
    assert "removed_lines" not in pages[1].metadata


def test_without_url_the_id_decides() -> None:
    first, second = by_md5("a:1", "a:2")
    pages = [page("x.\ny.", number=int(second[-1])), page("y.\nz.", number=int(first[-1]))]
    apply(LINES, [pages])
    assert [p.text for p in pages] == ["x.", "y.\nz."]


def test_a_line_stays_once_in_its_page_and_blank_lines_stay() -> None:
    document = page("a\n\nb\nA\n\n b")
    assert apply(LINES, [[document]]) == [[None]]
    assert document.text == "a\n\nb\n"


def test_pages_of_one_url_and_rank_do_not_both_keep_a_line() -> None:
    pages = [page("same line", "u"), page("same line", "u")]
    assert apply(LINES, [[], pages[:1], pages[1:]]) == [
        [],
        [None],
        [Drop("unique_lines.empty", "1 line is on other pages")],
    ]


def test_too_few_sentences_left() -> None:
    pages = [page("One is here. Two is here. Three is here.\nFour.", by_md5("u", "v")[0])]
    pages.append(page("Four.\nOne is here. Two is here.", by_md5("u", "v")[1]))
    assert apply(UniqueLines(), [pages]) == [[None, Drop("unique_lines.sentences", "1 line is on other pages")]]
    assert pages[1].text == "Four.\nOne is here. Two is here."


def test_sentences_are_counted_over_the_whole_page_even_when_no_line_was_lost() -> None:
    """Line by line these are three sentences; together Punkt sees fewer, and the reference counts them together."""
    text = "He went to see Mr.\nSmith and his wife.\nThey were out."
    assert apply(UniqueLines(), [[page(text)]]) == [[Drop("unique_lines.sentences", "0 lines are on other pages")]]


SENTENCES = ["Rain fell.", "Wind blew.", "Snow came.", "Sun shone.", "Night fell.", "Day broke."]
pages_of_sentences = st.lists(
    st.lists(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=4),
    min_size=1,
    max_size=5,
)


def flat(document: Document) -> list[str]:
    return [s.strip() + "." for s in document.text.replace("\n", " ").split(".") if s.strip()]


def windows(sentences: list[str]) -> list[tuple[str, ...]]:
    return [tuple(sentences[n : n + 3]) for n in range(len(sentences) - 2)]


@given(pages=pages_of_sentences, urls=st.permutations([f"u{n}" for n in range(5)]))
@settings(max_examples=30)
def test_no_sentence_vanishes_and_lost_spans_are_elsewhere(pages, urls) -> None:
    documents = [page("\n".join(lines), urls[n], n) for n, lines in enumerate(pages)]
    before = [flat(d) for d in documents]
    drops = apply(UniqueSpans(min_sentences=0), [documents[:2], documents[2:]], buckets=2)[:]
    after = [[] if drop else flat(d) for d, drop in zip(documents, [*drops[0], *drops[1]], strict=True)]
    assert {s for sentences in after for s in sentences} == {s for sentences in before for s in sentences}
    counts = Counter(window for sentences in before for window in windows(sentences))
    for old, new in zip(before, after, strict=True):
        if all(counts[window] == 1 for window in windows(old)):
            assert new == old
    if not any(number > 1 for number in counts.values()):
        assert after == before


def test_all_but_one_copy_of_a_span_is_removed() -> None:
    first, second = by_md5("u", "v")
    shared = "Rain fell. Wind blew. Snow came."
    pages = [page(f"Sun shone.\n{shared} Night fell.", second), page(f"{shared.upper()}\nDay broke.", first)]
    assert apply(UniqueSpans(min_sentences=2), [pages]) == [[None, None]]
    assert [p.text for p in pages] == ["Sun shone.\nNight fell.", f"{shared.upper()}\nDay broke."]
    assert pages[0].metadata["removed_sentences"] == {"unique_spans": 3}


def test_two_shared_sentences_are_no_span() -> None:
    pages = [page("Rain fell. Wind blew. Snow came.", "u"), page("Rain fell. Wind blew. Sun shone.", "v")]
    assert apply(UniqueSpans(min_sentences=0), [pages]) == [[None, None]]
    assert [p.text for p in pages] == ["Rain fell. Wind blew. Snow came.", "Rain fell. Wind blew. Sun shone."]


@pytest.mark.parametrize("minimum", [1, 2])
def test_span_losers_need_sentences(minimum) -> None:
    first, second = by_md5("u", "v")
    shared = "Rain fell. Wind blew. Snow came."
    pages = [page(shared, first), page(shared + "\nSun shone.", second)]
    drop = None if minimum == 1 else Drop("unique_spans.sentences", "1")
    assert apply(UniqueSpans(min_sentences=minimum), [pages]) == [[None, drop]]
