"""Documents and their shards on disk.

    documents/00007.jsonl.zst     one JSON object a line: {"id": …, "text": …, "metadata": {…}}

The line is datatrove's own JSON form, so datatrove's JsonlReader reads our shards and our reader reads datatrove's.
A document's id is ``<source file>:<record>`` and never changes. Shards are numbered by input shard, never by worker.
"""

import contextlib
import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from datatrove.data import Document

from headrace.pipeline.core.compression import LEVEL
from headrace.pipeline.core.progress import count
from headrace.pipeline.core.text_files import created, read_lines

DOCUMENTS = "jsonl.zst"
"""The suffix of document shards."""
FAST_LEVEL = 1
"""Compression level of scratch files and of ``texts``: a third less time for a tenth more bytes."""


@dataclass(frozen=True)
class Drop:
    """The reason why a document was dropped: the rule, and the value that it found (a line, a score, a count)."""

    rule: str
    value: str


class DocumentWriter:
    """Writes documents to one zstd JSONL shard. The same documents give the same bytes."""

    def __init__(self, path: Path, level: int = LEVEL) -> None:
        self._open = contextlib.ExitStack()
        self._stream = self._open.enter_context(created(path, DOCUMENTS, level))

    def write(self, document: Document) -> None:
        row = {"id": document.id, "text": document.text, "metadata": document.metadata}
        self._stream.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def copy_from(self, path: Path) -> None:
        """Copies all lines of the shard at ``path``."""
        for row in read_lines(path):
            self._stream.write(row + b"\n")

    def __enter__(self) -> "DocumentWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def read_documents(path: Path) -> Iterator[Document]:
    """Reads the documents of one shard, in the order in which they were written."""
    for row in read_lines(path):
        record = orjson.loads(row)
        count(records=1)
        yield Document(text=record["text"], id=record["id"], metadata=record["metadata"])


def document_ids(path: Path) -> Iterator[str]:
    """Reads the ids of the documents of one shard, in their order. The texts are not parsed."""
    for row in read_lines(path):
        yield orjson.loads(row.partition(b',"text":')[0].removeprefix(b'{"id":'))


def documents_named(path: Path, ids: Collection[str]) -> Iterator[Document]:
    """Yields the documents of one shard that have the ``ids``. Reading stops after the last one, no other is parsed."""
    missing = {b'{"id":' + orjson.dumps(identity) for identity in ids}
    for row in read_lines(path) if missing else ():
        if (start := row.partition(b',"text":')[0]) in missing:
            missing.remove(start)
            record = orjson.loads(row)
            yield Document(text=record["text"], id=record["id"], metadata=record["metadata"])
            if not missing:
                return


def digest_of(text: str) -> bytes:
    """Returns the SHA-256 of ``text`` (32 bytes). Equal digests make two documents exact duplicates."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def split_id(identity: str) -> tuple[str, int | None]:
    """Splits an id, ``pages.jsonl:2``, into source file and record. Returns (identity, None) for other strings."""
    match = re.fullmatch(r"(.+):([0-9]{1,18})", identity, re.DOTALL)
    return (match[1], int(match[2])) if match else (identity, None)
