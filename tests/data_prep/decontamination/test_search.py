"""The kernel finds what the readable search finds, and both find what was planted."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.decontamination.search import Search
from headrace.data_prep.text.words import word_count, words
from tests.data_prep.decontamination.quiz import Quiz, numbered, search_for

ITEM = "In my palm is a clear stone, and inside it is a small ivory statuette."
LETTERS = st.lists(st.sampled_from(["a", "b", "é", "名", "a\u0301"]), max_size=60)


def slow_search(search: Search, ignored: frozenset[int] = frozenset()) -> Callable[[str], np.ndarray]:
    """``search.hits`` in plain Python: looks up every run of words in a table of the n-grams."""
    ngrams = search.ngrams
    by_text = {ngrams.ngram(number): number for number in range(ngrams.keys.size) if number not in ignored}
    lengths = np.unique(ngrams.lengths).tolist()

    def hits(text: str) -> np.ndarray:
        parts = [word.encode("utf-8", "surrogatepass") for word in words(text)]
        found = {
            (first, number)
            for first in range(len(parts))
            for length in lengths
            if (number := by_text.get(b" ".join(parts[first : first + length]))) is not None
        }
        return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)

    return hits


@pytest.mark.parametrize(
    "planted",
    [
        ITEM,
        ITEM.upper(),
        "in my palm is a clear stone and inside it is a small",
        "«In my palm is — a clear stone and\ninside it is a small-ivory",
        ITEM.replace(" ", "\u00a0"),
    ],
)
def test_case_punctuation_and_space_do_not_matter(planted):
    search = search_for(item=ITEM)
    hits = search.hits(f"{numbered(0, 20)} {planted} {numbered(0, 20)}")
    assert hits[0].tolist() == [20, hits[0, 1]]
    assert search.ngrams.name(search.ngrams.items_of(int(hits[0, 1]))[0]) == "quiz/item"


@pytest.mark.parametrize(
    "planted",
    [
        "In my palm is a clear stone, and inside it is a.",
        "In my palm is a clear stone, and inside it is a smallish",
        "In my palm is a clear stone, and inside it is one small",
        "xin my palm is a clear stone, and inside it is a minor",
    ],
)
def test_12_words_are_not_found(planted):
    search = search_for(item=ITEM)
    assert search.hits(f"{numbered(0, 20)} {planted} {numbered(0, 20)}").shape == (0, 2)
    assert search.hits(planted).shape == (0, 2)
    assert search_for(ngram_words=8, item=ITEM).hits(planted).size


def test_more_hits_than_the_first_array_holds():
    search = search_for(item=numbered(0, 100))
    hits = search.hits(numbered(0, 100))
    assert hits[:, 0].tolist() == list(range(88))
    assert len(set(hits[:, 1].tolist())) == 88


def test_short_and_long_ngrams_that_begin_alike():
    """All have one key: the text decides."""
    items = {"eight": numbered(0, 8), "nine": numbered(0, 9), "long": numbered(0, 13), "other": numbered(0, 8) + " end"}
    search = search_for(**items)
    assert np.unique(search.ngrams.keys).size == 1
    found = {search.ngrams.ngram(number).decode() for number in search.hits(numbered(0, 12))[:, 1]}
    assert found == {numbered(0, 8), numbered(0, 9)}


def test_ignored_ngrams_are_not_found():
    ngrams = search_for(item=numbered(0, 15)).ngrams
    ignored = np.array([ngram.startswith(b"word1 ") for ngram in map(ngrams.ngram, range(3))])
    search = Search(ngrams, ignored)
    assert search.hits(numbered(0, 15))[:, 0].tolist() == [0, 2]
    expected = slow_search(search, frozenset(np.flatnonzero(ignored).tolist()))(numbered(0, 15))
    assert np.array_equal(expected, search.hits(numbered(0, 15)))


@pytest.mark.parametrize("text", ["", "x", "…", numbered(0, 7), numbered(0, 300)])
def test_nothing_to_find(text):
    assert search_for().hits(text).shape == search_for(item="too short").hits(text).shape == (0, 2)


@given(st.lists(LETTERS, max_size=5), LETTERS, st.integers(8, 10), st.sampled_from([" ", "\t", "-"]))
@example([["a"] * 30], ["a"] * 30, 8, " ")
@example([["a", "b"] * 6, ["a"] * 8], ["a", "b"] * 20, 9, ", ")
def test_the_kernel_equals_the_readable_search(items, text, ngram_words, space):
    given_items = {f"i{number}": (" ".join(item),) for number, item in enumerate(items)}
    search = Search(NGrams.of({"quiz": Quiz(given_items)}, ngram_words))
    joined = space.join(text)
    hits = search.hits(joined)
    assert hits.tolist() == slow_search(search)(joined).tolist()
    for word, number in hits.tolist():
        ngram = search.ngrams.ngram(number).decode()
        assert " ".join(words(joined)[word:]).startswith(ngram)


@pytest.mark.slow
def test_the_kernel_equals_the_readable_search_on_real_text(data_folder):
    import orjson

    from headrace.pipeline.core.text_files import read_lines

    lines = read_lines(data_folder("text/english_documents.jsonl.zst"))
    texts = [orjson.loads(line)["text"][:50_000] for line, _ in zip(lines, range(30), strict=False)]
    generator = random.Random(5)
    items = {}
    for number in range(300):
        text = generator.choice(texts)
        start = generator.randrange(len(text))
        items[f"i{number}"] = (text[start : start + generator.randrange(20, 400)],)
    search = Search(NGrams.of({"quiz": Quiz(items)}, 13))
    slow_hits, found = slow_search(search), set[int]()
    for text in texts:
        hits = search.hits(text)
        assert np.array_equal(hits, slow_hits(text))
        found |= set(hits[:, 1].tolist())
    assert len(found) > 500


@given(st.text())
def test_word_count(text):
    assert word_count(text) == len(words(text))
