"""Removal drops or masks: masking cuts the whole match and its window, and keeps the rest."""

import dataclasses

import pytest
from datatrove.data import Document
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.overlap import Overlap, read_overlaps, write_overlaps
from headrace.data_prep.decontamination.removal import Removal, masked
from headrace.data_prep.document import Drop
from headrace.data_prep.text.word_offsets import WordOffsets
from headrace.data_prep.text.words import words
from tests.data_prep.decontamination.quiz import numbered, search_for

BEFORE, AFTER = numbered(0, 100, "before"), numbered(0, 100, "after")
ITEMS = {"a": numbered(0, 20), "b": numbered(5, 18), "c": numbered(30, 50)}
TEXT = f"{BEFORE} {numbered(3, 18)} {AFTER}"


def removal(action, **values) -> Removal:
    return Removal(search_for(**ITEMS), Decontamination(action=action, **values))


def overlap(item, found, ngrams, first, action) -> Overlap:
    return Overlap(f"quiz/{item}", "d:0", found, ngrams, numbered(first, first + 13), action)


def test_a_document_without_items_is_not_changed():
    for action in ("drop", "mask"):
        document = Document(text=BEFORE, id="d:0")
        assert removal(action)(document) == (None, [])
        assert (document.text, document.metadata) == (BEFORE, {})


def test_drop():
    document = Document(text=TEXT, id="d:0")
    drop, found = removal("drop")(document)
    assert drop == Drop("contaminated", "quiz/a and 1 more")
    assert found == [overlap("a", 3, 8, 3, "dropped"), overlap("b", 1, 1, 5, "dropped")]
    assert document.text == TEXT


def test_the_value_names_the_item_with_the_most_ngrams():
    drop, _ = removal("drop")(Document(text=f"{numbered(0, 13)} {numbered(30, 50)}", id="d:0"))
    assert drop.value == "quiz/c and 1 more"
    drop, _ = removal("drop")(Document(text=numbered(30, 43), id="d:0"))
    assert drop.value == "quiz/c"


def test_mask():
    document = Document(text=TEXT, id="d:0", metadata={"url": "u"})
    drop, found = removal("mask", window_characters=0)(document)
    assert drop is None
    assert document.text == f"{BEFORE}\n\n{AFTER}"
    assert document.metadata == {"url": "u", "masked": ["quiz/a", "quiz/b"]}
    assert found == [overlap("a", 3, 8, 3, "masked"), overlap("b", 1, 1, 5, "masked")]


def test_a_document_without_text_after_masking_is_dropped():
    document = Document(text=numbered(3, 18), id="d:0")
    drop, found = removal("mask")(document)
    assert drop == Drop("contaminated", "quiz/a and 1 more")
    assert {one.action for one in found} == {"dropped"}
    assert document.metadata == {}


def test_a_match_that_a_cut_makes_is_cut_too():
    """One item surrounds another: cutting the inner one joins the parts of the outer one."""
    items = {"outer": f"{numbered(0, 7)} {numbered(7, 14)}", "inner": numbered(50, 63)}
    search = search_for(**items)
    text = f"{BEFORE} {numbered(0, 7)} {numbered(50, 63)} {numbered(7, 14)} {AFTER}"
    document = Document(text=text, id="d:0")
    drop, _ = Removal(search, Decontamination(action="mask", window_characters=0))(document)
    assert drop is None
    assert document.text == f"{BEFORE}\n\n{AFTER}"


@given(st.lists(st.sampled_from([BEFORE, AFTER, *ITEMS.values(), numbered(0, 12), "other words"]), max_size=12))
def test_nothing_is_found_after_masking(parts):
    document = Document(text=" ".join(parts), id="d:0")
    one = removal("mask", window_characters=30)
    drop, found = one(document)
    assert drop is not None or not one.search.hits(document.text).size
    assert bool(found) == bool(one.search.hits(" ".join(parts)).size)


def test_overlaps_are_written_and_read(tmp_path):
    found = [overlap("a", 3, 8, 3, "masked"), dataclasses.replace(overlap("b", 1, 1, 5, "kept"), words="名前 …")]
    for some in (found, []):
        write_overlaps(tmp_path / "o.zst", some)
        assert list(read_overlaps(tmp_path / "o.zst")) == some


@pytest.mark.parametrize("action", ["drop", "mask"])
def test_the_settings_that_remove(action):
    assert Decontamination(action=action).removes
    assert not Decontamination().removes


MATCH = numbered(0, 13)
MASKED = f"{BEFORE} {MATCH}. {AFTER}"
TROUBLE = st.characters(categories=("L", "M", "N", "P", "Z", "Cf", "Cc"))
TEXTS = st.text(
    st.one_of(st.sampled_from(" \n\u200b\u00ad\u0301名前ßŉİ'’-aǰが\u1100\u1161\u0e33"), TROUBLE), max_size=60
)


def test_without_a_window_only_the_match_is_cut():
    assert masked(MASKED, [(100, 113)], 0) == f"{BEFORE}\n\n{AFTER}"


def test_a_word_on_the_edge_of_the_window_is_cut():
    kept = masked(MASKED, [(100, 113)], 20)
    before, after = kept.split("\n\n")
    assert before == numbered(0, 97, "before")
    assert after == numbered(3, 100, "after")


def test_overlapping_windows_are_one_cut():
    text = f"{BEFORE} {MATCH} {numbered(0, 10, 'x')} {MATCH} {AFTER}"
    assert masked(text, [(100, 113), (123, 136)], 20).split("\n\n") == [
        numbered(0, 97, "before"),
        numbered(3, 100, "after"),
    ]
    assert "x5" not in masked(text, [(100, 113), (123, 136)], 20)


def test_runs_that_overlap():
    assert masked(MASKED, [(100, 113), (101, 102), (105, 115)], 0) == f"{BEFORE}\n\n{numbered(2, 100, 'after')}"


def test_short_pieces_are_removed():
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
def test_offsets_are_those_of_the_words(text):
    offsets, parts = WordOffsets(text), words(text)
    for number in range(len(parts)):
        assert words(text[offsets.start(number) :])[: len(parts) - number] == parts[number:]
        assert words(text[: offsets.start(number)]) == parts[:number]
        assert words(text[offsets.start(number) : offsets.end(number + 1)]) == [parts[number]]
    assert offsets.start(len(parts)) == len(text)


@given(TEXTS, st.integers(0, 60))
def test_a_word_across_a_character_is_whole(text, character):
    character = min(character, len(text))
    start, end = WordOffsets(text).word_across(character)
    assert start <= character <= end
    assert words(text[:start]) + words(text[start:end]) + words(text[end:]) == words(text)
