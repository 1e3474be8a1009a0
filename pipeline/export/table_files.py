"""Files of Arrow tables: Parquet, and Arrow's stream as Hugging Face datasets keeps it on disk.

table ──> 00000.parquet        a row group for each table, zstd
      ──> 00000.arrow          record batches of at most BATCH_ROWS
"""

from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import ipc, parquet

BATCH_ROWS = 1_000
"""Rows of a record batch, as ``datasets`` writes them: it reads a whole batch to get one row."""


class _Stream:
    """A file in Arrow's streaming format."""

    def __init__(self, path: Path, schema: pyarrow.Schema) -> None:
        self._writer = ipc.new_stream(str(path), schema)

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write_table(self, table: pyarrow.Table) -> None:
        self._writer.write_table(table, max_chunksize=BATCH_ROWS)


def table_writer(path: Path, schema: pyarrow.Schema) -> Any:
    """Opens the new file ``path`` for tables with ``schema``, in the format that its suffix names.

    It is a context manager with ``write_table``.
    """
    return _Stream(path, schema) if path.suffix == ".arrow" else parquet.ParquetWriter(path, schema, compression="zstd")
