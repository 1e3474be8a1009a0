"""Base class of sources whose records have named fields (JSON objects, Parquet rows)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.charset import decode, sanitize
from headrace.data_prep.sources.extraction import Extractor, extract, require_extractor
from headrace.data_prep.sources.files import COMPRESSIONS, FileSource
from headrace.data_prep.sources.source import ListedFile, Record
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive
from headrace.pipeline.core.stage import RawFile

MAX_SECTIONS = 65_536
"""Sections of one file. With the default section_bytes, a file of 4 TB has as many."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldSource(FileSource):
    """A source of rows. Its settings name the fields that become the document."""

    text_field: str = "text"
    """Field with the text. It is not read if ``html_field`` is set."""
    html_field: str | None = None
    """Field with HTML from which the text is extracted; None: ``text_field`` is read."""
    url_field: str = "url"
    """Field with the URL. It may be absent."""
    id_field: str = "id"
    """Field that is stored as metadata ``source_id``. It may be absent. The document's id is ``<file>:<record>``."""
    date_field: str = "date"
    """Field with the date. It may be absent."""
    record_bytes: Positive = 20_000_000
    """Rows with more text or HTML than this are dropped."""
    extractor: Extractor = "resiliparse"
    """Program that extracts text from HTML; see benchmarks/html_extraction.py."""
    section_bytes: Positive = 64_000_000
    """Size of a section, less for small inputs (``piece_bytes``). A file is read in as many sections of at least this
    size as fit, each a task of its own."""

    def __post_init__(self) -> None:
        if self.html_field is not None:
            require_extractor(self.extractor)

    @property
    def extracts(self) -> bool:
        return self.html_field is not None

    def sections(self, file: ListedFile | RawFile, most_bytes: int) -> int:
        """Returns the number of sections of ``file``: 1 if its name shows that it is compressed.

        Raises:
            ConfigError: when there would be more than ``MAX_SECTIONS``.
        """
        is_compressed = file.name.lower().endswith(COMPRESSIONS[1:])
        sections = 1 if is_compressed else max(1, file.bytes // min(self.section_bytes, most_bytes))
        if sections > MAX_SECTIONS:
            wrong = f"{self.section_bytes:,} cuts {file.name!r} into {sections:,} tasks"
            least = file.bytes // MAX_SECTIONS + 1
            raise ConfigError("source.section_bytes", wrong, f"give at least {least:,}")
        return sections

    def document(self, identity: str, row: Mapping[str, Any]) -> Record:
        """Makes the document of ``row``. It is dropped as ``no_text`` if the field is absent, empty or not a string."""
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
            text = sanitize(value) if self.html_field is None else extract(sanitize(value), self.extractor)
        if isinstance(text, Drop):
            return Document("", identity, metadata=metadata), text
        if not text.strip():
            why = f"field {field!r} is " + ("absent" if value is None else "empty" if value == "" else _kind(value))
            return Document("", identity, metadata=metadata), Drop("no_text", why)
        return Document(text, identity, metadata=metadata), None


def _kind(value: object) -> str:
    return "without text" if isinstance(value, str) else f"a {type(value).__name__}"


def _string(value: object) -> str:
    """Returns ``value`` as text; empty for lists and objects, which may nest deeper than ``str`` can print."""
    return "" if value is None or isinstance(value, (dict, list)) else sanitize(str(value))
