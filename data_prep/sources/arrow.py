"""Source of Arrow files, as Hugging Face ``datasets`` saves them: each row is one document.

    saved/train/state.json, data-00000-of-00002.arrow      a folder of ``save_to_disk``: streams of record batches
    rows.feather                                           the file format, which begins with ARROW1

    text | url | id   ->  Document(text, "<file>:<row>", {"url", "source_id"})

Every batch is validated before a value is read: pyarrow trusts offsets, and a wrong one would end the process.
"""

import io
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, ClassVar, Literal

import pyarrow
from datatrove.data import Document
from pyarrow import ipc

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.fields import FieldSource
from headrace.data_prep.sources.folder_logs import stale_files
from headrace.data_prep.sources.parquet import BROKEN, broken_file
from headrace.data_prep.sources.parquet_values import dictionaries, refuse_repeated
from headrace.data_prep.sources.source import ListedFile, Record
from headrace.pipeline.core.amounts import count
from headrace.pipeline.core.settings import settings
from headrace.pipeline.core.stage import RawFile

FILE_START = b"ARROW1"
"""The first bytes of the file format."""
STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The last bytes of a stream. The format does not require them, but a cut file is known by their absence: ``datasets``
and pyarrow always write them."""
BINARY = {pyarrow.string(): pyarrow.binary(), pyarrow.large_string(): pyarrow.large_binary()}
"""The types of texts, and those of their bytes."""


@settings
class Arrow(FieldSource):
    """Arrow files: streams and the file format (Feather V2). A file is read by one task.

    Drops: ``no_text``, ``not_utf8``, ``record_too_large``, and ``broken_file``, one record for all rows of a damaged
    batch, or for the rest of a damaged file. Files that ``datasets`` keeps as caches are not read, nor those that its
    state.json does not name.
    """

    compressions: ClassVar[tuple[str, ...]] = ()
    caches: ClassVar[str] = "cache-*.arrow"

    own_revision: ClassVar[int] = 3
    """In revision 2, the last of several columns or fields of one name was read."""
    type: Literal["arrow"] = "arrow"

    def suffixes(self) -> tuple[str, ...]:
        return (".arrow", ".arrows", ".feather")

    def stale(self, locations: Collection[str]) -> Iterator[str]:
        return stale_files(locations)

    def sections(self, file: ListedFile | RawFile, most_bytes: int) -> int:
        return 1

    def read(self, name: str) -> Iterator[Record]:
        number = 0
        with self.open(name) as stream:
            for batch in _batches(stream):
                if isinstance(batch, Drop):
                    yield Document("", f"{name}:{number}", metadata={"url": ""}), batch
                    number += 1
                    continue
                for row in dictionaries(batch):
                    yield self.document(f"{name}:{number}", row)
                    number += 1

    def first_rows(self, name: str) -> Iterator[dict[str, Any]]:
        with self.open(name) as stream:
            for batch in _batches(stream):
                if not isinstance(batch, Drop):
                    yield from dictionaries(batch)


class _Bounded(io.RawIOBase):
    """A file that is asked for no more bytes than it has: Python would allocate what a damaged length says."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = stream.seek(0, io.SEEK_END)
        stream.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def read(self, size: int = -1) -> bytes:
        rest = self._size - self._stream.tell()
        return self._stream.read(rest if size < 0 else min(size, max(rest, 0)))


def _batches(stream: BinaryIO) -> Iterator[pyarrow.RecordBatch | Drop]:
    """Yields the batches of a file whose values can be read, and a Drop for what damage has lost."""
    is_file = stream.read(len(FILE_START)) == FILE_START
    stream.seek(0)
    position = 0
    try:
        batches = _file_batches(stream) if is_file else _stream_batches(stream)
        for batch in batches:
            yield batch
            count(raw_bytes=stream.tell() - position)
            position = stream.tell()
    except BROKEN as error:
        yield broken_file(error)


def _stream_batches(stream: BinaryIO) -> Iterator[pyarrow.RecordBatch | Drop]:
    """Yields the batches of the streaming format.

    Raises:
        pyarrow.ArrowException: where no further batch can be read.
    """
    for batch in ipc.open_stream(pyarrow.PythonFile(_Bounded(stream), mode="r")):
        yield _sound(batch)
    end = stream.tell()
    stream.seek(max(0, end - len(STREAM_END)))
    if stream.read(len(STREAM_END)) != STREAM_END:
        raise pyarrow.ArrowInvalid("the stream has no end: the file is cut")


def _file_batches(stream: BinaryIO) -> Iterator[pyarrow.RecordBatch | Drop]:
    """Yields the batches of the file format, whose footer has their places.

    Raises:
        pyarrow.ArrowException: when the footer cannot be read.
    """
    reader = ipc.open_file(pyarrow.PythonFile(_Bounded(stream), mode="r"))
    for number in range(reader.num_record_batches):
        try:
            batch = reader.get_batch(number)
        except BROKEN as error:
            yield broken_file(error)
        else:
            yield _sound(batch)


def _sound(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch | Drop:
    """Returns ``batch`` with every value readable, texts that are not UTF-8 as bytes; else the Drop for its rows."""
    try:
        refuse_repeated(batch.schema.names)
        columns = [_sound_column(column) for column in batch.columns]
    except BROKEN as error:
        return broken_file(error)
    return pyarrow.RecordBatch.from_arrays(columns, batch.schema.names)


def _sound_column(column: pyarrow.Array) -> pyarrow.Array:
    try:
        column.validate(full=True)
    except pyarrow.ArrowInvalid:
        if column.type not in BINARY:
            raise
        column = column.view(BINARY[column.type])
        column.validate(full=True)
    return column
