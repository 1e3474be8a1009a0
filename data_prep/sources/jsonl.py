"""JSON lines: one document a line.

{"text": "…", "url": "…", "id": "…"}  ->  Document(text, "<file>:<line>", {"url", "source_id"})
"""

import json
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

import orjson
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.compression import PIECE_BYTES, Mark, Piece, is_compressed, pieces
from headrace.data_prep.sources.fields import FieldSource
from headrace.data_prep.sources.files import open_raw
from headrace.data_prep.sources.source import Record, Section
from headrace.pipeline.core.settings import settings


@settings
class Jsonl(FieldSource):
    """JSON lines files, plain, gzip, zstd or bz2.

    Drops: ``not_json`` (the line's first characters), ``no_text``, ``record_too_large``, ``broken_compression``. Empty
    lines are not records.
    """

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

    def _document(self, identity: str, line: bytes) -> Record:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = _loads(line)
        if not isinstance(row, dict):
            value = line[:80].decode("utf-8", "replace").strip()
            return Document("", identity, metadata={"url": ""}), Drop("not_json", value)
        return self.document(identity, row)

    def _lines(self, section: Section) -> Iterator[bytes | Drop]:
        """Lines without their ends; a Drop for a line that is too long or lies in damaged bytes."""
        line, size = list[bytes](), 0
        with open_raw(section.name) as stream:
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
        """The line of ``parts``, of which nothing was kept if it has too many bytes."""
        return b"".join(parts) if size <= self.record_bytes else Drop("record_too_large", str(size))


def section_pieces(stream: BinaryIO, section: Section) -> Iterator[Piece]:
    """The lines that begin in ``section``, as blocks; all lines of a compressed file begin in its first one."""
    if section.of == 1:
        return pieces(stream)
    if is_compressed(stream):
        return pieces(stream) if section.number == 0 else iter(())
    return plain_lines(stream, section.start, section.end)


def plain_lines(stream: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """The lines of ``stream`` whose first bytes lie in [start, end), as blocks; none is read that begins elsewhere."""
    place = _behind_feed(stream, start - 1, end - 1) if start else 0
    if place is None:
        return
    last = _behind_feed(stream, end - 1, sys.maxsize) or sys.maxsize
    stream.seek(place)
    while block := stream.read(min(PIECE_BYTES, last - place)):
        place += len(block)
        yield block


def _behind_feed(stream: BinaryIO, start: int, end: int) -> int | None:
    """The place behind the first line feed in [start, end)."""
    stream.seek(start)
    while block := stream.read(min(PIECE_BYTES, end - start)):
        if (feed := block.find(b"\n")) >= 0:
            return start + feed + 1
        start += len(block)
    return None


def _loads(line: bytes) -> Any:
    """JSON that only the standard library reads: with lone surrogates, which become U+FFFD later, or NaN."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
