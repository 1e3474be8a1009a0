import random
import unicodedata

import numpy as np
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.data_prep.dedup.shingles import shingle_hash32, shingle_hashes, shingle_set, shingles


@given(st.text(), st.integers(1, 7))
@example("word " * 40, 5)
@example("antidisestablishmentarianism " * 9, 5)
@example("\U00020000\U0001d7d8é\u0301 \U0001f600 x", 2)
def test_hashes_are_xxh64_of_the_shingles(text, size_words):
    expected = [xxhash.xxh64_intdigest(shingle) for shingle in shingles(text, size_words)]
    assert shingle_hashes(text, size_words).tolist() == expected


@given(st.binary(max_size=200).map(lambda data: "".join(chr(97 + byte % 26) for byte in data)))
def test_hash_of_any_length(word):
    assert shingle_hashes(word, 1).tolist() == ([xxhash.xxh64_intdigest(word.encode())] if word else [])


def test_shingles_of_short_texts():
    assert shingles("one two three", 5) == [b"one two three"]
    assert shingles("a b c d e", 5) == [b"a b c d e"]
    assert shingles("A b, c d e f", 5) == [b"a b c d e", b"b c d e f"]
    assert shingles("?!", 5) == []


@given(st.text())
def test_case_and_composition_do_not_matter(text):
    hashes = shingle_hashes(text, 3)
    assert np.array_equal(hashes, shingle_hashes(unicodedata.normalize("NFD", text.casefold()), 3))


def test_digits_matter():
    one, two = "the price was 100 dollars in 2019", "the price was 200 dollars in 2020"
    assert not set(shingles(one, 5)) & set(shingles(two, 5))


def test_set_is_sorted_and_distinct():
    text = " ".join(random.Random(0).choices("abc", k=200))
    found = shingle_set(text, 2)
    assert found.tolist() == sorted({xxhash.xxh64_intdigest(shingle) for shingle in shingles(text, 2)})
    assert found.dtype == np.uint64


def test_32_bit_hash_is_the_low_half():
    assert shingle_hash32(b"a b c d e") == int(shingle_hashes("a b c d e", 5)[0]) & 0xFFFFFFFF
