"""Values of tables as Python values, the same in every environment, and the faults of their files.

    2^64 - 1, NaN, Decimal("1.50"), datetime, timedelta, bytes, lists, dictionaries     as pyarrow's ``as_py``
    a time with nanoseconds                                                             text
    a time outside Python's range                                                       its number and unit
    a time in an unknown zone                                                           the time in UTC
    text that is not UTF-8                                                              bytes
    an object with several fields of one name                                           list of pairs, as of a map

``as_py`` alone gives other values where pandas is installed, and cuts nanoseconds. Where it fails, for one item of a
list or one field of an object, the other items and fields are kept.

The metadata of a Parquet file is checked before it is asked. Without that, pyarrow may end the process:
``RowGroupMetaData.column`` lets errors of C++ through. On a column whose statistics of sizes are damaged, the process
aborts. A reader of the same column raises an error. So a reader of all columns is made first, over a file without data.
"""

import datetime
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow
from pyarrow import parquet, types

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.charset import sanitize

BROKEN = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
"""The errors that pyarrow raises on damaged files. An OSError with an errno is an error of the machine."""
MESSAGE_CHARACTERS = 300
FAILURES = (pyarrow.ArrowException, ValueError, OverflowError, KeyError)
"""The errors of ``as_py`` on values that Python does not have, and on text that is not UTF-8."""
NANOSECONDS = (pyarrow.timestamp("ns"), pyarrow.time64("ns"), pyarrow.duration("ns"))
TEXTS = (
    types.is_string,
    types.is_large_string,
    types.is_string_view,
    types.is_binary,
    types.is_large_binary,
    types.is_binary_view,
)
BINARY = {pyarrow.string(): pyarrow.binary(), pyarrow.large_string(): pyarrow.large_binary()}
"""The types of texts, and those of their bytes."""


def broken_file(error: Exception) -> Drop:
    """Returns the Drop for the rows that ``error`` lost. An error of the machine is raised again."""
    if getattr(error, "errno", None) is not None:
        raise error
    message = f"{type(error).__name__}: {error}"
    return Drop("broken_file", sanitize(" ".join(message.split()))[:MESSAGE_CHARACTERS])


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuses a table with several columns of one name: nothing says which one is meant.

    Raises:
        pyarrow.ArrowInvalid: with the name.
    """
    if repeated := [name for name, number in Counter(names).items() if number > 1]:
        raise pyarrow.ArrowInvalid(f"several columns are named {repeated[0]!r}")


def dictionaries(batch: pyarrow.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yields the rows of ``batch``."""
    values = [_exact if _has_nanoseconds(kind) else _value for kind in batch.schema.types]
    named = list(zip(batch.schema.names, batch.columns, values, strict=True))
    return ({key: value(column[i]) for key, column, value in named} for i in range(batch.num_rows))


def is_text(kind: pyarrow.DataType) -> bool:
    """Whether values of this type are texts or bytes of any length."""
    return any(is_kind(kind) for is_kind in TEXTS)


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except FAILURES:
        return _exact(scalar)


def _exact(scalar: Any) -> Any:
    """Converts a value part by part."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if types.is_dictionary(kind) or isinstance(kind, pyarrow.BaseExtensionType):
        return _value_within(scalar)
    if types.is_map(kind):
        return [(_exact(pair[0]), _exact(pair[1])) for pair in scalar.values]
    if types.is_nested(kind) and not types.is_struct(kind):
        return [_exact(item) for item in scalar.values]
    if types.is_struct(kind):
        fields = [(field.name, _exact(scalar[number])) for number, field in enumerate(kind)]
        return fields if len(dict(fields)) < len(fields) else dict(fields)
    if _has_nanoseconds(kind):
        return _time(scalar)
    try:
        return scalar.as_py()
    except FAILURES:
        return _foreign(scalar)


def _value_within(scalar: Any) -> Any:
    """Converts a value of a dictionary, or of an extension type: as Python has it, else as it is stored."""
    if not _has_nanoseconds(scalar.type):
        try:
            return scalar.as_py()
        except FAILURES:
            pass
    return _exact(scalar.value)


def _time(scalar: Any) -> Any:
    """Converts a time in nanoseconds: to microseconds where nothing is lost, else to text."""
    kind, nanoseconds = scalar.type, scalar.value
    if types.is_duration(kind):
        whole = nanoseconds % 1000 == 0
        return datetime.timedelta(microseconds=nanoseconds // 1000) if whole else f"{nanoseconds} ns"
    if nanoseconds % 1000:
        return _arrows_text(scalar)
    coarse = pyarrow.timestamp("us", kind.tz) if types.is_timestamp(kind) else pyarrow.time64("us")
    return _exact(scalar.cast(coarse))


def _foreign(scalar: Any) -> Any:
    """Converts a value that Python does not have; None if Arrow cannot write it either.

    Of a time outside Python's range the stored number is kept: Arrow's text of it has another year.
    """
    kind = scalar.type
    if is_text(kind):
        return scalar.cast(pyarrow.binary()).as_py()
    try:
        if types.is_timestamp(kind):
            return scalar.cast(pyarrow.timestamp(kind.unit, kind.tz and "UTC")).as_py()
        return scalar.cast(pyarrow.string()).as_py()
    except FAILURES:
        return f"{scalar.value} {kind.unit}" if types.is_timestamp(kind) else None


def _arrows_text(scalar: Any) -> str:
    """Returns a time as text; in UTC if its zone is not known."""
    try:
        text: str = scalar.cast(pyarrow.string()).as_py()
    except FAILURES:
        return _arrows_text(scalar.cast(pyarrow.timestamp("ns", "UTC")))
    return text


def _has_nanoseconds(kind: pyarrow.DataType) -> bool:
    """Whether a type is one of NANOSECONDS, in any zone, or holds one."""
    if types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    if types.is_dictionary(kind):
        return _has_nanoseconds(kind.value_type)
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _has_nanoseconds(kind.storage_type)
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return kind in NANOSECONDS or any(map(_has_nanoseconds, inner))


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
        if column.type not in BINARY:
            raise
        column = column.view(BINARY[column.type])
        column.validate(full=True)
    return column


class Bounded(io.RawIOBase):
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


class _WithoutData(Bounded):
    """A file of which nothing can be read."""

    def read(self, size: int = -1) -> bytes:
        raise _NoDataError


ARROW_SCHEMA = b"ARROW:schema"
"""The key of Arrow's own schema in the metadata."""


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
