"""Sources of tables, Parquet and Arrow as Hugging Face ``datasets`` saves them: each row is one document.

    saved/train/state.json, data-00000-of-00002.arrow      a folder of ``save_to_disk``: streams of record batches
    rows.feather                                           the file format, which begins with ARROW1

    text | url | id   ->  Document(text, "<file>:<row>", {"url", "source_id"})

Parquet is read by row groups and batches. pyarrow trusts what is in a file, and a wrong offset or length would end the
process. So every batch of Arrow is validated before a value is read, and the metadata of Parquet before it is asked.
"""

import io
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO, ClassVar, Literal

import pyarrow
from datatrove.data import Document
from pyarrow import ipc, parquet, types

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.fields import FieldSource
from headrace.data_prep.sources.locations import file_system
from headrace.data_prep.sources.page_bytes import sanitize
from headrace.data_prep.sources.source import CHECKED_RECORDS, ListedFile, Record, Section
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.progress import count
from headrace.pipeline.core.settings import settings
from headrace.pipeline.core.stage import RawFile

BROKEN = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
"""The errors that pyarrow raises on damaged files. An OSError with an errno is an error of the machine."""
FAILURES = (pyarrow.ArrowException, ValueError, OverflowError, KeyError)
"""The errors of ``as_py`` on values that Python does not have, and on text that is not UTF-8."""
BATCH_ROWS = 64
"""The most rows that are decoded at a time: a value may be much larger than the sizes in the file, because a dictionary
or an encoding holds what values have in common once."""
BATCH_BYTES = 64_000_000
"""Bytes that are decoded at a time when rows are large."""
FILE_START = b"ARROW1"
"""The first bytes of the file format."""
STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The last bytes of a stream. The format does not require them, but a cut file is known by their absence: ``datasets``
and pyarrow always write them."""
STATE = "state.json"


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

    def suffixes(self) -> tuple[str, ...]:
        return (".parquet", ".pq")

    def read(self, name: str) -> Iterator[Record]:
        return self.read_section(Section(name, 0), 0)

    def read_section(self, section: Section, first: int) -> Iterator[Record]:
        with self.open(section.name) as stream:
            for number, row in self._rows(stream, section):
                identity = f"{section.name}:{first + number}"
                yield lost(identity, row) if isinstance(row, Drop) else self.document(identity, row)

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
            table = parquet.ParquetFile(stream)
            refuse_repeated(table.schema_arrow.names)
            columns, groups = self._wanted(table, stream), _groups(table.metadata, section)
        except BROKEN as error:
            if section.number == 0:
                yield 0, broken_file(error)
            return
        rows_at_once = _rows_at_once(table.metadata)
        first, row_bytes = 0, (section.end - section.start) / max(1, sum(rows for _, rows in groups))
        for group, rows in groups:
            done = 0
            try:
                for batch in table.iter_batches(rows_at_once, row_groups=[group], columns=columns):
                    count(raw_bytes=round(batch.num_rows * row_bytes))
                    for row in itertools.islice(dictionaries(batch), rows - done):
                        yield first + done, row
                        done += 1
            except BROKEN as error:
                yield first + done, broken_file(error)
            first += rows

    def _wanted(self, table: parquet.ParquetFile, stream: BinaryIO) -> list[str]:
        """Returns the columns to read: those with fields that settings name, and those for the metadata ``extra``."""
        named = self.named_fields - {self.text_field} | {self.read_field}
        roots = named | {field.partition(".")[0] for field in named}
        small = _small_columns(table, stream, self.extra_field_bytes)
        unread = {self.text_field} - {self.read_field}
        return [name for name in table.schema_arrow.names if name in roots or (name in small and name not in unread)]


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


def _rows_at_once(metadata: parquet.FileMetaData) -> int:
    """Returns the number of rows that have about BATCH_BYTES by the sizes in the file, at most BATCH_ROWS."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max(row_bytes, 1)))


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
        """Yields those of ``locations`` that the state.json of their folder does not name: ``datasets`` removes none.

        Raises:
            ConfigError: when a file that it names is missing.
        """
        by_folder = defaultdict[str, set[str]](set)
        for location in locations:
            folder, _, name = location.rpartition("/")
            by_folder[folder].add(name)
        for folder, inside in by_folder.items():
            if names := _named(f"{folder}/{STATE}"):
                yield from (f"{folder}/{name}" for name in inside - names)

    def sections(self, file: ListedFile | RawFile, most_bytes: int) -> int:
        return 1

    def read(self, name: str) -> Iterator[Record]:
        number = 0
        with self.open(name) as stream:
            for batch in _batches(stream):
                for row in [batch] if isinstance(batch, Drop) else dictionaries(batch):
                    identity = f"{name}:{number}"
                    yield lost(identity, row) if isinstance(row, Drop) else self.document(identity, row)
                    number += 1

    def first_rows(self, name: str) -> Iterator[dict[str, Any]]:
        with self.open(name) as stream:
            for batch in _batches(stream):
                if not isinstance(batch, Drop):
                    yield from dictionaries(batch)


def _named(location: str) -> set[str]:
    """Returns the names of the files of the data set whose state.json is at ``location``; none if there is none."""
    system, path = file_system(location)
    if not system.exists(path):
        return set()
    try:
        names = {str(file["filename"]) for file in json.loads(system.cat_file(path)).get("_data_files") or ()}
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        problem = f"{location!r} cannot be read as a file of datasets ({type(error).__name__}: {error})"
        raise ConfigError("source.paths", problem, "save the data set again, or remove this file") from None
    if missing := sorted(name for name in names if not system.exists(f"{path.removesuffix(STATE)}{name}")):
        problem = f"{location!r} names {missing[0]!r}, which is not there"
        raise ConfigError("source.paths", problem, "copy the whole folder, or save the data set again")
    return names


def _batches(stream: BinaryIO) -> Iterator[pyarrow.RecordBatch | Drop]:
    """Yields the batches of a file whose values can be read, and a Drop for what damage has lost."""
    is_file = stream.read(len(FILE_START)) == FILE_START
    stream.seek(0)
    position = 0
    try:
        for batch in _file_batches(stream) if is_file else _stream_batches(stream):
            yield batch
            count(raw_bytes=stream.tell() - position)
            position = stream.tell()
    except BROKEN as error:
        yield broken_file(error)


def _stream_batches(stream: BinaryIO) -> Iterator[pyarrow.RecordBatch | Drop]:
    """Yields the batches of the streaming format, and raises where no further one can be read."""
    for batch in ipc.open_stream(pyarrow.PythonFile(_Bounded(stream), mode="r")):
        yield sound(batch)
    end = stream.tell()
    stream.seek(max(0, end - len(STREAM_END)))
    if stream.read(len(STREAM_END)) != STREAM_END:
        raise pyarrow.ArrowInvalid("the stream has no end: the file is cut")


def _file_batches(stream: BinaryIO) -> Iterator[pyarrow.RecordBatch | Drop]:
    """Yields the batches of the file format, whose footer has their places, and raises without a footer."""
    reader = ipc.open_file(pyarrow.PythonFile(_Bounded(stream), mode="r"))
    for number in range(reader.num_record_batches):
        try:
            batch = reader.get_batch(number)
        except BROKEN as error:
            yield broken_file(error)
        else:
            yield sound(batch)


def lost(identity: str, drop: Drop) -> Record:
    """Returns the record that stands for rows that damage has lost."""
    return Document("", identity, metadata={"url": ""}), drop


def broken_file(error: Exception) -> Drop:
    """Returns the Drop for the rows that ``error`` lost. An error of the machine is raised again."""
    if getattr(error, "errno", None) is not None:
        raise error
    message = f"{type(error).__name__}: {error}"
    return Drop("broken_file", sanitize(" ".join(message.split()))[:300])


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuses a table with several columns of one name: nothing says which one is meant.

    Raises:
        pyarrow.ArrowInvalid: with the name.
    """
    if repeated := [name for name, number in Counter(names).items() if number > 1]:
        raise pyarrow.ArrowInvalid(f"several columns are named {repeated[0]!r}")


def dictionaries(batch: pyarrow.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yields the rows of ``batch`` as Python values.

    Times have microseconds: with nanoseconds they would be other objects where pandas is installed. A text that is not
    UTF-8 is bytes, an object with several fields of one name a list of pairs, a time outside Python's range its number
    and unit, and what else Python does not have is None.
    """
    kinds = [(column, _microseconds(column.type)) for column in batch.columns]
    columns = [column if column.type == kind else column.cast(kind, safe=False) for column, kind in kinds]
    named = list(zip(batch.schema.names, columns, strict=True))
    return ({name: _value(column[i]) for name, column in named} for i in range(batch.num_rows))


def _microseconds(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Returns the type ``kind``, or that of lists and objects, with microseconds in place of nanoseconds."""
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pyarrow.timestamp("us", kind.tz)
    if types.is_list(kind):
        return pyarrow.list_(kind.value_field.with_type(_microseconds(kind.value_type)))
    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_microseconds(field.type)) for field in kind])
    return {pyarrow.time64("ns"): pyarrow.time64("us"), pyarrow.duration("ns"): pyarrow.duration("us")}.get(kind, kind)


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except FAILURES:
        kind = scalar.type
    if types.is_struct(kind):
        fields = [(field.name, _value(scalar[number])) for number, field in enumerate(kind)]
        return fields if len(dict(fields)) < len(fields) else dict(fields)
    if types.is_nested(kind) and not types.is_map(kind):
        return [_value(item) for item in scalar.values]
    if types.is_timestamp(kind):
        return f"{scalar.value} {kind.unit}"
    try:
        return scalar.cast(pyarrow.binary()).as_py()
    except FAILURES:
        return None


def sound(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch | Drop:
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
        binary = {pyarrow.string(): pyarrow.binary(), pyarrow.large_string(): pyarrow.large_binary()}
        if column.type not in binary:
            raise
        column = column.view(binary[column.type])
        column.validate(full=True)
    return column


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


class _NoDataError(Exception):
    """The metadata is whole: the reader has come to the data."""


class _WithoutData(_Bounded):
    """A file of which nothing can be read."""

    def read(self, size: int = -1) -> bytes:
        raise _NoDataError


def whole_groups(table: parquet.ParquetFile, stream: BinaryIO) -> list[parquet.RowGroupMetaData]:
    """Returns the metadata of the row groups of ``table`` whose columns can be asked for; ``stream`` is its file.

    On a column whose statistics of sizes are damaged, ``RowGroupMetaData.column`` ends the process. A reader of the
    same column raises an error, so a reader of all columns is made first, over a file without data.
    """
    empty = pyarrow.PythonFile(_WithoutData(stream), mode="r")
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
