"""Blocks of a page: nothing lost, doubled or moved, as the HTML standard has it; no kind of text is."""

import html as standard
import io
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.block_statistics import COLON_END
from headrace.data_prep.extraction.features import END_FEATURE
from headrace.data_prep.extraction.model import feature_rows, judged, load
from headrace.data_prep.extraction.page import HtmlPage, read_page, with_companions, with_rows
from headrace.data_prep.extraction.scan import MAX_DEPTH
from headrace.pipeline.core.text_files import opened, read_lines
from tests.data_prep.extraction.dom import dom_text, squeezed


def page(html: str, is_xml: bool = False, with_alt: bool = False) -> HtmlPage:
    read = read_page(html, is_xml, with_alt)
    assert isinstance(read, HtmlPage)
    return read


def whole(found: HtmlPage) -> str:
    return found.text(np.ones(found.order.size, np.bool_))


def blocks(html: str, is_xml: bool = False, with_alt: bool = False) -> list[str]:
    return page(html, is_xml, with_alt).blocks()


BLOCKS = {
    "inline elements do not cut": ("<p>One <b>two</b>, <a href=x>three</a>.", ["One two, three."]),
    "single characters": ("彼<b>は</b>学<i>校</i>。“<em>”</em>€<span>—</span>№", ["彼は学校。“”€—№"]),
    "a full stop after a space that does not break": ("<p>See <a>this</a>.&nbsp;Next", ["See this. Next"]),
    "white space": ("<p> a\n\t b&#160;&emsp;\u3000 c <p>&nbsp;<p>d", ["a b c", "d"]),
    "soft hyphens": ("<p>hy&shy;phen\xad", ["hyphen"]),
    "a break is a line, two end the block": ("a<br>b<br><br>c<br> <br/>d", ["a\nb", "c", "d"]),
    "list after text": ("x<ul><li>one<li>two<ol><li>three</ol></ul>y", ["x", "one", "two", "three", "y"]),
    "captions": ("<figure><img alt=i><figcaption>caption</figcaption></figure>", ["caption"]),
    "implied ends": ("<p>a<p>b<div>c</p>d<dl><dt>e<dd>f<dt>g</dl>", ["a", "b", "c", "d", "e", "f", "g"]),
    "void elements": ("a<hr>b<img>c<input>d<wbr>e", ["a", "bcde"]),
    "raw text": ("a<script>'<p>'</script>b<style>p<b></style>c<iframe><p>x</iframe>d", ["abcd"]),
    "a script in a comment in a script": ("<script><!--<script></script>x</script>y", ["y"]),
    "a comment that a script does not open": ("<script><!-->\n</script>y", ["y"]),
    "noscript is text": ("<noscript><p>whole <b>text</b></noscript>", ["whole text"]),
    "noscript in the head": ("<head><noscript><p>a</noscript><body>b", ["a", "b"]),
    "templates are none": ("a<template><p>b<br></template>c", ["ac"]),
    "shadow roots are": ("<x-a><template shadowrootmode=open><p>b</p></template></x-a>", ["b"]),
    "svg": ("a<svg><title>t</title><text>b</text></svg>c", ["ac"]),
    "an svg that is not closed": ("a<svg><path><p>b", ["a", "b"]),
    "html in an svg": ("<svg><foreignObject><p>label</p></foreignObject></svg>x", ["label", "x"]),
    "a style in an svg is no raw text": ("<svg><style><p>b", ["b"]),
    "a formula is its TeX, once": (
        "a <math alttext='x&lt;y'><mi>x</mi><annotation encoding='application/x-tex'>z</annotation></math>, b"
        "<math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x^2</annotation></semantics></math>."
        "<script type='math/tex'>\\sum &amp; <1</script><script type='text/x'>no</script>c"
        "<span class='katex-html' aria-hidden=true>x2</span>",
        ["a x<y, bx^2.\\sum &amp; <1c"],
    ),
    "a formula in a template": ("<template><math alttext=x></math></template><svg><math alttext=y></svg>a", ["a"]),
    "mathml": ("<math><mi>x</mi><mo>=</mo><mn>1</mn></math>", ["x=1"]),
    "cdata in foreign elements only": ("<math><![CDATA[<x>]]></math><![CDATA[y]]>z", ["<x>z"]),
    "plaintext": ("<plaintext></plaintext><p>&amp;", ["</plaintext><p>&amp;"]),
    "xmp": ("<xmp><b>&amp;</xmp>c", ["<b>&amp;", "c"]),
    "references after text without": ("<xmp></xmp>&amp;<math><![CDATA[&amp;]]>&amp;<![CDATA[]]>&lt;", ["&&amp;&<"]),
    "textarea": ("<textarea><b>&amp;</textarea>c", ["<b>&", "c"]),
    "title": ("<title>t &amp; <b></title>a", ["a"]),
    "ruby keeps its base": ("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</ruby>は", ["漢字は"]),
    "text in a table": ("a<table>b<tr>c<td>d</td>e</tr><div>f</div></table>g", ["a", "b", "c", "e", "f", "d", "g"]),
    "tables in cells": ("<table><tr><td>a<table><td>b</table>c<td>d", ["a", "b", "c", "d"]),
    "a cell without a table": ("<td>a</td><tr>b", ["ab"]),
    "frames": ("<frameset><frame><noframes><p>none</noframes></frameset>", []),
    "comments": ("a<!-- > -->b<!-->c<!--->d<!--x--!>e<!x>f<?php?>g</>h</ x>i<!--", ["abcdefghi"]),
    "no tag": ("a<1<< b<3>", ["a<1<< b<3>"]),
    "the page ends in a tag": ("a<p class='", ["a"]),
    "attributes": ("<p title='>' x=\">\" y=a>b z='<p>'>c</p/>d", ["b z='", "'>c", "d"]),
    "a form after a paragraph": ("<p>a<form>b</form>c", ["a", "b", "c"]),
    "buttons and options": ("<select><option>a<option>b</select><button>c</button>d", ["a", "b", "c", "d"]),
    "preformatted": ("<pre>\n\n  a\r\n\tb  \rc<br>d&nbsp;&#13;\ne</pre>", ["\n  a\n\tb  \nc\nd\xa0\ne"]),
    "code in lines": ("<pre><code><span>  x</span>\n    <b>y</b></code></pre>", ["  x\n    y"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks(kind):
    html, expected = BLOCKS[kind]
    assert blocks(html) == expected


def test_html_as_xml():
    assert blocks("<p>a<script/><br></br>b<![CDATA[<c>]]><style>x</style></p><div/>d", is_xml=True) == ["a\nb<c>", "d"]


def test_every_named_reference():
    for name in standard.entities.html5:
        expected = standard.entities.html5[name].replace("\xad", "")
        assert blocks(f"x&{name};y" if not name.endswith(";") else f"x&{name}y") == [
            f"x{expected}y" if expected.strip() or not expected else "x y"
        ], name


@pytest.mark.parametrize("reference", ["&#65;", "&#x41", "&#X41;", "&#0;", "&#128;", "&#x9f;", "&#129;", "&#xD800;"])
@pytest.mark.parametrize("after", ["", " z", "z", "&"])
def test_numeric_references(reference, after):
    written = f"x{reference}{after}"
    expected = {"&#129;": f"x\x81{after}"}.get(reference, standard.unescape(written))
    assert "".join(blocks(written)) == expected


@pytest.mark.parametrize(
    "text", ["&", "&;", "&#", "&#x", "&#xg;", "&no;", "&notit;", "&ampamp", "&AMP", "a&b=c", "&#99999999999;"]
)
def test_what_is_no_reference(text):
    assert blocks(f"x{text}y") == [standard.unescape(f"x{text}y")]


def test_texts_of_images():
    html = "<p>a<img alt='one &amp; two&reg=1'>b<img alt><img>c</p><template><img alt=d></template><img alt=e>"
    assert blocks(html, with_alt=True) == ["a one & two&reg=1 bc", "e"]
    assert blocks(html) == ["abc"]
    assert blocks("<pre>a<img alt='あい'>う\n <b>b<img alt=c></b></pre>", with_alt=True) == ["a あい う\n b c"]


@pytest.mark.parametrize(("opened", "left"), [("<b style=display:block>", "\nいあ"), ("\n<del>\n", "")])
def test_an_element_in_dropped_white_space_covers_no_later_text(opened, left):
    assert whole(page(f"a<pre>\n\n{opened}<pre>いあ")) == f"a{left}"


def test_a_row_is_a_line_unless_a_cell_has_blocks():
    table = "<table><tr><th>Name<th>Price<tr><td>Mill<td>3<br>EUR</table>"
    assert whole(page(table)) == "Name\tPrice\nMill\t3 EUR"
    assert whole(page("<table><tr><td>a<td><p>b<p>c</table>")) == "a\nb\nc"
    assert whole(page("<table><tr><td><p>a</p><td><div><p>b</p></div></table>")) == "a\tb"
    assert whole(page("<table><tr><td>a<td><pre>b\n c</pre></table>")) == "a\nb\n c"


def test_too_deep():
    assert read_page("<div>" * MAX_DEPTH + "x") == Drop("too_nested", f"more than {MAX_DEPTH}")
    assert blocks("<div>" * (MAX_DEPTH - 1) + "x") == ["x"]
    assert blocks("<b>" * 100_000 + "x") == ["x"]


TAGS = """
    p div span a b em font nobr li ul ol dl dt dd table tr td th tbody caption colgroup col h1 h3 button form select
    option optgroup pre textarea script style title noscript template iframe svg path desc foreignObject ruby rb rt rp
    br hr img input object section center x-y body html head details marquee listing xmp image
""".split()  # noqa: SIM905
START_TAG = some.builds(
    "<{}{}{}>".format,
    some.sampled_from(TAGS).flatmap(lambda tag: some.sampled_from([tag, tag.upper()])),
    some.sampled_from(["", "", ' class="a b"', " href=x", "=y", " x='>'", ' x="<p>"']),
    some.sampled_from(["", "", "/"]),
)
END_TAG = some.builds("</{}{}>".format, some.sampled_from(TAGS), some.sampled_from(["", "", " ", " x"]))
TEXT = some.sampled_from(
    ["one", "two ", " w ", "é", "中", "&amp;", "&nbsp;", "&copy", "&#65;", "&notit;", "\n", "<", "& x", "<3", "-->"]
)
OTHER = some.sampled_from(["<!-- c -->", "<!-->", "<!--x--!>", "<!x>", "<?p?>", "</>", "</ x>", "<!--<script>"])
PAGES = some.lists(some.one_of(START_TAG, END_TAG, TEXT, TEXT, OTHER), max_size=40).map("".join)


@given(PAGES)
@settings(max_examples=500, deadline=None)
@example("<table>one<tr><td>two<table>é<td>中</table>w</table>")
def test_the_text_is_that_of_the_dom(html):
    assert squeezed("".join(blocks(html))) == dom_text(html)


@given(some.text(alphabet="<>/!-abp &#;x=\"'\n中é", max_size=200))
@settings(max_examples=500, deadline=None)
def test_characters_without_sense(html):
    assert squeezed("".join(blocks(html))) == dom_text(html)


@pytest.mark.slow
def test_real_pages(data_folder):
    """Pages whose shadow roots hold text are left out: the DOM of the other parser has none of it."""
    differ = []
    with opened(data_folder("web/wcxb_dev.jsonl.zst")) as file:
        for number, line in enumerate(io.BufferedReader(file)):
            html = json.loads(line)["html"].replace("\0", "")
            if number % 10 == 0 and "shadowrootmode" not in html:
                text = html.encode("utf-8", "replace").decode()
                if squeezed("".join(blocks(text))) != dom_text(text):
                    differ.append(number)
    assert differ == []


def test_a_manual_in_19_languages(data_folder):
    """No sentence is altered: each kept line stands in the text of the DOM as it is."""
    altered, seen = [], Counter[str]()
    for line in read_lines(data_folder("dedup/debian_guide_amd64_arm64.jsonl.zst")):
        row = json.loads(line)
        seen[row["lang"]] += 1
        if seen[row["lang"]] > 10:
            continue
        expected, found = dom_text(row["html"]), page(row["html"])
        kept = found.text(judged(found, load())[1])
        altered += [(row["id"], one) for one in kept.split("\n") if squeezed(one) not in expected]
        assert squeezed(whole(found)) == expected
    assert (len(seen), altered) == (19, [])


# Kinds of text that extractors lose inside what they keep: here all of it stays, in its order.

BEFORE = "The mill stands by the river, and the miller grinds the grain of the whole village from morning to night."
AFTER = "In winter the wheel does not turn, since the water is ice, and the miller mends what broke over the year."
CONTAINERS = (
    "<body>{}</body>", "<main>{}</main>", "<article>{}</article>", "<div>{}</div>", "<div><div>{}</div></div>",
    "<main><section>{}</section></main>",
)  # fmt: skip


def main_text(content: str, container: str = "<article>{}</article>") -> list[str]:
    """Returns the lines of the main text of a page with ``content`` between two paragraphs."""
    found = page(f"<title>x</title>{container.format(f'<p>{BEFORE}</p>{content}<p>{AFTER}</p>')}")
    first, *lines, last = found.text(judged(found, load())[1]).split("\n")
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
    table = page(f"<p>a<table>{html}</table><p>b")
    keep, words = chance.random(table.order.size) < 0.5, chance.integers(0, 5, table.order.size)
    found = with_rows(table.scan, table.order, keep, words)
    assert (found[0], found[-1]) == (keep[0], keep[-1])
    for row in range(rows):
        own = slice(1 + row * cells, 1 + (row + 1) * cells)
        assert set(found[own]) == {bool((np.where(keep[own], 1, -1) * (words[own] + 1)).sum() >= 0)}


@pytest.mark.parametrize(
    ("above", "title", "first"),
    [
        ("<header><h1>The old mill</h1></header>", "The old mill", "The old mill"),
        ("<div class=hero><h1>The <em>old</em> mill</h1></div>", "The old mill | Valley", "The old mill"),
        ("<header><h1>The old mill</h1></header>", "Something else", "The old mill"),
        ("<h1><a href=/>Valley</a></h1>", "The old mill - VALLEY", BEFORE),  # the name of the site
        ("<meta property=og:site_name content=Valley><h1>Valley</h1>", "The old mill", BEFORE),
        ("<h1>One</h1><h1>Two</h1>", "One", BEFORE),
        ("<h1><img src=a.png></h1><div><h1>The old mill</h1></div>", "The old mill", "The old mill"),
        ("", "The old mill", BEFORE),
    ],
)
def test_the_title_above_the_text_is_kept(above, title, first):
    between = "<nav><ul><li><a href=/a>Home</a><li><a href=/b>About</a></ul></nav><p>by Ann, 3 min"
    page = read_page(f"<title>{title}</title>{above}{between}<article><p>{BEFORE}<p>{AFTER}</article>")
    assert page.text(judged(page, load())[1]).split("\n")[0] == first


def test_a_table_below_a_kept_heading_is_kept():
    rows = "<tr><th>Weight<td>5 kg<tr><th>Size<td>40 cm"
    page = read_page(f"<p>{BEFORE}<h2>Facts</h2><table>{rows}</table><div><table>{rows}</table></div>")
    keep = np.array([True, True, *[False] * 8])
    found = with_rows(page.scan, page.order, keep, np.ones(10, np.int64))
    assert found.tolist() == [True] * 6 + [False] * 4
    keep[1] = False
    assert with_rows(page.scan, page.order, keep, np.ones(10, np.int64)).tolist() == keep.tolist()


@pytest.mark.parametrize(("html", "keep", "kept"), [
    ("<p>a<pre>b</pre><p>c<pre>d</pre><p>e", "10001", "11001"),
    ("<h2>a</h2><h3>b</h3><p>c<h3>d</h3><h1>e</h1><p>f<h3>g</h3>", "0010010", "0110010"),
    ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "0100", "1100"),
    ("<p>a:<ul><li>b:<li>c</ul><p>d<ul><li>e</ul><p>f：<ol><li>g</ol><p>h:<p>i", "011010101", "111011101"),
])  # fmt: skip
def test_what_belongs_to_a_kept_block_is_kept(html, keep, kept):
    found, model, given = page(html), load(), np.array([*keep]) == "1"
    ends = feature_rows(found, (model.hashes, model.scores))[:, END_FEATURE]
    kept_then = with_companions(found.scan, found.order, given, ends == COLON_END)
    assert kept_then.tolist() == [bit == "1" for bit in kept]


def test_captions_outside_of_the_text_are_left_out():
    caption = "<figure><img src=a.jpg><figcaption>All the news of today</figcaption></figure>"
    menu = f"<nav><ul><li><a href=a>Home</a><li>{caption}<li><a href=b>About</a></ul></nav>"
    found = page(f"{menu}<p>{BEFORE}<p>{AFTER}")
    assert found.text(judged(found, load())[1]) == f"{BEFORE}\n{AFTER}"


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
