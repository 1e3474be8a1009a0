import dataclasses

import pytest
from datatrove.data import Document
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.overlap import Overlap, read_overlaps, write_overlaps
from headrace.data_prep.decontamination.removal import Removal
from headrace.data_prep.document import Drop
from tests.data_prep.decontamination.quiz import numbered, search_for

BEFORE, AFTER = numbered(0, 100, "before"), numbered(0, 100, "after")
ITEMS = {"a": numbered(0, 20), "b": numbered(5, 18), "c": numbered(30, 50)}
TEXT = f"{BEFORE} {numbered(3, 18)} {AFTER}"


def removal(action, **values) -> Removal:
    return Removal(search_for(**ITEMS), Decontamination(action=action, **values))


def overlap(item, found, ngrams, first, action) -> Overlap:
    return Overlap(f"quiz/{item}", "d:0", found, ngrams, numbered(first, first + 13), action)


def test_a_document_without_items_stays_as_it_is():
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


def test_the_value_names_the_item_of_which_most_was_found():
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


def test_what_masking_leaves_nothing_of_is_dropped():
    document = Document(text=numbered(3, 18), id="d:0")
    drop, found = removal("mask")(document)
    assert drop == Drop("contaminated", "quiz/a and 1 more")
    assert {one.action for one in found} == {"dropped"}
    assert document.metadata == {}


def test_a_match_that_a_cut_makes_is_cut_too():
    """The item stands around another one: cutting the inner leaves the outer whole."""
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
