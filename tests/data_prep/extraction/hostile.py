"""Markup that is broken, or made to be slow."""

from collections.abc import Callable

FRAGMENTS = (
    "<", "</", "<!", "<!--", "-->", "<!-->", "--!>", "<![CDATA[", "]]>", "<?", "&", "&#", "&#x", "&#0;", "&#xD800;",
    "&#99999999;", "&notit;", "&copy", "\u0000", "\r", "\r\n", "\ufffe", "<a href='", '<a class="', "<p", "<p ", "<p/",
    "<b>", "</b>", "<p>", "</p>", "<br>", "</br>", "<table>", "<tr>", "<td>", "</table>", "<caption>", "<li>", "<ul>",
    "</ul>", "<select>", "<option>", "<form>", "</form>", "<svg>", "</svg>", "<math>", "<mi>",
    "<annotation encoding=application/x-tex>", "<foreignObject>", "<template>", "<template shadowrootmode=open>",
    "</template>", "<script>", "</script>", "<script type=math/tex>", "<script type=application/ld+json>{", "<style>",
    "<title>", "</title>", "<textarea>", "<plaintext>", "<noscript>", "<iframe>", "<xmp>", "<pre>\n", "<ruby>", "<rt>",
    "<img alt='a < b & c'>", "<h1>", "</h2>", "<a>", "<button>", "<marquee>", "<body class=x>", "</body>", "</html>",
    "<frameset>", "<meta name=author content=a>", "<html lang=de>", "<div hidden>", "<p style='display:none'>",
    "<x-y Zahl=1>", "<input value=x>", "<pre>", "</pre>", "<td rowspan=0>", "<td colspan=3>", "<th>",
    "<thead>", "<tfoot>", "<sup>2</sup>", "<sup>", "<sub>1</sub>", "<del>", "</del>", "<s>", "<mfrac>", "<msup>",
    "<mtr>", "<mprescripts/>", "<none/>", "<mfenced open='['>", "<mo>&af;</mo>", "<span class=MathJax>",
    "<span class=lineno>1", "</span>", "</button>", "<b style='display:block'>", "<i hidden>", "</i>", "<code>`",
    "<br>&nbsp;&nbsp;", "<img class=tex alt=x>",
)  # fmt: skip
"""Pieces of markup that pages are broken with."""


def repeated(piece: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: (before + piece * (size // len(piece)) + after)[:size]


def nested(piece: str, levels: int = 900) -> Callable[[int], str]:
    """Returns what makes pages with ``levels`` open elements, in which ``piece`` has to look for its own."""
    opened = "".join(f"<x-{level}>" for level in range(levels // 2)) + "<div>" * (levels // 2)
    return repeated(piece, opened)


SLOW: dict[str, Callable[[int], str]] = {
    "paragraphs": repeated("<p>a"),
    "unclosed links": repeated("<a href=x>a "),
    "formatting across paragraphs": repeated("<p><b><i><u>a</p>"),
    "wrong end tags": repeated("<b></i></p></x>"),
    "end tags deep inside": nested("</b>"),
    "unknown end tags deep inside": nested("</y>"),
    "list items deep inside": nested("<li>a"),
    "tables deep inside": nested("<tr><td>a", 400),
    "text before tables": repeated("<table>a<tr>b<td>c"),
    "rows without tables": repeated("<tr><td>a"),
    "options": repeated("<select><option>a"),
    "forms": repeated("<form></form>a"),
    "ruby": repeated("<ruby>a<rt>b"),
    "less-than signs": repeated("<"),
    "half tags": repeated("<a "),
    "half attributes": repeated("<a b='"),
    "attributes": repeated(" class=a", "<p"),
    "words of classes": repeated("aBc ", '<p class="'),
    "keywords of classes": repeated("navmenucommentsharefoot", "<p id="),
    "styles": repeated("display:", "<p style='"),
    "half comments": repeated("<!--"),
    "comments": repeated("<!---->a"),
    "half sections": repeated("<![CDATA["),
    "sections": repeated("<![CDATA[a]]>", "<svg><desc>"),
    "scripts": repeated("<script></script>a"),
    "half scripts": repeated("<script><!--<script>"),
    "end tags in scripts": repeated("</scrip", "<script>"),
    "formulas": repeated("<math><mi>x</mi></math>a"),
    "half formulas": repeated("<math>"),
    "ampersands": repeated("&"),
    "references": repeated("&CounterClockwiseContourIntegral"),
    "long numbers": repeated("9", "&#"),
    "line breaks": repeated("a<br><br>"),
    "preformatted text": repeated("a\r\n ", "<pre>"),
    "facts": repeated("<meta name=author content=a>"),
    "linked data": repeated('<script type="application/ld+json">{"a":1}</script>'),
    "nested linked data": repeated("[", '<script type="application/ld+json">'),
    "templates": repeated("<template>a</template>"),
    "words": repeated("ab cd. "),
    "one word": repeated("a"),
    "Chinese": repeated("磨坊"),
    "equal blocks": repeated("<div class=a><p>The mill turns.</p></div>"),
    "headings": repeated("<h1>a<h2>b"),
    "images with text": repeated("<img alt='a b'>"),
    "licences": repeated("<a href=//creativecommons.org/licenses/by/4.0>a"),
}
"""Name → what makes a page of a size in characters."""
