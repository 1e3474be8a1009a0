"""Source of saved web pages: each HTML file is one document.

site/about.html  ->  Document(text, "site/about.html:0", {"url": <link rel="canonical">, "page": {…}})

body ── html_of ──> HTML in UTF-8 ── text_of ──> text, facts of the page
   └─ binary, not_html                 └─ no_text, undecodable, …

html ── read_page ──> blocks ── main_text, or all ──> text in the form that is set
   │             └──> facts: title, language, licence, …
   └─ extract_with ──> text of another library's extractor
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from datatrove.data import Document
from numpy.typing import NDArray

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.damaged_files import pieces
from headrace.data_prep.sources.encodings import REPLACEMENT
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.other_extractors import EXTRACTORS, extract_with, require_extractor
from headrace.data_prep.sources.page_bytes import (
    CONTROL_FRACTION,
    binary_type,
    control_fraction,
    data_type,
    encoding_of_page,
    utf8,
)
from headrace.data_prep.sources.source import Record
from headrace.pipeline.core.compression import bare_name
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, Positive, by_content, settings
from headrace.pipeline.core.stage import RawFile, raw_file

if TYPE_CHECKING:
    from headrace.data_prep.extraction.model import MainTextModel
    from headrace.data_prep.extraction.page import HtmlPage
    from headrace.data_prep.extraction.page_facts import PageFacts

Extractor = Literal["blocks", "all_text", "resiliparse", "trafilatura"]


class Extracted(NamedTuple):
    """The result for a page."""

    text: str | Drop
    facts: "PageFacts"
    left_out: int = 0
    """Characters of the page's text that extraction left out."""

    def metadata(self) -> dict[str, Any]:
        """Returns the facts and what was left out as metadata of a document."""
        facts: dict[str, Any] = {"page": self.facts} if self.facts else {}
        return facts | ({"left_out": self.left_out} if self.left_out else {})


MODEL_FILE = "the extractor's model"
"""The name of the model among the raw files of a stage."""


_watched: "ContextVar[list[HtmlPage] | None]" = ContextVar("watched", default=None)


@contextlib.contextmanager
def watched() -> "Iterator[list[HtmlPage]]":
    """Collects the pages that sources read meanwhile, for people who look at one."""
    pages: list[HtmlPage] = []
    token = _watched.set(pages)
    try:
        yield pages
    finally:
        _watched.reset(token)


_checked: ContextVar[bool] = ContextVar("checked", default=False)
"""Whether records are read for ``Source.check`` alone, which asks for their format: no text is made of pages."""


@settings
class HtmlExtraction:
    """Settings of sources that read HTML."""

    extractor: Extractor = "blocks"
    """The choice of the text of a page. ``blocks``: a model keeps the blocks that belong to the main text.
    ``all_text``: every block. The others are libraries, see docs/reading.md."""
    extractor_model: FilePath | None = by_content(None)
    """File of ``benchmarks/data/extractor_training.py`` that ``blocks`` chooses with; None: the model of the project.
    Its content is part of the address."""
    text_form: Literal["lines", "markdown"] = "lines"
    """``lines``: a paragraph, a list item or a row of a table (cells joined by tabs) on a line each; code as it is."""
    emphasis: bool = False
    """Whether Markdown has ``*emphasis*``."""
    links: bool = False
    """Whether Markdown has ``[links](address)``."""
    alt_texts: bool = False
    """Whether the texts that stand for images are part of the text."""
    own_revision: ClassVar[int] = 0
    """The revision of what a source does other than making text of HTML."""

    @property
    def revision(self) -> int:
        """Three more for HTML. At 0, licences of parts were those of the page, directives for one robot were left out,
        the text of ``extraction`` had no marks of exponents and formulas, deleted text stayed, and cells stood in rows
        and columns without their spans. At 1, a title above the text, a table below a kept heading, and formulas that
        scripts draw were left out; at 2, headings, terms and lines with a colon before what was kept."""
        return self.own_revision + 3 * self.extracts

    @property
    def extracts(self) -> bool:
        """Whether the source makes text of HTML."""
        return True

    def model_files(self) -> tuple[RawFile, ...]:
        """Returns the file that decides what is kept, if there is one."""
        return (raw_file(MODEL_FILE, self._model_path),) if self.extracts and self.extractor == "blocks" else ()

    def require_extractor(self) -> None:
        """Checks that the extractor is installed, its model can be read, and that the other settings have an effect.

        Raises:
            ConfigError: for the first setting that is not right.
        """
        require_extractor(self.extractor)
        if self.extractor == "blocks":
            _ = self.model
        elif self.extractor_model is not None:
            problem = f"{self.extractor_model} has no effect with source.extractor={self.extractor}"
            raise ConfigError("source.extractor_model", problem, "remove it, or use extractor=blocks")
        if self.extractor in EXTRACTORS and (self.text_form == "markdown" or self.alt_texts):
            problem = f"{self.extractor!r} gives lines without texts of images only"
            raise ConfigError("source.extractor", problem, "use blocks or all_text")
        if self.text_form != "markdown" and (self.emphasis or self.links):
            raise ConfigError("source.text_form", "'lines' has neither emphasis nor links", "use text_form=markdown")

    def check(self, names: Sequence[str]) -> None:
        """Does what ``Source.check`` does, without extraction: it would load numba where a command is typed."""
        token = _checked.set(True)
        try:
            super().check(names)  # type: ignore[misc] # the class after this one is a Source
        finally:
            _checked.reset(token)

    def extracted(self, html: str | bytes, is_xml: bool = False) -> Extracted:
        """Returns the text of ``html``, which is never empty, or the reason why there is none, and the page's facts.

        The reasons are ``no_text``, those of ``read_page`` and of ``extract_with``. ``is_xml``: it was served as XHTML.
        """
        if _checked.get():
            return Extracted("page", {})
        from headrace.data_prep.extraction.page import read_page

        page = read_page(html, is_xml, self.alt_texts)
        if isinstance(page, Drop):
            return Extracted(page, {})
        if (pages := _watched.get()) is not None:
            pages.append(page)
        text = extract_with(self.extractor, html) if self.extractor in EXTRACTORS else self._chosen(page)
        if isinstance(text, Drop) or not text:
            return Extracted(text or Drop("no_text", ""), page.facts)
        return Extracted(text, page.facts, max(page.characters() - len(text), 0))

    def choice(self, page: "HtmlPage") -> NDArray[np.bool_]:
        """Returns which blocks of ``page`` the extractor, which is ``blocks`` or ``all_text``, keeps: (blocks,)."""
        from headrace.data_prep.extraction.model import judged

        return np.ones(page.order.size, np.bool_) if self.extractor == "all_text" else judged(page, self.model)[1]

    def _chosen(self, page: "HtmlPage") -> str:
        keep = self.choice(page)
        if self.text_form == "markdown":
            from headrace.data_prep.extraction.markdown import markdown

            return markdown(page.scan, page.order, keep, self.emphasis, self.links)
        return page.text(keep)

    @property
    def _model_path(self) -> Path:
        from headrace.data_prep.extraction.model import DEFAULT

        return DEFAULT if self.extractor_model is None else Path(self.extractor_model)

    @property
    def model(self) -> "MainTextModel":
        """The model that ``blocks`` chooses with. Kept outside these settings, whose pickles stay small."""
        from headrace.data_prep.extraction.model import load

        return load(self._model_path)


UNDECODABLE_FRACTION = 0.1
"""A text of which more characters than this are U+FFFD is dropped: its page is in another encoding than it declares."""


def html_of(body: bytes, charset: str | None = None) -> bytes | Drop:
    """Returns the HTML in ``body`` in UTF-8; ``charset`` is the one of its HTTP header.

    Drops: ``binary`` (the signature of another format, whose type is the value, or too many control characters) and
    ``not_html`` (JSON, a feed or a site map; value: its type).
    """
    if _checked.get():
        return b""
    if kind := binary_type(body):
        return Drop("binary", kind)
    if kind := data_type(body):
        return Drop("not_html", kind)
    fraction = control_fraction(body)
    if fraction > CONTROL_FRACTION and not encoding_of_page(body, charset).startswith("utf-16"):
        return Drop("binary", f"{fraction:.1%} control characters")
    return utf8(body, charset)


def text_of(html: str | bytes, extraction: HtmlExtraction, is_xml: bool = False) -> Extracted:
    """Returns what becomes of ``html``. Drops: those of ``extraction``, and ``undecodable``."""
    extracted = extraction.extracted(html, is_xml)
    return extracted if isinstance(extracted.text, Drop) else extracted._replace(text=decodable(extracted.text))


def text_of_bytes(body: bytes, extraction: HtmlExtraction, charset: str | None, is_xml: bool) -> Extracted:
    """Returns what becomes of the page ``body``. Drops: those of ``html_of`` and of ``text_of``."""
    html = html_of(body, charset)
    return Extracted(html, {}) if isinstance(html, Drop) else text_of(html, extraction, is_xml)


def decodable(text: str) -> str | Drop:
    """Returns ``text``, or the Drop ``undecodable`` if too much of it could not be decoded. It is not empty."""
    fraction = text.count(REPLACEMENT) / len(text)
    return Drop("undecodable", f"{fraction:.1%} of the characters") if fraction > UNDECODABLE_FRACTION else text


@settings
class Html(HtmlExtraction, FileSource):
    """HTML files, plain or compressed.

    Drops: ``binary``, ``not_html`` (JSON, feeds), ``undecodable``, ``no_text``, ``too_nested``, ``too_many_blocks``,
    ``record_too_large``, ``broken_compression``; of other extractors ``too_slow``, ``too_much_memory``, ``crashed``.
    """

    own_revision: ClassVar[int] = 1
    type: Literal["html"] = "html"
    record_bytes: Positive = 20_000_000
    """Larger pages are dropped and never held in memory."""

    def __post_init__(self) -> None:
        self.require_extractor()

    def suffixes(self) -> tuple[str, ...]:
        return (".html", ".htm", ".xhtml")

    def read(self, name: str) -> Iterator[Record]:
        content = self._content(name)
        is_xml = bare_name(name).endswith(".xhtml")
        extracted = Extracted(content, {}) if isinstance(content, Drop) else text_of_bytes(content, self, None, is_xml)
        metadata = {"url": extracted.facts.get("canonical", "")} | extracted.metadata()
        if isinstance(extracted.text, Drop):
            yield Document("", f"{name}:0", metadata=metadata), extracted.text
        else:
            yield Document(extracted.text, f"{name}:0", metadata=metadata), None

    def _content(self, name: str) -> bytes | Drop:
        """Reads the decompressed file."""
        blocks, size = [], 0
        with self.open(name) as stream:
            for piece in pieces(stream):
                if isinstance(piece, bytes):
                    blocks.append(piece)
                    size += len(piece)
                elif piece.is_loss:
                    return Drop("broken_compression", piece.value)
                if size > self.record_bytes:
                    return Drop("record_too_large", f"more than {self.record_bytes}")
        return b"".join(blocks)
