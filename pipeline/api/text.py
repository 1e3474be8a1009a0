"""The text of a page of HTML, as the stage ``texts`` reads it."""

import functools

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.html import Extractor, HtmlExtraction, text_of, text_of_bytes
from headrace.pipeline.api.verdict import Verdict, verdict_on
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode_within


def text(
    html: str | bytes,
    *,
    markdown: bool = False,
    emphasis: bool = False,
    links: bool = False,
    alt_texts: bool = False,
    extractor: Extractor = "blocks",
    charset: str | None = None,
    xhtml: bool = False,
) -> str:
    """Returns the main text of a page of HTML; empty when it has none, or cannot be read (``page`` says why).

    Args:
        html: the page. Bytes are decoded as browsers do: by a byte order mark, ``charset``, or what the page declares.
        markdown: whether headings, lists, tables and code keep their marks; else lines of plain text.
        emphasis: whether Markdown has ``*emphasis*``.
        links: whether Markdown has ``[links](address)``.
        alt_texts: whether the texts that stand for images are part of it.
        extractor: ``blocks`` (a model keeps the blocks of the main text), ``all_text``, ``resiliparse``,
            ``trafilatura`` or ``readability``.
        charset: the character set of the HTTP header.
        xhtml: whether the page was served as XHTML.

    Raises:
        ConfigError: when an argument is not valid, or the library of the extractor is not installed.
    """
    extraction = _extraction(markdown, emphasis, links, alt_texts, extractor)
    return _read(html, extraction, charset, xhtml).text


def page(
    html: str | bytes,
    *,
    markdown: bool = False,
    emphasis: bool = False,
    links: bool = False,
    alt_texts: bool = False,
    extractor: Extractor = "blocks",
    charset: str | None = None,
    xhtml: bool = False,
) -> Verdict:
    """Returns the text of a page of HTML with the facts that it states, or the reason why it has none.

    ``metadata["page"]`` holds the facts: ``title``, ``language``, ``canonical``, ``licence``, dates, directives for
    robots. The rule of an unreadable page is ``no_text``, ``binary``, ``not_html``, ``undecodable``, ``too_nested`` or
    ``too_many_blocks``. The arguments are those of ``text``.

    Raises:
        ConfigError: when an argument is not valid, or the library of the extractor is not installed.
    """
    return _read(html, _extraction(markdown, emphasis, links, alt_texts, extractor), charset, xhtml)


@functools.cache
def _extraction(markdown: bool, emphasis: bool, links: bool, alt_texts: bool, extractor: str) -> HtmlExtraction:
    if not markdown and (emphasis or links):
        raise ConfigError("text", "plain text has neither emphasis nor links", "give markdown=True, too")
    form = "markdown" if markdown else "lines"
    values = {"emphasis": emphasis, "links": links, "alt_texts": alt_texts, "extractor": extractor, "text_form": form}
    extraction = decode_within(HtmlExtraction, values, "text")
    extraction.require_extractor()
    return extraction


def _read(html: str | bytes, extraction: HtmlExtraction, charset: str | None, xhtml: bool) -> Verdict:
    if isinstance(html, bytes | bytearray):
        extracted = text_of_bytes(bytes(html), extraction, charset, xhtml)
    elif isinstance(html, str):
        extracted = text_of(html, extraction, xhtml)
    else:
        raise ConfigError("text", f"a page must be str or bytes (got {type(html).__name__})", "give its HTML")
    if isinstance(extracted.text, Drop):
        return verdict_on(Document("", "", metadata=extracted.metadata()), extracted.text)
    return verdict_on(Document(extracted.text, "", metadata=extracted.metadata()), None)
