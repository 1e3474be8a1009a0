"""Rows with named fields (JSON objects, Parquet rows) as documents."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.charset import clean, decode
from headrace.data_prep.sources.extraction import Extractor, extract, require
from headrace.data_prep.sources.files import COMPRESSIONS, FileSource
from headrace.data_prep.sources.source import ListedFile, Record
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive
from headrace.pipeline.core.stage import RawFile

MOST_SECTIONS = 65_536
"""Of one file: the default cuts 4 TB into so many."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldSource(FileSource):
    """Which fields of a row become the document."""

    text_field: str = "text"
    """The text. Not read when ``html_field`` is set."""
    html_field: str | None = None
    """HTML to extract the text from."""
    url_field: str = "url"
    """Where the text comes from; absent is allowed."""
    id_field: str = "id"
    """Kept as metadata ``source_id``; the document's own id is always ``<file>:<record>``. Absent is allowed."""
    date_field: str = "date"
    """Absent is allowed."""
    record_bytes: Positive = 20_000_000
    """Rows with more text or HTML than this are dropped."""
    extractor: Extractor = "resiliparse"
    """What turns HTML into text; see benchmarks/html_extraction.py."""
    section_bytes: Positive = 64_000_000
    """A file is cut into as many sections of at least this many bytes as it has room for, each a task of its own."""

    def __post_init__(self) -> None:
        if self.html_field is not None:
            require(self.extractor)

    def sections(self, file: ListedFile | RawFile) -> int:
        """Only what is not compressed can be read from anywhere; the name tells.

        Raises:
            ConfigError: when there would be more than ``MOST_SECTIONS``.
        """
        is_compressed = file.name.lower().endswith(COMPRESSIONS[1:])
        sections = 1 if is_compressed else max(1, file.bytes // self.section_bytes)
        if sections > MOST_SECTIONS:
            wrong = f"{self.section_bytes:,} cuts {file.name!r} into {sections:,} tasks"
            least = file.bytes // MOST_SECTIONS + 1
            raise ConfigError("source.section_bytes", wrong, f"give at least {least:,}")
        return sections

    def document(self, identity: str, row: Mapping[str, Any]) -> Record:
        """The document of ``row``, dropped as ``no_text`` when the field is absent, empty or no string."""
        metadata = {"url": _string(row.get(self.url_field))}
        for key, field in (("date", self.date_field), ("source_id", self.id_field)):
            if row.get(field) is not None:
                metadata[key] = _string(row[field])
        field = self.text_field if self.html_field is None else self.html_field
        value = row.get(field)
        text: str | Drop = ""
        if isinstance(value, bytes):
            value = decode(value)
        if isinstance(value, str):
            if len(value) > self.record_bytes:
                return Document("", identity, metadata=metadata), Drop("record_too_large", str(len(value)))
            text = clean(value) if self.html_field is None else extract(clean(value), self.extractor)
        if isinstance(text, Drop):
            return Document("", identity, metadata=metadata), text
        if not text.strip():
            why = f"field {field!r} is " + ("absent" if value is None else "empty" if value == "" else _kind(value))
            return Document("", identity, metadata=metadata), Drop("no_text", why)
        return Document(text, identity, metadata=metadata), None


def _kind(value: object) -> str:
    return "without text" if isinstance(value, str) else f"a {type(value).__name__}"


def _string(value: object) -> str:
    """``value`` as text; none for lists and objects, which mean nothing here and may nest beyond what str takes."""
    return "" if value is None or isinstance(value, (dict, list)) else clean(str(value))
