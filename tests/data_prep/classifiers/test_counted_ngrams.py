"""The compiled n-grams are those of the definition in plain Python."""

import math
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.data_prep.classifiers.counted_ngrams import ONE, NgramSettings, features, ngrams
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode

SETTINGS = (
    NgramSettings(),
    NgramSettings(words=0, characters=(1, 4), bucket_bits=10),
    NgramSettings(words=3, characters=(2, 5), fold=False),
)


@pytest.mark.parametrize("counted", SETTINGS, ids=str)
@given(text=st.text(max_size=60))
@example(text="")
@example(text="The mill, the mill: THE MILL!")
@example(text="水車小屋は川のそばにある。 Мельница стоит ที่ริมแม่น้ำ")
@example(text="a\ud800b e\u0301\u0301 \u00ad")
def test_they_are_those_of_the_definition(counted, text):
    counts = Counter(bucket for _, bucket in ngrams(text, counted))
    buckets, values = features(text, counted)
    assert buckets.tolist() == sorted(counts)
    total = sum(counts.values())
    assert values.tolist() == [math.isqrt((counts[bucket] << 30) // total) for bucket in sorted(counts)]


def test_a_text_by_hand():
    assert [ngram.decode() for ngram, _ in ngrams("A Mill-w", NgramSettings(characters=(7, 8)))] == [
        "a", "mill", "w", "a mill", "mill w", "a mill ", " mill w", "a mill w",
    ]  # fmt: skip
    [bucket], [value] = features("mill mill", NgramSettings(words=1))
    assert (value, [bucket]) == (ONE, [b for _, b in ngrams("Mill", NgramSettings(words=1))])


def test_capitals_are_other_letters_without_folding():
    buckets = [features(text, NgramSettings(fold=False))[0].tolist() for text in ("Mill", "mill", "MÜHLE", "mühle")]
    assert len({tuple(own) for own in buckets}) == 4
    folded = [features(text, NgramSettings())[0].tolist() for text in ("Mill", "mill", "MÜHLE", "mühle")]
    assert folded[0] == folded[1]
    assert folded[2] == folded[3]


@pytest.mark.parametrize("count", [1, 3, 4, 99, 32_768])
def test_roots_are_exact(count):
    """Also of square shares and of those just below."""
    for other in (count - 1, count, count * 3, 32_767 - count):
        if other > 0:
            _, values = features("mill " * count + "river " * other, NgramSettings(words=1))
            assert sorted(values.tolist()) == sorted(math.isqrt((n << 30) // (count + other)) for n in (count, other))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"words": 0}, "n-grams: neither words nor characters are counted; give words or characters"),
        ({"words": 9}, "n-grams: n-grams of up to 9 words and of 1 to 1 characters; give numbers of at most 8, "),
        ({"characters": [4, 3]}, "n-grams: n-grams of up to 2 words and of 4 to 3 characters; give numbers"),
        ({"characters": [0, 3]}, "n-grams: n-grams of up to 2 words and of 0 to 3 characters; give numbers"),
        ({"bucket_bits": 40}, "bucket_bits: must be at most 28 (got 40)"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(ConfigError) as caught:
        decode(NgramSettings, values)
    assert str(caught.value).startswith(message)
