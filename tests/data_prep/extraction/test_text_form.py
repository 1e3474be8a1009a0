"""Kinds of text that extractors lose inside what they keep: here all of it stays, in its order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.data_prep.extraction.main_text.model import judged, load
from headrace.data_prep.extraction.page import HtmlPage, read_page
from headrace.data_prep.extraction.text_form import with_rows

BEFORE = "The mill stands by the river, and the miller grinds the grain of the whole village from morning to night."
AFTER = "In winter the wheel does not turn, since the water is ice, and the miller mends what broke over the year."
CONTAINERS = (
    "<body>{}</body>", "<main>{}</main>", "<article>{}</article>", "<div>{}</div>", "<div><div>{}</div></div>",
    "<main><section>{}</section></main>",
)  # fmt: skip


def main_text(content: str, container: str = "<article>{}</article>") -> list[str]:
    """Returns the lines of the main text of a page with ``content`` between two paragraphs."""
    page = read_page(f"<title>x</title>{container.format(f'<p>{BEFORE}</p>{content}<p>{AFTER}</p>')}")
    assert isinstance(page, HtmlPage)
    first, *lines, last = page.text(judged(page, load())[1]).split("\n")
    assert (first, last) == (BEFORE, AFTER)
    return lines


@pytest.mark.parametrize("element", ["b", "i", "em", "a href=x", "span", "code", "sup", "font color=red", "bdi", "q"])
def test_nodes_of_a_single_character(element):
    name, before = element.split()[0], "彼学校 The old mill costs five of them"
    after = "先生 and stands by the river, as everyone in the village knows."
    for character in (*"は글“”€—№。，、「」aé!0½", "&euro;", "&#8212;"):
        shown = {"&euro;": "€", "&#8212;": "—"}.get(character, character)
        found = main_text(f"<p>{before}<{element}>{character}</{name}>{after}</p>")
        assert found == [f"{before}{shown}{after}"]


SPACES = ("&nbsp;", "&#160;", "\u00a0", "&ensp;", "&thinsp;", "\u3000", " ", "\n", "")


@pytest.mark.parametrize("space", SPACES)
def test_marks_after_a_link(space):
    sentence = "More of the mill by the river, and of the people who worked there, is on the page of "
    for mark in ".!?。":
        found = main_text(f"<p>{sentence}<a href=/miller>the miller</a>{mark}{space}</p>")
        assert found == [f"{sentence}the miller{mark}"]


ITEMS = ["200 g of flour from the mill", "Three eggs of the hens next door", "A pint of fresh milk"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_lists_and_captions_inside_the_text(container):
    for kind in ("ul li", "ol li", "dl dd", "ul li p", "menu li", "blockquote p"):
        outer, *inner = kind.split()
        opens, closes = "".join(f"<{name}>" for name in inner), "".join(f"</{name}>" for name in reversed(inner))
        found = main_text(f"<{outer}>{''.join(f'{opens}{item}{closes}' for item in ITEMS)}</{outer}>", container)
        assert found == ITEMS, kind
    caption = "The miller bakes for his guests."
    figure = f"<figure><img src=a.jpg alt=bread><figcaption>{caption}</figcaption></figure>"
    assert main_text(figure, container) == [caption]


@given(some.integers(0, 2**32), some.integers(1, 5), some.integers(1, 5))
def test_a_row_is_kept_by_most_of_its_words(seed, rows, cells):
    chance = np.random.default_rng(seed)
    html = "".join("<tr>" + "".join(f"<td>{n} {c}" for c in range(cells)) for n in range(rows))
    page = read_page(f"<p>a<table>{html}</table><p>b")
    assert isinstance(page, HtmlPage)
    keep, words = chance.random(page.order.size) < 0.5, chance.integers(0, 5, page.order.size)
    found = with_rows(page.scan, page.order, keep, words)
    assert (found[0], found[-1]) == (keep[0], keep[-1])
    for row in range(rows):
        own = slice(1 + row * cells, 1 + (row + 1) * cells)
        assert set(found[own]) == {bool((np.where(keep[own], 1, -1) * (words[own] + 1)).sum() >= 0)}


def test_captions_outside_of_the_text_are_left_out():
    caption = "<figure><img src=a.jpg><figcaption>All the news of today</figcaption></figure>"
    page = read_page(
        f"<nav><ul><li><a href=a>Home</a><li>{caption}<li><a href=b>About</a></ul></nav><p>{BEFORE}<p>{AFTER}"
    )
    assert isinstance(page, HtmlPage)
    assert page.text(judged(page, load())[1]) == f"{BEFORE}\n{AFTER}"


CODE = "def heavy(sacks):\n    if not sacks:\n\treturn []\n\n    for sack in sacks:\n        print(sack)  # two  spaces"


@pytest.mark.parametrize("form", [
    "<pre>{}</pre>", "<pre>\n{}</pre>", "<pre><code>{}</code></pre>", "<pre class=python><span>{}</span></pre>",
    "<listing>{}</listing>", "<div class=highlight><pre>{}</pre></div>",
])  # fmt: skip
def test_code_keeps_its_lines_and_indentation(form):
    for line_end in ("\n", "\r\n", "\r"):
        assert main_text(form.format(CODE.replace("\n", line_end))) == CODE.split("\n")


def test_ruby_keeps_its_base():
    ruby = "<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rp>(</rp><rt>じ</rt><rp>)</rp></ruby>"
    assert main_text(f"<p>{ruby}は難しいと、先生は話しました。</p>") == ["漢字は難しいと、先生は話しました。"]
