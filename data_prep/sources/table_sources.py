"""Sources of tables, Parquet and Arrow as Hugging Face ``datasets`` saves them: each row is one document.

    saved/train/state.json, data-00000-of-00002.arrow      a folder of ``save_to_disk``: streams of record batches
    rows.feather                                           the file format, which begins with ARROW1

    text | url | id   ->  Document(text, "<file>:<row>", {"url", "source_id"})

Parquet is read by row groups and batches. Every batch of Arrow is validated before a value is read: pyarrow trusts
offsets, and a wrong one would end the process.
"""

import dataclasses
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, ClassVar, Literal

import fsspec
import pyarrow
from datatrove.data import Document
from pyarrow import ipc, parquet

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.fields import FieldSource
from headrace.data_prep.sources.source import CHECKED_RECORDS, ListedFile, Record, Section
from headrace.data_prep.sources.table_values import (
    BROKEN,
    Bounded,
    broken_file,
    dictionaries,
    is_text,
    refuse_repeated,
    sound,
    whole_groups,
    without_arrow_schema,
)
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.progress import count
from headrace.pipeline.core.settings import Positive, settings, unhashed
from headrace.pipeline.core.stage import RawFile

PLAIN_ROWS = 64
"""The most rows that are decoded at a time of texts that are not held as dictionaries: a value may be much larger than
the sizes in the file, because its encoding shares beginnings with other values."""
BATCH_BYTES = 64_000_000
"""Bytes that are decoded at a time when rows are large."""
FILE_START = b"ARROW1"
"""The first bytes of the file format."""
STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The last bytes of a stream. The format does not require them, but a cut file is known by their absence: ``datasets``
and pyarrow always write them."""


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
    for batch in ipc.open_stream(pyarrow.PythonFile(Bounded(stream), mode="r")):
        yield sound(batch)
    end = stream.tell()
    stream.seek(max(0, end - len(STREAM_END)))
    if stream.read(len(STREAM_END)) != STREAM_END:
        raise pyarrow.ArrowInvalid("the stream has no end: the file is cut")


def _file_batches(stream: BinaryIO) -> Iterator[pyarrow.RecordBatch | Drop]:
    """Yields the batches of the file format, whose footer has their places.

    Raises:
        pyarrow.ArrowException: when the footer cannot be read.
    """
    reader = ipc.open_file(pyarrow.PythonFile(Bounded(stream), mode="r"))
    for number in range(reader.num_record_batches):
        try:
            batch = reader.get_batch(number)
        except BROKEN as error:
            yield broken_file(error)
        else:
            yield sound(batch)


STATE = "state.json"


def stale_files(locations: Collection[str]) -> Iterator[str]:
    """Yields those of ``locations`` that the state.json of their folder does not name: ``datasets`` never removes any.

    Raises:
        ConfigError: when a file that it names is missing, or not all rows of its files count.
    """
    by_folder = defaultdict[str, list[str]](list)
    for location in locations:
        by_folder[location.rpartition("/")[0]].append(location)
    for folder, inside in by_folder.items():
        if (names := _named(folder)) is not None:
            yield from (location for location in inside if location.rpartition("/")[2] not in names)


def _named(folder: str) -> set[str] | None:
    """Returns the names of the files of the data set in ``folder``; None: no state.json names them."""
    location = f"{folder}/{STATE}"
    system, path = fsspec.core.url_to_fs(location)
    if not system.exists(path):
        return None
    try:
        state = json.loads(system.cat_file(path))
        names = {str(file["filename"]) for file in state.get("_data_files") or ()}
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        problem = f"{location!r} cannot be read as a file of datasets ({type(error).__name__}: {error})"
        raise ConfigError("source.paths", problem, "save the data set again, or remove this file") from None
    if indices := [key for key, value in state.items() if key.startswith("_indices") and value]:
        problem = f"{location!r} chooses rows ({indices[0]})"
        raise ConfigError("source.paths", problem, "save the data set again with flatten_indices()")
    if missing := sorted(name for name in names if not system.exists(f"{path.removesuffix(STATE)}{name}")):
        problem = f"{location!r} names {missing[0]!r}, which is not there"
        raise ConfigError("source.paths", problem, "copy the whole folder, or save the data set again")
    return names or None
