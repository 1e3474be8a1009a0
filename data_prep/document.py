"""Documents and their shards on disk.

    documents/00007.jsonl.zst     one JSON object a line: {"id": …, "text": …, "metadata": {…}}

The line is datatrove's own JSON form, so datatrove's JsonlReader reads our shards and our reader reads datatrove's.
A document's id is ``<source file>:<record>`` and never changes. Shards are numbered by input shard, never by worker.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import zstandard
from datatrove.data import Document

LEVEL = 3
"""zstd's default: the speed of reading does not depend on it."""
SCRATCH_LEVEL = 1
"""For what is read once and removed: a third less time than the default for a tenth more bytes."""


@dataclass(frozen=True)
class Drop:
    """Why a document was dropped: the rule that decided and the value it saw (a line, a score, a count)."""

    rule: str
    value: str


class DocumentWriter:
    """Writes documents to one zstd JSONL shard; the same documents give the same bytes."""

    def __init__(self, path: Path, level: int = LEVEL) -> None:
        self._file = path.open("wb")
        self._stream = zstandard.ZstdCompressor(level=level).stream_writer(self._file, closefd=True)

    def write(self, document: Document) -> None:
        row = {"id": document.id, "text": document.text, "metadata": document.metadata}
        self._stream.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def copy(self, path: Path) -> None:
        """Write the documents of the shard at ``path``, as they are there."""
        for row in read_lines(path):
            self._stream.write(row + b"\n")

    def __enter__(self) -> "DocumentWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def read_documents(path: Path) -> Iterator[Document]:
    """The documents of one shard, in the order they were written."""
    for row in read_lines(path):
        record = orjson.loads(row)
        yield Document(text=record["text"], id=record["id"], metadata=record["metadata"])


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a zstd file, without their ends."""
    with io.BufferedReader(zstandard.open(path, "rb"), 1 << 20) as stream:
        for line in stream:
            yield line.rstrip(b"\n")


def write_documents(path: Path, documents: Iterable[Document]) -> int:
    """Write ``documents`` as one shard; the number written."""
    number = 0
    with DocumentWriter(path) as writer:
        for document in documents:
            writer.write(document)
            number += 1
    return number


def digest_of(text: str) -> bytes:
    """SHA-256 of ``text``: the identity that exact-duplicate removal and the validation split go by (32 bytes)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def split_id(identity: str) -> tuple[str, int | None]:
    """``pages.jsonl:2`` → its source file and record; the whole and None for what is not an id."""
    match = re.fullmatch(r"(.+):([0-9]{1,18})", identity, re.DOTALL)
    return (match[1], int(match[2])) if match else (identity, None)
