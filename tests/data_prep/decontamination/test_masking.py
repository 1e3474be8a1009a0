"""What is cut out of a text is the match and its window: nothing of the match stays, nothing else goes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.data_prep.decontamination.masking import Places, masked
from headrace.data_prep.dedup.shingles import words
from tests.data_prep.decontamination.quiz import numbered

BEFORE, MATCH, AFTER = numbered(0, 100, "before"), numbered(0, 13), numbered(0, 100, "after")
TEXT = f"{BEFORE} {MATCH}. {AFTER}"
TROUBLE = st.characters(categories=("L", "M", "N", "P", "Z", "Cf", "Cc"))
TEXTS = st.text(
    st.one_of(st.sampled_from(" \n\u200b\u00ad\u0301名前ßŉİ'’-aǰが\u1100\u1161\u0e33"), TROUBLE), max_size=60
)


def test_without_a_window_only_the_match_goes():
    assert masked(TEXT, [(100, 113)], 0) == f"{BEFORE}\n\n{AFTER}"


def test_a_word_that_the_window_cuts_goes_too():
    kept = masked(TEXT, [(100, 113)], 20)
    before, after = kept.split("\n\n")
    assert before == numbered(0, 97, "before")
    assert after == numbered(3, 100, "after")


def test_windows_that_meet_are_one_cut():
    text = f"{BEFORE} {MATCH} {numbered(0, 10, 'x')} {MATCH} {AFTER}"
    assert masked(text, [(100, 113), (123, 136)], 20).split("\n\n") == [
        numbered(0, 97, "before"),
        numbered(3, 100, "after"),
    ]
    assert "x5" not in masked(text, [(100, 113), (123, 136)], 20)


def test_runs_that_overlap():
    assert masked(TEXT, [(100, 113), (101, 102), (105, 115)], 0) == f"{BEFORE}\n\n{numbered(2, 100, 'after')}"


def test_short_pieces_go():
    text = f"{numbered(0, 5, 'begin')} {MATCH} {AFTER}"
    assert masked(text, [(5, 18)], 0) == AFTER
    assert masked(f"short {MATCH} end", [(1, 14)], 0) is None
    assert masked(MATCH, [(0, 13)], 200) is None


@pytest.mark.parametrize(("matches", "is_kept"), [(9, True), (10, False)])
def test_too_many_pieces(matches, is_kept):
    text = " ".join([AFTER, *[f"{MATCH} {AFTER}"] * matches])
    kept = masked(text, [(100 + 113 * n, 113 + 113 * n) for n in range(matches)], 0)
    assert kept == ("\n\n".join([AFTER] * (matches + 1)) if is_kept else None)


def test_matches_at_both_ends():
    text = f"{MATCH} {BEFORE} {MATCH}"
    assert masked(text, [(0, 13), (113, 126)], 0) == BEFORE


@given(TEXTS)
@example("don't  “Straße”, ŉ 名前 x")
def test_places_are_where_the_words_begin(text):
    places, parts = Places(text), words(text)
    for number in range(len(parts)):
        assert words(text[places.start(number) :])[: len(parts) - number] == parts[number:]
        assert words(text[: places.start(number)]) == parts[:number]
        assert words(text[places.start(number) : places.end(number + 1)]) == [parts[number]]
    assert places.start(len(parts)) == len(text)


@given(TEXTS, st.integers(0, 60))
def test_a_word_across_a_character_is_whole(text, character):
    character = min(character, len(text))
    start, end = Places(text).word_across(character)
    assert start <= character <= end
    assert words(text[:start]) + words(text[start:end]) + words(text[end:]) == words(text)
