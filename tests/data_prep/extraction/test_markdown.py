"""Chosen blocks as Markdown."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.data_prep.extraction.markdown import markdown
from tests.data_prep.extraction.test_page import page


def rendered(html: str, emphasis: bool = False, links: bool = False, left_out: tuple[int, ...] = ()) -> str:
    read = page(html)
    keep = np.array([number not in left_out for number in range(read.order.size)])
    return markdown(read.scan, read.order, keep, emphasis, links)


FORMS = {
    "headings": ("<h1>a</h1><p>b<h3>c<br>d</h3><h2><div>e<p>f</h2>", "# a\n\nb\n\n### c d\n\n## e\n\nf"),
    "lists": ("<ul><li>a<li>b<ul><li>c</ul></li><ul><li>d</ul><li>e</ul>", "- a\n- b\n  - c\n  - d\n- e"),
    "numbers": ("<ol start=9><li>a<li>b<li value=20>c<li>d</ol>", "9. a\n10. b\n20. c\n21. d"),
    "items of several blocks": ("<ul><li><p>a<p>b<li>c</ul>d", "- a\n\n  b\n- c\n\nd"),
    "code": ('<pre><code class="x language-py">a = 1\n\n  b</code></pre>', "```py\na = 1\n\n  b\n```"),
    "code in a div": ("<div class='x highlight-source-js'><div><pre>a</pre></div></div>", "```js\na\n```"),
    "code in a list": ("<ol><li>a<pre>b\n c</pre>d</ol>", "1. a\n\n   ```\n   b\n    c\n   ```\n\n   d"),
    "a fence longer than those inside": ("<pre>```\na</pre>", "````\n```\na\n````"),
    "code in a line": ("<p>call <code>f(x)</code>.", "call `f(x)`."),
    "quotes": ("<blockquote>a<p>b<ul><li>c</ul></blockquote>d", "> a\n>\n> b\n>\n> - c\n\nd"),
    "formulas": (
        "a <math alttext='x^2'></math>, <math display=block alttext=y></math>, <math><mi>z</mi></math>",
        "a $x^2$, $$y$$, $z$",
    ),
    "formulas that a script draws": (
        r"<span class='math x'>x^2</span> <span class=math>\(y\)</span> <i class=math>z</i><div class=math>Mill</div>",
        "$x^2$ \\(y\\) z\n\nMill",
    ),
    "formulas of MediaWiki": (r"<math alttext='{\displaystyle {x}}'></math>", "${x}$"),
    "tables": (
        "<table><tr><th><ul><li>a</ul><th>b|c<tr><td>d<br>e<td><b>f</b><tr><td><td>g</table>h",
        "| a | b\\|c |\n|---|---|\n| d e | f |\n|  | g |\n\nh",
    ),
    "rows of different width": ("<table><tr><td>a<tr><td>b<td>c</table>", "| a |  |\n|---|---|\n| b | c |"),
    "cells with several blocks": ("<table><tr><td>a<td><p>b<p>c</table>", "a\n\nb\n\nc"),
    "no emphasis, no links": ("<p><b>a</b> <a href=x>b</a>", "a b"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    html, expected = FORMS[form]
    assert rendered(html) == expected


def test_emphasis_and_links():
    html = "<p>a<b> b <i>c</i></b> <a href='x?y&amp;z'>d <em>e</em></a><a>f</a>"
    html += " <a href=g><p>h<p>i</a><a href='j k'><code><b>l</b></code></a>"
    assert rendered(html, emphasis=True, links=True) == "a **b *c*** [d *e*](x?y&z)f\n\nh\n\ni[`l`](j%20k)"


def test_what_is_left_out():
    table = "<table><tr><td>a<td>b<tr><td>c<td>d</table>"
    assert rendered(table, left_out=(1, 2)) == "| a |  |\n|---|---|\n|  | d |"
    assert rendered("<ol><li>a<li>b<li>c</ol>", left_out=(0,)) == "2. b\n3. c"


@given(some.text(alphabet="ab `\n\t~#|-", min_size=1).filter(str.strip))
def test_code_is_the_same_bytes(code):
    """As CommonMark reads it: the first fence, what stands up to the same fence, without the line feed before it."""
    text = rendered(f"<pre>\n{code}</pre>")
    fence, rest = text.split("\n", 1)
    assert re.fullmatch("`{3,}", fence)
    assert rest.index(f"\n{fence}") == len(rest) - len(fence) - 1
    assert rest[: -len(fence) - 1] == code


CELLS = some.lists(some.text("ab|\\ c", min_size=1).filter(str.strip), min_size=3, max_size=3)


@given(some.lists(CELLS, min_size=3, max_size=3))
def test_tables_are_read_again(cells):
    html = "".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in cells)
    head, _, *rest = rendered(f"<table>{html}</table>").split("\n")
    read = [re.split(r"(?<!\\)\|", line)[1:-1] for line in (head, *rest)]
    assert [[cell.strip().replace("\\|", "|") for cell in row] for row in read] == [
        [" ".join(cell.split()) for cell in row] for row in cells
    ]
