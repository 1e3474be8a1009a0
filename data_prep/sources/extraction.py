"""The text of an HTML page, one paragraph a line, without navigation, advertisements and other boilerplate.

    html ── extract ──> "Title\\nFirst paragraph.\\nSecond paragraph."

C4's line rules need each paragraph whole on its own line, which is how every extractor here leaves it.
"""

import importlib.util
import itertools
import re
from collections.abc import Callable
from typing import Literal

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.charset import clean
from headrace.data_prep.sources.isolation import isolated
from headrace.pipeline.core.errors import ConfigError

Extractor = Literal["resiliparse", "all_text", "trafilatura", "readability"]
"""``resiliparse`` is the default: on 1,497 hand-checked pages its F1 (0.837) is as good as trafilatura's (0.827) at 13
times the speed (benchmarks/html_extraction.py); ``trafilatura`` lets less boilerplate through and loses more text;
``all_text`` is everything a reader sees, as in Common Crawl's WET files."""

OPTIONAL = {"trafilatura": "trafilatura", "readability": "readability"}
"""The module that an extractor needs and a plain installation lacks."""
BOILERPLATE = ["nav", "footer", "aside", "form", "dialog", "button", "select"]
BOILERPLATE += ["[role=navigation]", "[role=contentinfo]", "[role=dialog]"]
MAIN_FRACTION = 0.3
"""Main content shorter than this part of the page's text without BOILERPLATE is taken for a wrong guess. Measured: 0.2
to 0.4 give the same F1 within 0.005; without the second look F1 falls by 0.07."""
DEPTH = 1000
"""The time of parsers and of resiliparse grows with the square of the depth (0.1 s at 1,000 elements, hours at
200,000), so deeper pages are not read. The deepest of 500 real pages measured has 442, the median 17."""
NOT_NESTING = (
    "area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr"  # void elements
    "|p|li|dd|dt|tr|td|th|tbody|thead|tfoot|colgroup|option|optgroup|html|head|body"  # closed by what follows
    "|path|circle|rect|use|line|polygon|polyline|ellipse|stop|animate"  # SVG's leaves
)
NESTING_TAG = re.compile(rf"<(?!/?(?:{NOT_NESTING})\b)(/?)[a-z]", re.IGNORECASE)
HTML_START = re.compile(
    rb"(?:\s|<!--(?:(?!-->).){0,2000}-->|<\?xml(?:(?!\?>).){0,200}\?>)*"
    rb"<(?:!doctype\s+html|html|head|body|title|meta|script|style|table|div|h1|p|a|br)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Source: WHATWG MIME Sniffing, "identifying a resource with an unknown MIME type"."""


def looks_like_html(data: bytes) -> bool:
    """Whether bytes of an unknown type begin like an HTML page."""
    return HTML_START.match(data[:4096]) is not None


def require(extractor: Extractor) -> None:
    """Make sure that ``extractor`` can run here.

    Raises:
        ConfigError: when its package is not installed.
    """
    if extractor in OPTIONAL and importlib.util.find_spec(OPTIONAL[extractor]) is None:
        wrong = f"{extractor!r} needs a package that is not installed"
        raise ConfigError("source.extractor", wrong, "pip install headrace[extractors]")


def extract(html: str, extractor: Extractor) -> str | Drop:
    """The text of ``html``, never empty; else why there is none.

    ``no_text``, ``too_nested`` (the depth), or what the page did to the process that read it: ``too_slow``,
    ``too_much_memory``, ``crashed`` (see isolation.py).
    """
    if (levels := depth(html)) > DEPTH:
        return Drop("too_nested", str(levels))
    found = isolated(EXTRACTORS[extractor], html)
    if isinstance(found, Drop):
        return found
    lines = (" ".join(line.split()) for line in found.split("\n"))
    return clean("\n".join(line for line in lines if line)).strip() or Drop("no_text", "")


def depth(html: str) -> int:
    """How deep elements nest, by counting tags that open and close."""
    if html.count("<") <= DEPTH:
        return 0
    return max(itertools.accumulate(-1 if slash else 1 for slash in NESTING_TAG.findall(html)), default=0)


def _resiliparse(html: str) -> str:
    """Main content by resiliparse's rules, or all but semantic boilerplate where that left too little of the page."""
    tree = HTMLTree.parse(html)
    main = extract_plain_text(
        tree, main_content=True, comments=False, post_meta=False, alt_texts=False, list_bullets=False
    )
    page = extract_plain_text(tree, skip_elements=BOILERPLATE, alt_texts=False, list_bullets=False)
    return main if len(main) >= MAIN_FRACTION * len(page) else page


def _all_text(html: str) -> str:
    return extract_plain_text(html, alt_texts=False, list_bullets=False)


def _trafilatura(html: str) -> str:
    import trafilatura

    return trafilatura.extract(html) or ""


def _readability(html: str) -> str:
    import readability

    try:
        return _all_text(readability.Document(html).summary(html_partial=True))
    except readability.readability.Unparseable:
        return ""


EXTRACTORS: dict[Extractor, Callable[[str], str]] = {
    "resiliparse": _resiliparse,
    "all_text": _all_text,
    "trafilatura": _trafilatura,
    "readability": _readability,
}
