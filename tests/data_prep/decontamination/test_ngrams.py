import numpy as np
import pytest

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.ngrams import NGrams, ngrams_of, prefix_key
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from tests.data_prep.decontamination.quiz import Quiz, numbered


def test_every_run_of_n_words_once():
    text = numbered(0, 15) + "! " + numbered(0, 13).upper()
    assert ngrams_of((text,), 13) == [
        " ".join(f"word{i}" for i in [*range(15), *range(13)][first : first + 13]).encode() for first in range(15)
    ]
    assert ngrams_of((numbered(0, 13), numbered(0, 13)), 13) == [numbered(0, 13).encode()]


def test_no_ngram_spans_two_texts():
    assert ngrams_of((numbered(0, 9), numbered(9, 20)), 13) == [numbered(9, 20).encode()]


@pytest.mark.parametrize(("n_words", "expected"), [(7, []), (8, [8]), (12, [12]), (13, [13]), (14, [13, 13])])
def test_a_short_item_is_searched_as_a_whole(n_words, expected):
    assert [len(ngram.split()) for ngram in ngrams_of((numbered(0, n_words),), 13)] == expected


def test_no_text_has_no_ngrams():
    assert ngrams_of((), 13) == ngrams_of(("", "?"), 13) == []


def test_the_key_is_of_8_words():
    seven, eight, thirteen = (prefix_key(numbered(0, number).encode()) for number in (7, 8, 13))
    assert eight == thirteen != seven


def test_items_and_ngrams_find_each_other(tmp_path):
    b = Quiz({"x:1": (numbered(0, 14),), "x:2": ("Zürich!",)})
    a = Quiz({"y:1": (numbered(1, 14), "é" * 3)})
    made = NGrams.of({"b": b, "a": a}, 13)
    out = TaskOutput(tmp_path, "ngrams", 0)
    made.save(out)
    out.done({})
    loaded = NGrams.load(out, "ngrams")
    for ngrams in (made, loaded):
        assert [ngrams.name(item) for item in range(3)] == ["a/y:1", "b/x:1", "b/x:2"]
        assert ngrams.sizes.tolist() == [1, 2, 0]
        assert ngrams.keys.tolist() == sorted(ngrams.keys.tolist())
        owners = {ngrams.ngram(n).decode(): [ngrams.name(i) for i in ngrams.items_of(n)] for n in range(2)}
        assert owners == {numbered(0, 13): ["b/x:1"], numbered(1, 14): ["a/y:1", "b/x:1"]}
        assert [ngrams.keys[n] for n in range(2)] == [prefix_key(ngrams.ngram(n)) for n in range(2)]
        assert ngrams.lengths.tolist() == [13, 13]
    assert made.counts == {"benchmark_items": 3, "too_short_items": 1, "benchmark_ngrams": 2}


def test_nothing_to_search_for():
    ngrams = NGrams.of({}, 13)
    assert ngrams.keys.dtype == np.uint64
    assert ngrams.counts == {"benchmark_items": 0, "too_short_items": 0, "benchmark_ngrams": 0}


def test_fewer_than_8_words_say_nothing():
    with pytest.raises(ConfigError) as caught:
        decode(Decontamination, {"ngram_words": 7})
    assert str(caught.value) == ("ngram_words: must be at least 8 (got 7); correct the value")
