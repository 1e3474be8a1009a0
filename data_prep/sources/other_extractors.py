"""Extractors of other libraries, and the bound of depth that protects them.

They run in a process of their own (isolation.py): for some pages their time grows with the square of the size or
faster, and C code may fault. docs/reading.md names what each of them loses.
"""

import functools
import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from headrace.data_prep.document import Drop
from headrace.data_prep.kernel import kernel
from headrace.data_prep.sources.charset import sanitize
from headrace.data_prep.sources.isolation import isolated
from headrace.pipeline.core.extras import require

OPTIONAL = ("trafilatura", "readability")
"""The extractors whose module, which has the same name, is not installed by default."""
BOILERPLATE = ["nav", "footer", "aside", "form", "dialog", "button", "select"]
BOILERPLATE += ["[role=navigation]", "[role=contentinfo]", "[role=dialog]"]
MAIN_FRACTION = 0.3
"""The main content must have at least this fraction of the characters of the page without BOILERPLATE, else the page
without BOILERPLATE is used. Values of 0.2 to 0.4 give the same F1 within 0.005. Without this check F1 falls by 0.07."""
MAX_DEPTH = 1000
"""The time of parsers and of resiliparse grows with the square of the depth (0.1 s at 1,000 elements, hours at
200,000), so deeper pages are dropped. Of 500 real pages the deepest has 442 levels, the median 17."""
NOT_NESTING = (
    "area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr"  # void elements
    "|p|li|dd|dt|tr|td|th|tbody|thead|tfoot|colgroup|option|optgroup|html|head|body"  # optional end tags
    "|path|circle|rect|use|line|polygon|polyline|ellipse|stop|animate"  # SVG elements without children
)
"""Names of tags that do not count for the depth."""
NESTING_TAG = re.compile(rf"<(?!/?(?:{NOT_NESTING})\b)(/?)[a-z]", re.IGNORECASE)
NAME_BYTES = 8
"""The longest name in NOT_NESTING."""


def require_extractor(extractor: str) -> None:
    """Checks that ``extractor`` is installed.

    Raises:
        ConfigError: when its package is not installed.
    """
    if extractor in OPTIONAL:
        require("source.extractor", extractor)


def extract_with(extractor: str, html: str) -> str | Drop:
    """Returns the text of ``html``, which is never empty, each paragraph on one line, or the reason why there is none.

    The reasons are ``no_text``, ``too_nested`` (value: the depth), and those of the isolated process: ``too_slow``,
    ``too_much_memory``, ``crashed`` (isolation.py).
    """
    if (levels := depth(html)) > MAX_DEPTH:
        return Drop("too_nested", str(levels))
    text = isolated(EXTRACTORS[extractor], html)
    if isinstance(text, Drop):
        return text
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return sanitize("\n".join(line for line in lines if line)).strip() or Drop("no_text", "")


def depth(html: str) -> int:
    """Returns the depth to which elements nest, by start and end tags; 0 if it cannot exceed MAX_DEPTH."""
    if html.count("<") <= MAX_DEPTH:
        return 0
    levels = int(_depth(np.frombuffer(html.encode("utf-8", "surrogatepass"), np.uint8), _names()))
    return levels if levels >= 0 else depth_by_expression(html)


def depth_by_expression(html: str) -> int:
    """Returns the depth of ``html`` by NESTING_TAG, which defines it."""
    level = deepest = 0
    for slash in NESTING_TAG.findall(html):
        level += -1 if slash else 1
        deepest = max(deepest, level)
    return deepest


@functools.cache
def _names() -> NDArray[np.uint64]:
    """Returns NOT_NESTING as sorted numbers: the bytes of a name, the first one highest."""
    return np.sort(np.array([int.from_bytes(name.encode(), "big") for name in NOT_NESTING.split("|")], np.uint64))


@kernel
def _depth(page: NDArray[np.uint8], names: NDArray[np.uint64]) -> int:
    """Returns the depth of the UTF-8 ``page`` like ``depth_by_expression``.

    Returns -1 when a tag has characters beyond ASCII: some count as letters of a name or fold to ASCII ones.
    """
    level = deepest = 0
    for start in range(page.size - 1):
        if page[start] != 0x3C:  # <
            continue
        at = start + 1
        step = 1
        if page[at] == 0x2F:  # /
            at, step = at + 1, -1
        first, name = at, np.uint64(0)
        while at < page.size and _is_word(page[at]):
            lower = page[at] | 0x20 if 0x41 <= page[at] <= 0x5A else page[at]
            name = name << np.uint64(8) | np.uint64(lower)
            at += 1
        if at < page.size and page[at] >= 0x80:
            return -1
        if at == first or not 0x41 <= page[first] & 0xDF <= 0x5A:
            continue
        index = np.searchsorted(names, name)
        if at - first > NAME_BYTES or index == names.size or names[index] != name:
            level += step
            deepest = max(deepest, level)
    return deepest


@kernel
def _is_word(character: int) -> bool:
    """Whether an ASCII character is a letter, a digit or an underscore."""
    return 0x30 <= character <= 0x39 or 0x41 <= character & 0xDF <= 0x5A or character == 0x5F


def _resiliparse(html: str) -> str:
    """Returns resiliparse's main content, or the page without BOILERPLATE if the main content is too short."""
    tree = HTMLTree.parse(html)
    main = extract_plain_text(
        tree, main_content=True, comments=False, post_meta=False, alt_texts=False, list_bullets=False
    )
    page = extract_plain_text(tree, skip_elements=BOILERPLATE, alt_texts=False, list_bullets=False)
    return main if len(main) >= MAIN_FRACTION * len(page) else page


def _trafilatura(html: str) -> str:
    import trafilatura

    return trafilatura.extract(html) or ""


def _readability(html: str) -> str:
    import readability

    try:
        summary = readability.Document(html).summary(html_partial=True)
        return str(extract_plain_text(summary, alt_texts=False, list_bullets=False))
    except readability.readability.Unparseable:
        return ""


EXTRACTORS: dict[str, Callable[[str], str]] = {
    "resiliparse": _resiliparse,
    "trafilatura": _trafilatura,
    "readability": _readability,
}
