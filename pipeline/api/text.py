"""The text of a page of HTML, as the stage ``texts`` reads it."""

from typing import Any

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.html import HtmlExtraction, text_of, text_of_bytes
from headrace.data_prep.sources.page_bytes import sanitize
from headrace.pipeline.api.verdict import Verdict, verdict_on
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode_within


def text(html: str | bytes, **options: Any) -> str:
    """Returns the main text of a page of HTML; empty when it has none, or cannot be read (``page`` says why).

    Bytes are decoded as browsers do: by a byte order mark, ``charset`` (that of the HTTP header), or what the page
    declares. ``xhtml=True``: it was served as XHTML. ``markdown=True`` keeps the marks of headings, lists, tables and
    code, with ``emphasis=True`` and ``links=True`` also these; ``alt_texts=True`` adds the texts that stand for images.
    ``extractor`` is ``blocks`` (a model keeps the blocks of the main text), ``all_text``, ``resiliparse``
    or ``trafilatura``.
    """
    return page(html, **options).text


def page(
    html: str | bytes, *, charset: str | None = None, xhtml: bool = False, markdown: bool = False, **options: Any
) -> Verdict:
    """Returns the text of a page of HTML with the facts that it states, or the reason why it has none.

    ``options`` are those of ``text``. ``metadata["page"]`` holds the facts: ``title``, ``language``, ``canonical``,
    ``licence``, dates, directives for robots. The rule of an unreadable page is ``no_text``, ``binary``, ``not_html``,
    ``undecodable``, ``too_nested`` or ``too_many_blocks``.
    """
    for name, flag in (("xhtml", xhtml), ("markdown", markdown)):
        if not isinstance(flag, bool):
            raise ConfigError(f"text.{name}", f"must be true or false (got {flag!r})", "give True or False")
    if charset is not None and not isinstance(charset, str):
        raise ConfigError("text.charset", f"must be a text (got {charset!r})", "give the name of an encoding")
    extraction = decode_within(HtmlExtraction, options | ({"text_form": "markdown"} if markdown else {}), "text")
    if extraction.text_form == "lines" and (extraction.emphasis or extraction.links):
        raise ConfigError("text", "plain text has neither emphasis nor links", "give markdown=True, too")
    extraction.require_extractor()
    if isinstance(html, str):
        extracted = text_of(sanitize(html), extraction, xhtml)
    elif isinstance(html, bytes | bytearray):
        extracted = text_of_bytes(bytes(html), extraction, charset, xhtml)
    else:
        raise ConfigError("text", f"a page must be str or bytes (got {type(html).__name__})", "give its HTML")
    drop = extracted.text if isinstance(extracted.text, Drop) else None
    return verdict_on(Document("" if drop else extracted.text, "", metadata=extracted.metadata()), drop)
