"""Source of Wikipedia: each page of a dump in XML is one document.

enwiki-20240601-pages-articles1.xml-p1p41242.bz2  ->  Document(text, "<file>:<page>", {"url", "source_id", "date", …})

The dumps are those named ``pages-articles``, with one revision a page; ``multistream`` or not, compressed or not. The
markup becomes text by wikitext.py.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, cast
from urllib.parse import quote
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.damaged_files import pieces
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.source import Record
from headrace.data_prep.sources.wikitext import plain_text
from headrace.pipeline.core.settings import Positive, settings

FILE, CATEGORY = 6, 14
"""Numbers of the namespaces whose links show no text, in every language."""
REDIRECT = re.compile(r"\s*#redirect\b", re.IGNORECASE)
"""The beginning of a redirect in dumps that have no element for it, those until 2011."""
VALUE_CHARACTERS = 300


@settings
class Wikipedia(FileSource):
    """Dumps of Wikipedia, or of another wiki of MediaWiki, plain or compressed.

    Drops: ``namespace`` (talk, users, templates, …; value: its number), ``redirect`` (value: its target), ``no_text``,
    ``record_too_large``, ``broken_file``, ``broken_compression``: the last two end the reading of their file.
    """

    page_range: ClassVar[str] = r"-p\d+p\d+(?=$|\.)"

    type: Literal["wikipedia"] = "wikipedia"
    passages_alone: bool = False
    """Whether headings and lists are left out, as for BERT (Devlin et al. 2019, section 3.1). Tables always are."""
    record_bytes: Positive = 20_000_000
    """Pages with more markup are dropped."""

    def suffixes(self) -> tuple[str, ...]:
        return (".xml",)

    def read(self, name: str) -> Iterator[Record]:
        for number, page in enumerate(_Dump().pages(self._blocks(name))):
            identity = f"{name}:{number}"
            if isinstance(page, Drop):
                yield Document("", identity, metadata={"url": ""}), page
            else:
                yield self._document(identity, *page)

    def _blocks(self, name: str) -> Iterator[bytes | Drop]:
        with self.open(name) as stream:
            for piece in pieces(stream):
                if isinstance(piece, bytes):
                    yield piece
                elif piece.is_loss:
                    yield Drop("broken_compression", piece.value)
                    return

    def _document(self, identity: str, page: Element, dump: "_Dump") -> Record:
        title, revision = _value(page, "title"), _children(page, "revision")[-1:]
        markup, date = (_value(revision[0], field) if revision else "" for field in ("text", "timestamp"))
        url = f"{dump.url}{quote(title.replace(' ', '_'))}" if dump.url else ""
        metadata = {"url": url, "source_id": _value(page, "id"), "date": date, "extra": {"title": title}}
        drop, text = self._unwanted(page, markup, dump), ""
        if drop is None:
            text = plain_text(markup, dump.silent_names, passages_alone=self.passages_alone)
            drop = None if text else Drop("no_text", "the page has no text")
        return Document(text, identity, metadata=metadata), drop

    def _unwanted(self, page: Element, markup: str, dump: "_Dump") -> Drop | None:
        namespace = _value(page, "ns") or dump.namespace_of(_value(page, "title"))
        if namespace != "0":
            return Drop("namespace", namespace)
        if _children(page, "redirect") or REDIRECT.match(markup):
            return Drop("redirect", markup[:VALUE_CHARACTERS].partition("[[")[2].partition("]]")[0])
        size = len(markup.encode(errors="replace"))
        return Drop("record_too_large", str(size)) if size > self.record_bytes else None


class _Dump:
    """A dump that is read: what its head says of the wiki, and its pages."""

    def __init__(self) -> None:
        self.url = ""
        """The beginning of the URL of each page."""
        self.names: dict[str, str] = {}
        """Number of a namespace → its name in the language of the wiki."""

    @functools.cached_property
    def silent_names(self) -> frozenset[str]:
        """Names of namespaces, in lower case, links to which show no text."""
        own = (self.names.get(str(number), "") for number in (FILE, CATEGORY))
        return frozenset({"file", "image", "category", *(name.lower() for name in own)} - {""})

    def namespace_of(self, title: str) -> str:
        """Returns the number of the namespace that ``title`` begins with, for dumps that do not give it; else 0."""
        prefix = title.partition(":")[0]
        return next((number for number, name in self.names.items() if name and name == prefix), "0")

    def pages(self, blocks: Iterator[bytes | Drop]) -> Iterator[tuple[Element, "_Dump"] | Drop]:
        """Yields each page with this dump, and at last a Drop where the file is damaged."""
        parser: Any = XMLPullParser(["start", "end"])
        above: list[Element] = []
        for block in blocks:
            if isinstance(block, Drop):
                yield block
                return
            parser.feed(block)
            try:
                for event, element in cast(Iterator[tuple[str, Element]], parser.read_events()):
                    if event == "start":
                        above.append(element)
                        continue
                    above.pop()
                    yield from self._ended(element)
                    if len(above) == 1:
                        above[0].clear()  # what was read is not kept
            except ParseError as error:
                yield Drop("broken_file", str(error))
                return
        if above:
            yield Drop("broken_file", "the file ends inside a page or before its end")

    def _ended(self, element: Element) -> Iterator[tuple[Element, "_Dump"]]:
        match _tag(element):
            case "page":
                yield element, self
            case "base":
                self.url = (element.text or "").rpartition("/")[0] + "/" if element.text else ""
            case "namespace":
                self.names[element.get("key", "")] = element.text or ""


def _tag(element: Element) -> str:
    """Returns the name of an element without the version of the format, which is its namespace of XML."""
    return str(element.tag).rpartition("}")[2]


def _children(element: Element, tag: str) -> list[Element]:
    return [child for child in element if _tag(child) == tag]


def _value(element: Element, tag: str) -> str:
    """Returns the text of the first child ``tag``; empty if there is none."""
    return next((child.text or "" for child in _children(element, tag)), "")
