"""Source of JSON lines: each line is one document.

{"text": "…", "url": "…", "id": "…"}  ->  Document(text, "<file>:<line>", {"url", "source_id"})
"""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, ClassVar, Literal

import orjson
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.damaged_files import Mark, RawPiece, is_compressed, pieces
from headrace.data_prep.sources.fields import FASTTEXT, FieldSource, is_rounded, value_at
from headrace.data_prep.sources.page_bytes import sanitize
from headrace.data_prep.sources.source import OTHER_FORMAT, Record, Section
from headrace.pipeline.core.compression import PIECE_BYTES
from headrace.pipeline.core.json_files import repeated_names
from headrace.pipeline.core.progress import count
from headrace.pipeline.core.settings import settings

REPEATED = "repeated_names"
"""Metadata of a document whose object, or one inside it, has a name twice: these names. The last value is read."""
REPEATED_CHARACTERS = 300


@settings
class Jsonl(FieldSource):
    """JSON lines files, plain or compressed.

    Drops: ``not_json``, ``not_an_object`` (value: the first characters of the line), ``not_utf8`` (the byte, then the
    same), ``no_text``, ``record_too_large``, ``broken_compression``. Empty lines are not records.
    """

    other_format: ClassVar[frozenset[str]] = OTHER_FORMAT | {"not_an_object", "not_utf8"}
    own_revision: ClassVar[int] = 3
    """In revision 2, the last of several fields of one name was read without a word."""
    type: Literal["jsonl"] = "jsonl"

    def suffixes(self) -> tuple[str, ...]:
        return (".jsonl", ".ndjson", ".json")

    def read(self, name: str) -> Iterator[Record]:
        return self.read_section(Section(name, 0), 0)

    def read_section(self, section: Section, first: int) -> Iterator[Record]:
        for number, line in enumerate(self._records(section), first):
            identity = f"{section.name}:{number}"
            if isinstance(line, Drop):
                yield Document("", identity, metadata={"url": ""}), line
            else:
                yield self._document(identity, line)

    def count(self, section: Section) -> int:
        return sum(1 for _ in self._records(section))

    def _records(self, section: Section) -> Iterator[bytes | Drop]:
        return (line for line in self._lines(section) if isinstance(line, Drop) or line.strip())

    def first_rows(self, name: str) -> Iterator[Mapping[str, Any]]:
        lines = self._records(Section(name, 0))
        rows = (parsed(line) for line in lines if not isinstance(line, Drop))
        return (row for row in rows if isinstance(row, dict))

    def _document(self, identity: str, line: bytes) -> Record:
        row = parsed(line)
        if isinstance(row, Drop):
            return Document("", identity, metadata={"url": ""}), row
        record = self.document(identity, row)
        values = (value_at(row, field) for field in self.metadata_fields.values())
        floats = [value for value in values if isinstance(value, float)]
        if is_rounded(record[0].metadata.get("extra")) or is_rounded(floats):
            record = self.document(identity, parsed(line, exactly=True))
        if repeated := repeated_names(line, row):
            record[0].metadata[REPEATED] = sanitize(", ".join(repeated))[:REPEATED_CHARACTERS]
        return record

    def _lines(self, section: Section) -> Iterator[bytes | Drop]:
        """Yields lines without line ends, and a Drop for a line that is too long or damaged."""
        line, size = list[bytes](), 0
        with self.open(section.name) as stream:
            for piece in section_pieces(stream, section):
                if isinstance(piece, Mark):
                    if piece.is_loss:
                        yield Drop("broken_compression", piece.value)
                        line, size = [], 0
                    continue
                for number, part in enumerate(piece.split(b"\n")):
                    if number:
                        yield self._whole(line, size)
                        line, size = [], 0
                    size += len(part)
                    if size <= self.record_bytes:
                        line.append(part)
                    else:
                        line.clear()
        if size:
            yield self._whole(line, size)

    def _whole(self, parts: list[bytes], size: int) -> bytes | Drop:
        """Joins the ``parts`` of a line of ``size`` bytes. Parts of a line that is too long were not kept."""
        return b"".join(parts) if size <= self.record_bytes else Drop("record_too_large", str(size))


def section_pieces(stream: BinaryIO, section: Section) -> Iterator[RawPiece]:
    """Yields blocks of the lines that begin in ``section``. In a compressed file all lines belong to section 0."""
    if section.of == 1:
        return pieces(stream)
    if is_compressed(stream):
        return pieces(stream) if section.number == 0 else iter(())
    return plain_lines(stream, section.start, section.end)


def plain_lines(stream: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """Yields blocks of the lines of ``stream`` whose first bytes are in [start, end), and of no other lines."""
    position = _after_line_feed(stream, start - 1, end - 1) if start else 0
    if position is None:
        return
    last = _after_line_feed(stream, end - 1, sys.maxsize) or sys.maxsize
    stream.seek(position)
    while block := stream.read(min(PIECE_BYTES, last - position)):
        position += len(block)
        count(raw_bytes=len(block))
        yield block


def _after_line_feed(stream: BinaryIO, start: int, end: int) -> int | None:
    """Returns the offset after the first line feed in [start, end), or None."""
    stream.seek(start)
    while block := stream.read(min(PIECE_BYTES, end - start)):
        if (feed := block.find(b"\n")) >= 0:
            return start + feed + 1
        start += len(block)
    return None


def parsed(line: bytes, exactly: bool = False) -> Any:
    """Parses an object; returns a Drop when the line is none. Whole numbers of more than 64 bits are rounded to floats.

    The standard library parses what orjson does not, or all of it ``exactly``: whole numbers of up to 4,300 digits, NaN
    and lone surrogates.
    """
    try:
        row = json.loads(line) if exactly else orjson.loads(line)
    except (ValueError, RecursionError):
        return _no_json(line) if exactly else parsed(line, exactly=True)
    return row if isinstance(row, dict) else Drop("not_an_object", _beginning(line))


def _no_json(line: bytes) -> Drop:
    """Returns why a line that is not JSON is dropped."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return Drop("not_utf8", f"byte {error.start} of the line: {_beginning(line)}")
    return Drop("not_json", _beginning(line))


def _beginning(line: bytes) -> str:
    return line[:80].decode("utf-8", "replace").strip()


@settings
class TextLines(Jsonl):
    """Lines of text in UTF-8, plain or compressed. Blank lines are no records.

    Drops: ``not_utf8``, ``no_text`` (a label alone), and what JSON lines drop for their length and compression.
    """

    def suffixes(self) -> tuple[str, ...]:
        return (".txt",)

    def check(self, names: object) -> None:
        """Accepts all files: a line of text has no fields."""

    def _document(self, identity: str, line: bytes) -> Record:
        document = Document("", identity)
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            return document, Drop("not_utf8", f"byte {error.start}")
        if text.startswith(FASTTEXT):
            label, _, text = text.partition(" ")
            document.metadata["extra"] = {FASTTEXT: label.removeprefix(FASTTEXT)}
        document.text = text.strip()
        return document, None if document.text else Drop("no_text", "")
