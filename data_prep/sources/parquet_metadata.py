"""The metadata of a Parquet file: a check of it, and another reading.

Without the check, pyarrow may end the process: ``RowGroupMetaData.column`` lets errors of C++ through. On a column
whose statistics of sizes are damaged, the process aborts. A reader of the same column raises an error. So a reader of
all columns is made first, over a file without data.
"""

import io
from typing import BinaryIO

import pyarrow
from pyarrow import parquet

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
