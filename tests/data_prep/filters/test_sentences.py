"""Punkt without nltk's loader: the same parameters, the same sentences, counted lazily."""

import shutil
import subprocess
import sys

import nltk
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.filters.sentences import count_sentences, has_sentences, punkt, punkt_files, punkt_folder, sentences_of

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


def test_the_package_that_carries_the_files_is_not_imported() -> None:
    program = (
        "import sys; from data_prep.filters.sentences import punkt; punkt();"
        "assert not [m for m in sys.modules if m.startswith('llama_index')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
