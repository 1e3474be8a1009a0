"""Punkt without nltk's loader: the same parameters, the same sentences, counted lazily."""

import hashlib
import itertools
import shutil

import nltk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.filters.punkt import (
    FILES,
    count_sentences,
    has_sentences,
    has_sure_breaks,
    punkt,
    punkt_files,
    punkt_folder,
    sentences_of,
)

SHA256 = {
    "abbrev_types.txt": "92a3e070f43d9b4c5534758ca40ad7343b04e7e29bfe0c2eb658a39445a4f779",
    "sent_starters.txt": "f3f8535483e1dba487241b764945168123bca3209a9645e59acd1225dc76edac",
    "collocations.tab": "8e2da1225e4dd2cc9dba261ee231ccb134859e21b46006e7f472c5ee269af0cf",
    "ortho_context.tab": "4bbcca25ed3d3f06c02402abf8419b9f033b8adc06e7b482eca4e45f81a5dc4c",
}

PIECES = [
    "Mr. ",
    "e.g. ",
    "U.S. ",
    "The end. ",
    "Really?! ",
    '"Yes." ',
    "(No.) ",
    "3.5 ",
    "... ",
    "\n",
    "x ",
    "Jan. 5 ",
    "! ",
]
texts = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)


@pytest.fixture(scope="module")
def reference():
    nltk.data.path.insert(0, str(punkt_folder().parents[2]))
    return nltk.data.load("tokenizers/punkt/english.pickle")


@given(text=texts | st.text())
def test_equal_to_nltk(text, reference) -> None:
    assert sentences_of(text) == reference.tokenize(text)


@given(text=texts, limit=st.integers(0, 6))
def test_counting_stops_early_with_the_right_number(text, limit, reference) -> None:
    sentences = len(reference.tokenize(text))
    assert count_sentences(text, limit) == min(sentences, limit)
    assert has_sentences(text, limit) == (sentences >= limit)


SURE = [
    "wheel. ",
    "the wheel.\n",
    "etc. ",
    "the vs. ",
    "ii. ",
    "The ",
    "a. ",
    "(x) ",
    "2 ",
    "-- ",
    '" ',
    ") ",
    "\u00a0",
    " ",
]


@given(text=st.lists(st.sampled_from(SURE + PIECES), max_size=20).map("".join), minimum=st.integers(1, 6))
@settings(max_examples=500)
def test_sure_breaks_are_breaks(text, minimum, reference) -> None:
    if has_sure_breaks(text, minimum):
        assert len(reference.tokenize(text)) > minimum


def test_what_is_left_to_punkt() -> None:
    """Abbreviations, capitals, initials, and what realignment could move."""
    assert has_sure_breaks("He had a wheel. It had a mill.", 1)
    assert not has_sure_breaks("He had a wheel. It had a mill.", 2)
    for text in (
        "the vs. It",
        "the Wheel. It",
        "the a. It",
        'the wheel. " It',
        "the wheel.. It",
        "the wheel.\u00a0It",
    ):
        assert not has_sure_breaks(text, 1)


def test_collocations_are_left_to_punkt(tmp_path) -> None:
    shutil.copytree(punkt_folder(), tmp_path / "own")
    (tmp_path / "own" / "collocations.tab").write_text("wheel\tit\n", encoding="utf-8")
    text, own = "He had a wheel. It had a mill. They went.", str(tmp_path / "own")
    assert len(sentences_of(text, own)) == 2 == count_sentences(text, 3, own)
    assert has_sure_breaks(text, 1, own)
    assert not has_sure_breaks(text, 2, own)
    assert has_sure_breaks(text, 2)


def test_sure_breaks_in_real_text(web_texts, reference) -> None:
    texts = [text[:4000] for text in web_texts[:60]]
    for text in texts:
        sentences = len(reference.tokenize(text))
        breaks = next(n for n in itertools.count() if not has_sure_breaks(text, n + 1))
        assert breaks < max(sentences, 1)
    assert sum(has_sure_breaks(text, 2) for text in texts) > len(texts) / 2


@given(text=st.text().filter(str.strip))
def test_text_that_is_not_blank_has_a_sentence(text) -> None:
    assert count_sentences(text, 1) == 1


def test_own_files_are_used_and_decide_the_address(tmp_path) -> None:
    shutil.copytree(punkt_folder(), tmp_path / "own")
    (tmp_path / "own" / "abbrev_types.txt").write_text("wheel\n", encoding="utf-8")
    own = str(tmp_path / "own")
    assert punkt(own) is punkt(own)
    assert sentences_of("He had a wheel. others had a boat.") == ["He had a wheel.", "others had a boat."]
    assert sentences_of("He had a wheel. others had a boat.", own) == ["He had a wheel. others had a boat."]
    assert next(file.name for file in punkt_files(own)) == "abbrev_types.txt"
    assert punkt_files(None) == ()


def test_the_files_are_those_of_nltk() -> None:
    """Their bytes are those that nltk distributes, so C4's sentences are, too."""
    files = {name: (punkt_folder() / name).read_bytes() for name in FILES}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} == SHA256
