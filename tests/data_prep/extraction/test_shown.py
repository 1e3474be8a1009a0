"""Meaning that markup carries: spans, exponents, formulas, code, buttons and deleted text, in both forms of text."""

import time

import numpy as np
import pytest

from headrace.data_prep.extraction.markdown import markdown
from tests.data_prep.extraction.test_page import main_text, page, whole

Kinds = dict[str, tuple[str, str]]


def both_forms(html: str) -> tuple[str, str]:
    read = page(html)
    return whole(read), markdown(read.scan, read.order, np.ones(read.order.size, np.bool_))


def table(rows: str) -> str:
    """Returns the Markdown of a table whose ``rows`` are its lines."""
    head, *body = [f"| {line.replace('/', ' | ')} |" for line in rows.split("\n")]
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *body])


TABLES: Kinds = {  # rows as lines, cells between slashes
    "rowspan": ("<tr><th>R<th>P<tr><td rowspan=2>EU<td>a<tr><td>b", "R/P\nEU/a\nEU/b"),
    "rowspan in the middle": ("<tr><td>1<td rowspan=3>x<td>2<tr><td>3<td>4<tr><td>5<td>6", "1/x/2\n3/x/4\n5/x/6"),
    "rowspan to the end of the group": (
        "<tbody><tr><td rowspan=0>x<td>1<tr><td>2<tbody><tr><td>y<td>3", "x/1\nx/2\ny/3",
    ),
    "rowspan past its group": ("<thead><tr><th rowspan=9>A<th>B<tbody><tr><td>1<td>2", "A/B\n1/2"),
    "colspan": ("<tr><th colspan=2>A<th>B<tr><td>1<td>2<td>3", "A//B\n1/2/3"),
    "both": ("<tr><td rowspan=2 colspan=2>x<td>1<tr><td>2<tr><td>3<td>4<td>5", "x//1\nx//2\n3/4/5"),
    "cells that overlap": (
        "<tr><td>1<td rowspan=2>2<tr><td colspan=2>3<td>4<tr><td>5<td>6<td>7", "1/2/\n3/2/4\n5/6/7",
    ),
    "numbers that are none": ("<tr><td rowspan=x colspan=-2>1<td colspan=0>2<tr><td>3<td>4", "1/2\n3/4"),
    "numbers with more": ("<tr><td colspan=' +2px'>1<td>2<tr><td>3<td>4<td>5", "1//2\n3/4/5"),
    "columns that no cell begins in": ("<tr><td colspan=1000>1<tr><td colspan=1000>2", "1\n2"),
    "a missing cell": ("<tr><th>A<th>B<th>C<tr><td>1<td><td>3", "A/B/C\n1//3"),
    "a corner": ("<tr><td><th>2020<th>2021<tr><th>x<td>1<td>2", "/2020/2021\nx/1/2"),
    "the foot first": ("<tfoot><tr><td>sum<td>3<tbody><tr><td>a<td>1<tr><td>b<td>2", "a/1\nb/2\nsum/3"),
    "the head last": ("<tbody><tr><td>1<td>2<thead><tr><td>A<td>B", "A/B\n1/2"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_tables(kind):
    html, rows = TABLES[kind]
    lines, marked = both_forms(f"<table>{html}</table>")
    assert lines == "\n".join(line.rstrip("/") for line in rows.split("\n")).replace("/", "\t")
    assert marked == table(rows)


SCRIPTS = {
    "10<sup>80</sup> atoms": "10^80 atoms", "5×10<sup>-3</sup>": "5×10^-3", "x<sup>2</sup>+y<sup>n</sup>": "x^2+y^n",
    "E=mc<sup>2</sup>.": "E=mc^2.", "9 km<sup>2</sup>": "9 km^2", "(a+b)<sup>2</sup>": "(a+b)^2",
    "2<sup>x</sup>": "2^x",
    "e<sup>iπ</sup>": "e^(iπ)", "x<sup>n+1</sup>": "x^(n+1)", "x<sup>1/2</sup>": "x^(1/2)", "x<sup>2</sup>3": "x^(2)3",
    "x<sub>1</sub>": "x_1", "a<sub>n+1</sub>": "a_(n+1)", "log<sub>2</sub> 8": "log_2 8", "101<sub>2</sub>": "101_2",
    "v<sub>max</sub>": "v_max", "x<sub>1</sub><sup>2</sup>": "x_1^2", "e<sup>x<sub>i</sub></sup>": "e^(x_i)",
    "H<sub>2</sub>O": "H2O", "CO<sub>2</sub>": "CO2", "Ca(OH)<sub>2</sub>": "Ca(OH)2", "T<sub>1</sub>": "T_1",
    "SO<sub>4</sub><sup>2-</sup>": "SO4^2-", "<sup>14</sup>C": "14C", "<sup>14</sup><sub>6</sub>C": "^14_6C",
    "<sup>1</sup>/<sub>2</sub>": "1/2", "<sup>1</sup>&frasl;<sub>2</sub>": "1⁄2", "<sup>1</sup><sub>2</sub>": "1/2",
    "3<sup>1</sup>/<sub>4</sub> in": "3 1/4 in", "1<sup>st</sup>": "1st", "n<sup>th</sup>": "nth",
    "XIX<sup>e</sup>": "XIXe",
    "M<sup>me</sup>": "Mme", "Mill<sup>TM</sup>": "MillTM", "Mill<sup>®</sup>": "Mill®",
    "mill<sup>[1]</sup>": "mill[1]",
    "x<sup><a href=#n>1</a></sup>": "x1", "<a href=#n><sup>1</sup></a>": "1", "mill.<sup>3</sup>": "mill.3",
    "turned<sup>3</sup>": "turned3", "a <sup>note on the mill</sup>": "a note on the mill", "x<sup></sup>y": "xy",
    "ab<sup> 2 </sup>c": "ab 2 c", "<b>10</b><sup><i>9</i></sup>": "10^9",
}  # fmt: skip
"""In HTML → in the text."""


@pytest.mark.parametrize("html", SCRIPTS)
def test_exponents_and_indices(html):
    assert both_forms(f"<p>{html}</p>") == (SCRIPTS[html],) * 2


def mi(letters: str) -> str:
    return "".join(f"<mi>{letter}</mi>" for letter in letters)


X_PLUS_1 = "<mrow><mi>x</mi><mo>+</mo><mn>1</mn></mrow>"
MATHML = {
    "<mi>E</mi> <mo>=</mo> <mfrac><mi>p</mi><mi>v</mi></mfrac>": ("E = p/v", r"E=\frac{p}{v}"),
    f"<mfrac>{X_PLUS_1}<mrow><mn>2</mn><mi>a</mi></mrow></mfrac>": ("(x+1)/(2a)", r"\frac{x+1}{2a}"),
    f"<mfrac>\n {X_PLUS_1}\n <mi>v</mi>\n</mfrac><mi>y</mi>": ("(x+1)/v y", r"\frac{x+1}{v}y"),
    "<mfrac linethickness='0'><mi>n</mi><mi>k</mi></mfrac>": ("(n choose k)", r"{n \choose k}"),
    "<msup><mi>x</mi><mn>2</mn></msup><mi>y</mi>": ("x^2 y", "x^2 y"),
    "<msup><mi>x</mi><mrow><mo>-</mo><mn>1</mn></mrow></msup>": ("x^-1", "x^{-1}"),
    f"<msup><mrow><mo>(</mo>{mi('ab')}<mo>)</mo></mrow>{X_PLUS_1}</msup>": ("(ab)^(x+1)", "(ab)^{x+1}"),
    "<msub><mi>a</mi><mi>i</mi></msub>": ("a_i", "a_i"),
    "<msubsup><mi>a</mi><mn>1</mn><mn>2</mn></msubsup>": ("a_1^2", "a_1^2"),
    "<msqrt><mi>x</mi></msqrt>": ("√x", r"\sqrt{x}"), f"<msqrt>{X_PLUS_1}</msqrt>": ("√(x+1)", r"\sqrt{x+1}"),
    "<mroot><mi>x</mi><mn>3</mn></mroot>": ("x^(1/3)", "x^{1/3}"),
    "<munder><mi>lim</mi><mrow><mi>n</mi><mo>→</mo><mi>∞</mi></mrow></munder><mi>a</mi>":
        ("lim_(n→∞)a", r"\lim_{n\to\infty}a"),
    "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>":
        ("∑_(i=1)^n i", r"\sum_{i=1}^n i"),
    "<mover><mi>v</mi><mo>→</mo></mover>": ("v\u20d7", "v\u20d7"),
    "<mover><mi>x</mi><mo>¯</mo></mover>": ("x\u0304", "x\u0304"),
    f"<mover><mrow>{mi('AB')}</mrow><mo>→</mo></mover>": ("(AB)^→", r"{AB}^{\to}"),
    "<mmultiscripts><mi>C</mi><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>": ("_6^14C", "_6^14C"),
    "<mmultiscripts><mi>R</mi><mi>i</mi><none/><none/><mi>j</mi></mmultiscripts>": ("R_i^j", "R_i^j"),
    "<mo>(</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>0</mn></mtd></mtr><mtr><mtd><mn>2</mn></mtd>"
    "<mtd><mn>3</mn></mtd></mtr></mtable><mo>)</mo>": ("(1 0; 2 3)", r"(\begin{matrix}1 & 0 \\ 2 & 3\end{matrix})"),
    f"<mfenced>{mi('ab')}</mfenced>": ("(a,b)", "(a,b)"),
    f"<mfenced open='[' close=')' separators=';'>{mi('ab')}</mfenced>": ("[a;b)", "[a;b)"),
    "<mn>2</mn><mo>&InvisibleTimes;</mo><mi>x</mi>": ("2x", "2x"),
    "<mi>sin</mi><mo>&ApplyFunction;</mo><mi>x</mi>": ("sin x", r"\sin x"),
    "<mi>f</mi><mo>&af;</mo><mo>(</mo><mi>x</mi><mo>)</mo>": ("f(x)", "f(x)"),
    "<mn>2</mn><mo>&#x2064;</mo><mn>5</mn>": ("2+5", "2+5"),
    "<msub><mi>a</mi><mrow><mi>i</mi><mo>&ic;</mo><mi>j</mi></mrow></msub>": ("a_(i,j)", "a_{i,j}"),
    "<mi>sin</mi><mi>x</mi>": ("sin x", r"\sin x"),
    "<mi>x</mi><mspace width='1em'/><mtext>if</mtext><mi>y</mi>": ("x if y", r"x\text{if} y"),
    "<mi>x</mi><mphantom><mi>y</mi></mphantom>": ("x", "x"),
    "<ms>ab</ms>": ('"ab"', r"\text{ab}"), "<maction><mi>x</mi><mi>y</mi></maction>": ("x", "x"),
    "<mstyle><mi>x</mi></mstyle><mi>y</mi>": ("xy", "xy"),
    "<semantics><mi>x</mi><annotation encoding='StarMath 5.0'>x from y</annotation></semantics>": ("x", "x"),
    "<semantics><mi>x</mi><annotation-xml><ci>x</ci></annotation-xml></semantics>": ("x", "x"),
}  # fmt: skip
"""A formula without TeX → the text of it, and its TeX, which Markdown has."""


@pytest.mark.parametrize("formula", MATHML)
def test_mathml(formula):
    text, tex = MATHML[formula]
    assert both_forms(f"<p>a <math>{formula}</math>.") == (f"a {text}.", f"a ${tex}$.")


ASSISTIVE = "<math><msup><mi>x</mi><mn>2</mn></msup></math>"
DRAWN = "<nobr><span class=math><span>x</span><span>2</span></span></nobr>"
SCRIPT = "<script type=math/tex>x^2</script>"
FORMULAS: Kinds = {  # the text, and the TeX in it, which Markdown marks
    "MathJax 2": (
        f"<span class=MathJax_Preview>x squared</span><span class=MathJax>{DRAWN}</span>{SCRIPT}",
        "x^2",
    ),
    "MathJax 2, other output": (f"<span class='x MathJax_SVG'>{DRAWN}</span>\n{SCRIPT}", "x^2"),
    "MathJax 2 without preview": (SCRIPT, "x^2"),
    "MathJax 2 with MathML, scripts lost": (f"<span class=MathJax>{DRAWN}<span>{ASSISTIVE}</span></span>", "x^2"),
    "MathJax 3": (
        f"<mjx-container class=MathJax><mjx-math>x2</mjx-math><mjx-assistive-mml>{ASSISTIVE}</mjx-assistive-mml>"
        "</mjx-container>", "x^2",
    ),
    "words with such a class": ("<span class=mathjax>x^2</span>", ""),
    "KaTeX": (
        "<span class=katex><span class=katex-mathml><math><semantics><mi>x</mi><annotation encoding=application/x-tex>"
        "x^2</annotation></semantics></math></span><span class='katex-html' aria-hidden=true>x2</span></span>", "x^2",
    ),
    "an annotation of another type": (
        "<math><semantics><mi>x</mi><annotation encoding='LaTeX'>x^2</annotation></semantics></math>", "x^2",
    ),
    "Wikipedia": (
        "<span><span style='display: none;'><math alttext='x^2'><mi>x</mi></math></span>"
        "<img class='mwe-math-fallback-image-inline' alt='x^2'></span>", "x^2",
    ),
    "an image": ("<img class='latex' alt='x^2'>", "x^2"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMULAS)
def test_a_formula_is_there_once(kind):
    html, tex = FORMULAS[kind]
    assert both_forms(f"<p>a {html} b") == ("a x^2 b", f"a ${tex}$ b" if tex else "a x^2 b")


PYTHON = "for i in x:\n    go(i)"
CODE = {
    "Pygments, table": "<table class=highlighttable><tr><td class=linenos><div class=linenodiv><pre>1\n2</pre></div>"
    f"<td class=code><pre>{PYTHON}</pre></td></table>",
    "Pygments, inline": "<pre><span class=linenos>1</span>for i in x:\n<span class=linenos>2</span>    go(i)</pre>",
    "Pygments, old": "<pre><span class=lineno>1 </span>for i in x:\n<span class=lineno>2 </span>    go(i)</pre>",
    "highlight.js": "<pre><code><table class=hljs-ln><tr><td class='hljs-ln-line hljs-ln-numbers'><div"
    " class=hljs-ln-n>1</div><td class='hljs-ln-line hljs-ln-code'>for i in x:<tr><td class=hljs-ln-numbers>2"
    "<td>    go(i)</table></code></pre>",
    "Prism": "<pre class=line-numbers><code>for i in x:\n    go(i)<span class=line-numbers-rows><span></span>"
    "<span></span></span></code></pre>",
    "Rouge": "<table class=rouge-table><tr><td class='rouge-gutter gl'><pre class=lineno>1\n2</pre>"
    f"<td class=rouge-code><pre>{PYTHON}</pre></table>",
    "Chroma": "<table><tr><td class=lntd><pre><span class=lnt>1\n</span><span class=lnt>2\n</span></pre>"
    f"<td><pre>{PYTHON}</pre>",
    "Hexo": "<table class=code><tr><td class=gutter><pre><span class=line>1</span><br>2</pre>"
    f"<td><pre>{PYTHON}</pre></table>",
    "a pre for each line": "<div><pre>for i in x:</pre><pre>    go(i)</pre></div>",
    "a pre for each line, in rows": "<table><tr><td class=blob-num>1<td><pre>for i in x:</pre><tr><td class=blob-num>2"
    "<td><pre>    go(i)</pre></table>",
    "an index whose end is cut off": f"<pre><sub>{PYTHON}</p>\n",
    "breaks": "<code>for i in x:<br>&nbsp;&nbsp;&nbsp;&nbsp;go(i)</code>",
    "breaks and spans": "<p><tt><code>for i in x:<br/>\n&#160;&#160;<span>\u00a0\u00a0go(i)</span></code></tt>",
}


@pytest.mark.parametrize("kind", CODE)
def test_code(kind):
    assert both_forms(CODE[kind]) == (PYTHON, f"```\n{PYTHON}\n```")


LISTINGS = {
    "GitHub": ("<table class=highlight><tr><td class=blob-num>7<td class=blob-code>x = 1</table>", "x = 1"),
    "a drawing of nothing": ("<pre>x<b class=MathJax> <script type=math/tex> </script></b></pre>", "x "),
    "a page cut in an index": ("<pre><sub>V</p>\n", "V"),
    "GitLab": ("<div class=code><a class=diff-line-num>7</a><span>x = 1</span></div>", "x = 1"),
    "Doxygen": ("<div class=fragment><div class=line><span class=lineno>   7</span>&#160;x = 1</div></div>", "x = 1"),
    "numbers in code": ("<pre>x = <i class='token number'>1</i> <i class=line-number>2</i></pre>", "x = 1 2"),
    "numbers in text": ("<p>Bus <span class=line-number>7</span> goes <span class=gutter>8</span>.", "Bus 7 goes 8."),
    "a line that begins with a number": ("<p><span class=line-number>7</span> goes.", "7 goes."),
    "code that is a number": ("<pre class=line-numbers><code>x\n1</code></pre>", "x\n1"),
    "code of a class": ("<div class=code>if x:<br>&nbsp;&nbsp;y</div>", "if x:\n  y"),
    "breaks in prose": ("<p>Yours,<br>&nbsp;&nbsp;&nbsp;Ann", "Yours,\nAnn"),
}


@pytest.mark.parametrize("kind", LISTINGS)
def test_numbers_of_lines_and_indentation(kind):
    html, expected = LISTINGS[kind]
    assert both_forms(html)[0] == expected


BACKTICKS = {
    "a": "`a`", "a`b": "``a`b``", "``x``": "``` ``x`` ```", "`": "`` ` ``", "a``b`c": "```a``b`c```", "a`": "`` a` ``",
}  # fmt: skip


@pytest.mark.parametrize("code", BACKTICKS)
def test_backticks_in_code(code):
    assert both_forms(f"<p>x <code>{code}</code> y") == (f"x {code} y", f"x {BACKTICKS[code]} y")


LINES = {
    "deleted": ("is <del>100</del> <ins>80</ins> euros, <s>old</s> new, <strike>a b</strike>.", "is 80 euros, new,."),
    "deleted blocks": ("<div>a<del><p>b<p>c</p></del>d", "a\nd"),
    "struck by its style": ("a <span style='text-decoration: line-through'>b</span> c", "a c"),
    "deleted and raised": ("x<sup>1<del>2</del></sup><del>y<sup>3</sup></del> z", "x^1 z"),
    "hidden words": ("the miller of the village <span hidden>x</span>is <b style='display:none'>y</b>old", None),
    "hidden wholly": ("<span hidden>the miller</span>", "the miller"),
    "options that are hidden": ("a<datalist><option>b</datalist>c", "a\nc"),
    "a button in a sentence": ("Press the <button>Save</button> button.", "Press the Save button."),
    "one at its end": ("To store it, press <button>Save</button>", "To store it, press Save"),
    "one before a mark": ("Then press <button> Save </button>, and wait.", "Then press Save, and wait."),
    "one at its beginning": ("<button>Save</button> stores the file.", "Save stores the file."),
    "two": ("Press <button>A</button> or <button>B</button> to go.", "Press A or B to go."),
    "Chinese": ("请点击<button>保存</button>按钮", "请点击保存按钮"),
    "one after a sentence": ("Read it all.<button>More</button>", "Read it all.\nMore"),
    "one after a link": ("<a href=x>The mill</a> <button>v</button>", "The mill\nv"),
    "one between breaks": ("Press it<br><button>Save</button><br>now or", "Press it\nSave\nnow or"),
    "buttons of a bar": ("<button>a</button> <button>b</button>", "a\nb"),
    "blocks by style": ("<span style='display:block'>a</span><b style='display: flex'>b</b>c", "a\nb\nc"),
    "blocks by style with spaces": ("a <i style='x;DISPLAY : table-row'> b </i> c", "a\nb\nc"),
    "no blocks": ("<b style='display:inline-block'>a</b><b style='flex: block'>b</b>", "ab"),
    "formulas between words": ("so<math display=block alttext=x></math>is", "so x is"),
    "ruby": ("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp></ruby>字", "漢字"),
}


@pytest.mark.parametrize("kind", LINES)
def test_lines(kind):
    html, expected = LINES[kind]
    expected = "the miller of the village is old" if expected is None else expected
    assert both_forms(f"<p>{html}")[0] == expected


BLOCKS = (
    "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure footer form h1"
    " h2 h3 h4 h5 h6 header hgroup legend li listing main menu nav ol optgroup option p pre search section summary"
    " ul xmp"
)
"""The elements with ``display: block`` or ``list-item`` in the standard's style sheet (section 15.3), and options."""


def test_block_elements_part_words():
    wrong = [name for name in BLOCKS.split() if both_forms(f"a<{name}>b</{name}>c")[0] != "a\nb\nc"]
    assert wrong == []
    assert both_forms("a<hr>b<table><caption>c</caption><tr><td>d</table>e")[0] == "a\nb\nc\nd\ne"


def test_a_row_of_headers_stays_with_its_rows():
    assert main_text("<table><tr><th colspan=2>A<th>B<tr><td>1<td>2<td>3</table>") == ["A\t\tB", "1\t2\t3"]


def test_a_button_stays_in_its_sentence():
    text = "Press the <button>Save</button> button and then the Ctrl key to store the file on the disk of the miller."
    assert main_text(f"<p>{text}") == [text.replace("<button>", "").replace("</button>", "")]


BOMBS = {
    "columns": lambda n: "<table><tr>" + "<td colspan=1000>a<td>b" * n,
    "columns before cells": lambda n: "<table>" + "<tr><td>a<td colspan=998><td>b" * n,
    "rows of a long text": lambda n: f"<table><tr><td rowspan=65534>{'word ' * n}<td>b" + "<tr><td>c" * n,
    "rows of many cells": lambda n: "<table><tr>" + "<td rowspan=0>a" * min(n, 900) + "<tr><td>c" * n,
    "a diagonal": lambda n: "<table>" + "".join(f"<tr><td colspan={i % 990 + 1}><td>a" for i in range(n)),
    "small tables": lambda n: "<table><tr><td rowspan=60 colspan=60>ab<td>c<tr><td>d</table>" * n,
    "tables in cells": lambda n: "<table><tr><td rowspan=9>a<td>" * min(n, 300) + "b<td>c" * n,
    "exponents": lambda n: "x<sup>2</sup>" * n,
    "formulas": lambda n: "<math><mfrac><mi>p</mi><mi>v</mi></mfrac></math>a" * n,
    "a formula": lambda n: "<math>" + "<mfrac><mi>a</mi>" * min(n, 900) + "<msqrt><mi>x</mi></msqrt>" * n,
    "deleted": lambda n: "<del>a</del> b <s>c" * n,
    "buttons": lambda n: "a b <button>c</button> " * n,
    "drawings": lambda n: "<span class=MathJax>a</span>" * n + "<script type=math/tex>x</script>",
    "numbers of lines": lambda n: "<div class=gutter>1111" * min(n, 400) + "1" * n + "x",
    "code": lambda n: "<p>" + "<code>`" * n,
    "quotes": lambda n: "<blockquote>" * 400 + "<p>a" * n,
    "listings": lambda n: "<pre>a</pre>" * n,
}


@pytest.mark.parametrize("kind", BOMBS)
def test_what_is_written_grows_with_the_page(kind):
    html = BOMBS[kind](4000)
    start = time.process_time()
    lines, marked = both_forms(html)
    assert max(len(lines), len(marked)) < 20 * len(html)
    assert time.process_time() - start < 5


def test_the_model_sees_the_page_as_before():
    """Marks are put in, and pieces left out, after the choice: a deleted word changes no probability."""
    text = "The miller has counted <del>100</del> 10<sup>8</sup> grains, and he sells all of them in the village."
    assert "counted 100 108 grains" in page(f"<p>{text}").blocks()[0]
    assert main_text(f"<p>{text}") == ["The miller has counted 10^8 grains, and he sells all of them in the village."]
