"""Joining of hard-wrapped lines: which pages are hard-wrapped, which lines are joined, and that no text changes."""

import random
import textwrap

import pytest
from datatrove.data import Document
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.filters.c4.lines import C4Lines
from headrace.data_prep.text.unwrapped_lines import is_hard_wrapped, unwrapped

WORDS = ["water", "mill", "wheel", "stone", "grain", "flour", "gate", "power", "bread", "town", "winter"]
WRAPPED = "The mill was closed in the\nautumn of that year. It\nopened again in the spring\nafter the storm had\nended."
JOINED = " ".join(WRAPPED.split())


def joined(text: str) -> str:
    """Returns the text after joining, of which nothing but white space has changed."""
    after, _ = unwrapped(text) or (text, 0)
    assert "".join(after.split()) == "".join(text.split())
    return after


def paragraph(seed: int, sentences: int) -> str:
    draw = random.Random(seed)
    return " ".join(f"The {' '.join(draw.choices(WORDS, k=draw.randint(5, 20)))}." for _ in range(sentences))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WRAPPED, JOINED),
        (WRAPPED.replace("\n", "  \r\n "), JOINED),
        (f"{WRAPPED}\n\n{WRAPPED}", f"{JOINED}\n\n{JOINED}"),
        # a heading of a paragraph has space left for the next word
        (f"THE MILL\n{WRAPPED}", f"THE MILL\n{JOINED}"),
        # a capital after a full line; a line that ends a sentence stays
        (f"{WRAPPED}\nThen all people of the town\nParis came.", f"{JOINED}\nThen all people of the town Paris came."),
        # hyphens and dashes are kept, without a space
        (f"{WRAPPED}\n\nA well-\nknown mill\u2014\nthe old one.", f"{JOINED}\n\nA well-known mill\u2014the old one."),
    ],
)  # fmt: skip
def test_joined_lines(text: str, expected: str) -> None:
    assert joined(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "One line.",
        "Home\nAbout us\nContact\nprivacy policy\nLog in\nSearch",
        "A sentence.\nAnother sentence.\nan odd one.",
        "two lines that\ngo on",
        "one\n\nTwo\n\nThree\n\nFour",
        "水車は川の\n曲がり角に\nある。村の\n人々はそこ",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert unwrapped(text) is None


@pytest.mark.parametrize(
    ("unfinished", "continued", "expected"), [(2, 2, False), (3, 2, True), (4, 2, False), (0, 0, False)]
)
def test_the_measure(unfinished: int, continued: int, expected: bool) -> None:
    assert is_hard_wrapped(unfinished, continued) is expected


@pytest.mark.parametrize("width", [40, 60, 72, 100])
def test_paragraphs_wrapped_by_a_program_lose_no_sentence(width: int) -> None:
    """C4's rules keep all sentences of the joined text, as of the text before it was wrapped."""
    paragraphs = [paragraph(seed, 6) for seed in range(9)]
    text = "\n\n".join(textwrap.fill(one, width) for one in paragraphs)
    document = Document(joined(text), "a:0")
    assert C4Lines().judge(document) is None
    assert document.text.split() == " ".join(paragraphs).split()
    assert "hard_wrapped" not in document.metadata
    wrapped = Document(text, "a:1")
    assert C4Lines().judge(wrapped) is None
    assert wrapped.metadata["hard_wrapped"]["c4_lines.end_mark"] > 9
    assert len(wrapped.text) < len(text) / 2


@given(
    st.lists(st.sampled_from(["The mill", "of the", "river.", "", " ", "-", "Was it", "\u2014", "é", "ß"]), max_size=30)
)
def test_nothing_but_white_space_changes(lines: list[str]) -> None:
    joined("\n".join(lines))


def test_a_hard_wrapped_page_without_enough_sentences_is_noted_too() -> None:
    document = Document("The mill was\nclosed in the\nautumn and the\nwheel did not\nturn.", "a:0")
    drop = C4Lines().judge(document)
    assert drop is not None
    assert drop.rule == "c4_lines.sentences"
    assert document.metadata == {"hard_wrapped": {"c4_lines.end_mark": 4}}


VERSE = """the wheel goes round
and the water comes down from the hill
over the stones
into the dark of the mill

who hears it at night
when the lamps in the windows are out
turns on the pillow
and knows what the water is about"""


def test_verse_keeps_its_lines() -> None:
    """Its lines go on in lower case, as those of hard-wrapped text do, but end before the width is filled."""
    assert unwrapped(VERSE) is None
    filled = " ".join(VERSE.split())
    assert joined(textwrap.fill(filled, 38)) == filled
