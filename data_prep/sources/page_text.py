"""The way from the bytes of a page to its text, or to the reason why it has none.

body ── html_of ──> decoded HTML ── text_of ──> text, facts of the page
   └─ binary, not_html                 └─ no_text, undecodable, …
"""

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.body_types import CONTROL_FRACTION, binary_type, control_fraction, data_type
from headrace.data_prep.sources.charset import decode, encoding_of_page
from headrace.data_prep.sources.decoders import REPLACEMENT
from headrace.data_prep.sources.extraction import Extracted, HtmlExtraction

UNDECODABLE_FRACTION = 0.1
"""A text of which more characters than this are U+FFFD is dropped: its page is in another encoding than it declares."""


def html_of(body: bytes, charset: str | None = None) -> str | Drop:
    """Returns the HTML in ``body``; ``charset`` is the one of its HTTP header.

    Drops: ``binary`` (the signature of another format, whose type is the value, or too many control characters) and
    ``not_html`` (JSON, a feed or a site map; value: its type).
    """
    if kind := binary_type(body):
        return Drop("binary", kind)
    if kind := data_type(body):
        return Drop("not_html", kind)
    fraction = control_fraction(body)
    if fraction > CONTROL_FRACTION and not encoding_of_page(body, charset).startswith("utf-16"):
        return Drop("binary", f"{fraction:.1%} control characters")
    return decode(body, charset)


def text_of(html: str, extraction: HtmlExtraction, is_xml: bool = False) -> Extracted:
    """Returns what becomes of ``html``. Drops: those of ``extraction``, and ``undecodable``."""
    extracted = extraction.extracted(html, is_xml)
    return extracted if isinstance(extracted.text, Drop) else extracted._replace(text=decodable(extracted.text))


def decodable(text: str) -> str | Drop:
    """Returns ``text``, or the Drop ``undecodable`` if too much of it could not be decoded. It is not empty."""
    fraction = text.count(REPLACEMENT) / len(text)
    return Drop("undecodable", f"{fraction:.1%} of the characters") if fraction > UNDECODABLE_FRACTION else text
