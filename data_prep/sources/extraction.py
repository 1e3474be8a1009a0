"""The text of an HTML page, one paragraph a line, without navigation, advertisements and other boilerplate.

    html ── extract ──> "Title\nFirst paragraph.\nSecond paragraph."

C4's line rules need each paragraph whole on its own line, which is how the extractors here leave it.
"""

import re
from collections.abc import Callable
from typing import Literal

from resiliparse.extract.html2text import extract_plain_text

from data_prep.sources.charset import clean

Extractor = Literal["resiliparse", "resiliparse_all"]

BLANK_LINES = re.compile(r"\s*\n\s*")
SPACES = re.compile(r"[^\S\n]+")
HTML_START = re.compile(
    rb"(?:\s|<!--.{0,2000}?-->|<\?xml.{0,200}?\?>)*<(?:!doctype\s+html|html|head|body|title|meta|script|style|table|div|h1|p|a|br)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Source: WHATWG MIME Sniffing, "identifying a resource with an unknown MIME type"."""


def looks_like_html(data: bytes) -> bool:
    """Whether bytes of an unknown type begin like an HTML page."""
    return HTML_START.match(data[:4096]) is not None


def extract(html: str, extractor: Extractor) -> str:
    """The text of ``html``; empty when there is none.

    Raises:
        ConfigError: when the extractor's package is not installed.
    """
    return clean(SPACES.sub(" ", BLANK_LINES.sub("\n", EXTRACTORS[extractor](html))).strip())


def _resiliparse(html: str) -> str:
    return extract_plain_text(html, main_content=True, alt_texts=False, list_bullets=False)


def _resiliparse_all(html: str) -> str:
    return extract_plain_text(html, alt_texts=False, list_bullets=False)


EXTRACTORS: dict[Extractor, Callable[[str], str]] = {
    "resiliparse": _resiliparse,
    "resiliparse_all": _resiliparse_all,
}
