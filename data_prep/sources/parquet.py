"""Source of Parquet tables: each row is one document. Tables are read by row groups and batches.

text | url | id   ->  Document(text, "<file>:<row>", {"url", "source_id"})

The metadata of a file is checked first. Without that, pyarrow may end the process: ``RowGroupMetaData.column`` lets
errors of C++ through. On a column whose statistics of sizes are damaged, the process aborts. A reader of the same
column raises an error. So a reader of all columns is made first, over a file without data.
"""

import dataclasses
import io
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Literal

import pyarrow
from datatrove.data import Document
from pyarrow import parquet

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.charset import sanitize
from headrace.data_prep.sources.fields import FieldSource
from headrace.data_prep.sources.parquet_values import dictionaries, is_text, refuse_repeated
from headrace.data_prep.sources.source import CHECKED_RECORDS, Record, Section
from headrace.pipeline.core.amounts import count
from headrace.pipeline.core.settings import Positive, settings, unhashed

BROKEN = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
"""The errors that pyarrow raises on damaged files. An OSError with an errno is an error of the machine."""
PLAIN_ROWS = 64
"""The most rows that are decoded at a time of texts that are not held as dictionaries: a value may be much larger than
the sizes in the file, because its encoding shares beginnings with other values."""
MESSAGE_CHARACTERS = 300
BATCH_BYTES = 64_000_000
"""Bytes that are decoded at a time when rows are large."""


@settings
class Parquet(FieldSource):
    """Parquet files.

    Drops: ``no_text``, ``not_utf8``, ``record_too_large``, and ``broken_file``, one record for all rows that a damaged
    row group (or the whole file) loses. The record has the number of the first lost row.
    """

    compressions: ClassVar[tuple[str, ...]] = ()

    own_revision: ClassVar[int] = 3
    """In revision 2, the last of several columns or fields of one name was read."""
    type: Literal["parquet"] = "parquet"
    batch_rows: Positive = unhashed(1000)
    """Rows that are decoded at a time. It limits memory and does not change the result."""

    def suffixes(self) -> tuple[str, ...]:
        return (".parquet", ".pq")

    def read(self, name: str) -> Iterator[Record]:
        return self.read_section(Section(name, 0), 0)

    def read_section(self, section: Section, first: int) -> Iterator[Record]:
        with self.open(section.name) as stream:
            for number, row in self._rows(stream, section):
                identity = f"{section.name}:{first + number}"
                if isinstance(row, Drop):
                    yield Document("", identity, metadata={"url": ""}), row
                else:
                    yield self.document(identity, row)

    def count(self, section: Section) -> int:
        count(raw_bytes=section.end - section.start)
        with self.open(section.name) as stream:
            try:
                return sum(rows for _, rows in _groups(parquet.ParquetFile(stream).metadata, section))
            except BROKEN as error:
                broken_file(error)
                return int(section.number == 0)

    def first_rows(self, name: str) -> Iterator[dict[str, Any]]:
        try:
            with self.open(name) as stream:
                table = parquet.ParquetFile(stream)
                refuse_repeated(table.schema_arrow.names)
                for batch in table.iter_batches(CHECKED_RECORDS):
                    yield from dictionaries(batch)
        except BROKEN as error:
            broken_file(error)

    def _rows(self, stream: BinaryIO, section: Section) -> Iterator[tuple[int, dict[str, Any] | Drop]]:
        """Yields the rows of ``section`` with their numbers in it, and a Drop for rows that damage has lost."""
        try:
            readers = self._readers(stream)
            groups = _groups(readers[0].table.metadata, section)
        except BROKEN as error:
            if section.number == 0:
                yield 0, broken_file(error)
            return
        first, row_bytes = 0, (section.end - section.start) / max(1, sum(rows for _, rows in groups))
        for group, rows in groups:
            done, damage = 0, None
            for reader in tuple(readers):
                try:
                    for row in itertools.islice(reader.rows(group, done, row_bytes), rows - done):
                        yield first + done, row
                        done += 1
                except BROKEN as error:
                    damage = broken_file(error)
                else:
                    readers = readers[readers.index(reader) :]
                    break
            else:
                yield first + done, damage or Drop("broken_file", "")
            first += rows

    def _readers(self, stream: BinaryIO) -> "list[_TableReader]":
        """Returns the ways to read a table, the first that succeeds counts.

        With texts as dictionaries, a value that occurs many times is held once. pyarrow cannot read the encodings
        DELTA_BYTE_ARRAY and DELTA_LENGTH_BYTE_ARRAY in this way, which Arrow's own schema may ask for, too.
        """
        table = parquet.ParquetFile(stream)
        refuse_repeated(table.schema_arrow.names)
        columns, batch_rows = self._wanted(table, stream), _rows_at_once(table.metadata, self.batch_rows)
        texts = [field.name for field in table.schema_arrow if is_text(field.type)]
        shared = parquet.ParquetFile(stream, metadata=table.metadata, read_dictionary=texts)
        bare = parquet.ParquetFile(stream, metadata=without_arrow_schema(stream))
        plain = [_TableReader(columns_table, columns, min(batch_rows, PLAIN_ROWS)) for columns_table in (table, bare)]
        return [_TableReader(shared, columns, batch_rows), *plain]

    def _wanted(self, table: parquet.ParquetFile, stream: BinaryIO) -> list[str]:
        """Returns the columns to read: those with fields that settings name, and those for the metadata ``extra``."""
        named = self.named_fields - {self.text_field} | {self.read_field}
        roots = named | {field.partition(".")[0] for field in named}
        small = _small_columns(table, stream, self.extra_field_bytes)
        unread = {self.text_field} - {self.read_field}
        return [name for name in table.schema_arrow.names if name in roots or (name in small and name not in unread)]


@dataclasses.dataclass(frozen=True)
class _TableReader:
    """A way to read ``table``: some of its columns, so many rows at a time."""

    table: parquet.ParquetFile
    columns: list[str]
    batch_rows: int

    def rows(self, group: int, first: int, row_bytes: float) -> Iterator[dict[str, Any]]:
        """Yields the rows of a row group as dictionaries, from row ``first`` on.

        For the progress, each takes ``row_bytes`` of the file.
        """
        for batch in self.table.iter_batches(self.batch_rows, row_groups=[group], columns=self.columns):
            rest = batch.slice(min(first, batch.num_rows))
            first -= batch.num_rows - rest.num_rows
            count(raw_bytes=round(rest.num_rows * row_bytes))
            yield from dictionaries(rest)


def broken_file(error: Exception) -> Drop:
    """Returns the Drop for the rows that ``error`` lost. An error of the machine is raised again."""
    if getattr(error, "errno", None) is not None:
        raise error
    message = f"{type(error).__name__}: {error}"
    return Drop("broken_file", sanitize(" ".join(message.split()))[:MESSAGE_CHARACTERS])


def _small_columns(table: parquet.ParquetFile, stream: BinaryIO, max_bytes: int) -> set[str]:
    """Returns the columns whose values have at most ``max_bytes`` on average; none for 0. Others are not read.

    Row groups with damaged metadata have no sizes; reading one drops its rows.
    """
    groups = whole_groups(table, stream) if max_bytes else []
    sizes: Counter[str] = Counter()
    for group in groups:
        for column in map(group.column, range(group.num_columns)):
            sizes[f"{column.path_in_schema}."] += column.total_uncompressed_size
    names = table.schema_arrow.names if max_bytes else []
    totals = {name: sum(size for path, size in sizes.items() if path.startswith(f"{name}.")) for name in names}
    return {name for name, total in totals.items() if total <= max_bytes * max(table.metadata.num_rows, 1)}


def _groups(metadata: parquet.FileMetaData, section: Section) -> list[tuple[int, int]]:
    """Returns the row groups of ``section`` with their stated rows. Of g groups, n sections have g / n each."""
    first, end = (metadata.num_row_groups * number // section.of for number in (section.number, section.number + 1))
    return [(group, max(metadata.row_group(group).num_rows, 0)) for group in range(first, end)]


def _rows_at_once(metadata: parquet.FileMetaData, max_rows: int) -> int:
    """Returns the number of rows that have about BATCH_BYTES by the sizes in the file, at most ``max_rows``."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(max_rows, BATCH_BYTES // max(row_bytes, 1)))


ARROW_SCHEMA = b"ARROW:schema"
"""The key of Arrow's own schema in the metadata."""


class _NoDataError(Exception):
    """The metadata is whole: the reader has come to the data."""


class _WithoutData(io.RawIOBase):
    """A file of ``size`` bytes of which nothing can be read."""

    def __init__(self, size: int) -> None:
        self._size, self._offset = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._offset = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._size}[whence]
        return self._offset

    def tell(self) -> int:
        return self._offset

    def read(self, size: int = -1) -> bytes:
        raise _NoDataError


def without_arrow_schema(stream: BinaryIO) -> parquet.FileMetaData:
    """Returns the metadata of the table in ``stream`` as if Arrow's own schema were not in it.

    Arrow reads a column that this schema calls a dictionary as one, and fails on texts in a DELTA encoding.
    """
    stream.seek(-8, io.SEEK_END)
    size = int.from_bytes(stream.read(4), "little")
    stream.seek(-8 - size, io.SEEK_END)
    footer = stream.read().replace(ARROW_SCHEMA, b"-" * len(ARROW_SCHEMA), 1)
    return parquet.read_metadata(io.BytesIO(b"PAR1" + footer))


def whole_groups(table: parquet.ParquetFile, stream: BinaryIO) -> list[parquet.RowGroupMetaData]:
    """Returns the metadata of the row groups of ``table`` whose columns can be asked for; ``stream`` is its file."""
    empty = pyarrow.PythonFile(_WithoutData(stream.seek(0, io.SEEK_END)), mode="r")
    reader = parquet.ParquetFile(empty, metadata=table.metadata, buffer_size=1 << 12)  # buffered: opens, then reads
    return [table.metadata.row_group(group) for group in range(table.num_row_groups) if _is_whole(reader, group)]


def _is_whole(reader: parquet.ParquetFile, group: int) -> bool:
    try:
        next(reader.iter_batches(1, row_groups=[group]), None)
    except _NoDataError:
        return True
    except (pyarrow.ArrowException, OSError):
        return False
    return True
