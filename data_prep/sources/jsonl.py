"""JSON lines: one document a line.

{"text": "…", "url": "…", "id": "…"}  ->  Document(text, "<file>:<line>", {"url", "source_id"})
"""

import json
from collections.abc import Iterator
from typing import Any, Literal

import orjson
from datatrove.data import Document

from data_prep.document import Drop
from data_prep.sources.compression import Mark, pieces
from data_prep.sources.fields import FieldSource
from data_prep.sources.files import open_raw
from data_prep.sources.source import Record
from pipeline.core.settings import settings


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
        number = 0
        for line in self._lines(name):
            identity = f"{name}:{number}"
            if isinstance(line, Drop):
                yield Document("", identity, metadata={"url": ""}), line
            elif line.strip():
                yield self._document(identity, line)
            else:
                continue
            number += 1

    def _document(self, identity: str, line: bytes) -> Record:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = _loads(line)
        if not isinstance(row, dict):
            value = line[:80].decode("utf-8", "replace").strip()
            return Document("", identity, metadata={"url": ""}), Drop("not_json", value)
        return self.document(identity, row)

    def _lines(self, name: str) -> Iterator[bytes | Drop]:
        """Lines without their ends; a Drop for a line that is too long or lies in damaged bytes."""
        rest, dropped_bytes = b"", 0
        with open_raw(name) as stream:
            for piece in pieces(stream):
                if isinstance(piece, Mark):
                    if piece.is_loss:
                        yield Drop("broken_compression", piece.value)
                        rest, dropped_bytes = b"", 0
                    continue
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    size = dropped_bytes + len(line)
                    yield line if size <= self.record_bytes else Drop("record_too_large", str(size))
                    dropped_bytes = 0
                if dropped_bytes + len(rest) > self.record_bytes:
                    rest, dropped_bytes = b"", dropped_bytes + len(rest)
        if dropped_bytes:
            yield Drop("record_too_large", str(dropped_bytes + len(rest)))
        elif rest:
            yield rest


def _loads(line: bytes) -> Any:
    """JSON that only the standard library reads: with lone surrogates, which become U+FFFD later, or NaN."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
