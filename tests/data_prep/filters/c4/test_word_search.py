"""The compiled search finds what the regular expression finds in the lower-cased page."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.filters.c4.bad_words import languages_of, list_files, may_hold, searches, trie_of

entries = st.lists(st.text("abB+é \u0307ßσ坏_", min_size=1, max_size=4), max_size=8)
PIECES = [*"aAbB+éÉ \u0307ßẞσ坏_.\n\u212ai", "ab", " bb ", "a b"]
texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


def found(words: list[str], anywhere: bool, text: str) -> bool:
    entry = f"({'|'.join(map(re.escape, words))})" if words else "(?!)"
    return re.search(entry if anywhere else rf"(?:\W|^){entry}(?:\W|$)", text.lower()) is not None


@given(words=entries, text=texts | st.text(st.characters(exclude_characters="İΣ")), anywhere=st.booleans())
@settings(max_examples=200)
def test_equal_to_the_regular_expression(words, text, anywhere) -> None:
    assert may_hold(text, trie_of(words, anywhere)) == found(words, anywhere, text)


@given(words=st.lists(st.text("iσςΣ\u0307a", min_size=1, max_size=3)), text=st.text("İΣσa. "), anywhere=st.booleans())
@settings(max_examples=200)
def test_where_python_alone_knows_the_lower_case_nothing_is_missed(words, text, anywhere) -> None:
    assert may_hold(text, trie_of(words, anywhere)) >= found(words, anywhere, text)


@pytest.mark.parametrize("text", ["", "a", "ab ab", "ſ\u212a"])
def test_without_entries_nothing_is_found(text) -> None:
    assert not may_hold(text, trie_of([], False))


def test_an_entry_that_begins_like_another() -> None:
    tree = trie_of(["very bad", "very bad thing", "bad"], False)
    assert may_hold("a very bad day", tree)
    assert may_hold("a very BAD", tree)
    assert not may_hold("very badly, inbad", tree)


@pytest.mark.parametrize("language", sorted(languages_of(list_files(None))))
def test_the_carried_lists(language) -> None:
    tree, pattern = searches(language, None, ())
    text = "Nothing is wrong with the old mill by the river; 水はきれいです。"
    assert may_hold(text, tree) == (pattern.search(text.lower()) is not None)


def test_real_pages(web_texts) -> None:
    tree, pattern = searches("en", None, ())
    found = [may_hold(text, tree) for text in web_texts]
    assert found == [pattern.search(text.lower()) is not None for text in web_texts]
    assert 0 < sum(found) < len(found) / 4
