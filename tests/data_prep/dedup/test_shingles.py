import random
import re
import unicodedata

import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.data_prep.dedup.shingles import shingle_hash32, shingle_hashes, shingle_set, shingles, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Mill-Wheel turns, 2 × a day.", ["the", "mill", "wheel", "turns", "2", "a", "day"]),
        ("it's snake_case", ["it", "s", "snake_case"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("我爱 ABC中文2", ["我", "爱", "abc", "中", "文", "2"]),
        ("ภาษา", ["ภ", "า", "ษ", "า"]),
        ("น้ำ", ["น้", "ำ"]),
        ("ທນ ကခ ខម", ["ທ", "ນ", "က", "ခ", "ខ", "ម"]),
        ("ひカㇰ〇㐀豈\U00020000𠀁", ["ひ", "カ", "ㇰ", "〇", "㐀", "豈", "\U00020000", "𠀁"]),
        ("co\u00adoperate می\u200cخواهم", ["cooperate", "میخواهم"]),
        ("zero\u200bwidth \u0301 stray", ["zero", "width", "\u0301", "stray"]),
        ("x² ½ №5", ["x²", "½", "5"]),
        ("\ud800broken", ["broken"]),
        ("…!? — ", []),
        ("", []),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_words_of_ascii_are_the_runs_of_word_characters(text):
    assert words(text) == re.findall(r"\w+", text.lower())


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
