"""Documents as a folder of files of limited size: JSON lines or Parquet.

    rows ── split, split_by ──> parts ── groups ──> data/train/de/00000.parquet, data/validation/en/00000.parquet

A file ends with the group of rows that brings it to ``shard_bytes``, measured before compression: the JSON of its rows,
or their Arrow columns. A group is a row group of Parquet. Rows of all parts together wait for their group in about
``WAITING_BYTES``; when they have more, the largest group is written.
"""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.text_files import created
from headrace.pipeline.papers.table_files import GROUP_BYTES, GROUP_ROWS, TableRow, filled, parquet_writer, schema_of

FORMATS = ("jsonl", "parquet")
MOST_PARTS = 256
"""The most values of the column that documents are split by: each part has an open file."""
NAME_BYTES = 200
"""The most bytes of the name of a part; file systems allow 255."""
WAITING_BYTES = 4 * GROUP_BYTES
SPLIT = "split"
"""The column of kept documents: ``train``, or ``validation`` for those that are held out."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The name of the part of the documents without a value, as Hive has it."""
JSON_SUFFIX = "jsonl.zst"


class DocumentFolder:
    """Writes rows to files below ``folder``."""

    def __init__(
        self,
        folder: Path,
        form: str,
        columns: Mapping[str, pyarrow.DataType],
        split_by: str,
        shard_bytes: int,
        has_splits: bool = False,
    ) -> None:
        """``has_splits``: rows have the column SPLIT, and each split is a folder above those of ``split_by``."""
        self._folder, self._form, self._columns = folder, form, columns
        self._split_by, self._shard_bytes, self._has_splits = split_by, shard_bytes, has_splits
        self._parts: dict[str, _Part] = {}
        self._waiting_bytes = 0

    def write(self, rows: Iterable[TableRow]) -> dict[str, int]:
        """Writes ``rows``; returns the number of rows of each part, by the name of its folder.

        Raises:
            ConfigError: when the column of ``split_by`` has values that do not give names of folders, or too many.
        """
        with contextlib.ExitStack() as files:
            if not self._split_by:
                self._part("train" * self._has_splits, files)
            for row in rows:
                self._add(self._part(self._name(row), files), row)
            for part in self._parts.values():
                part.end()
        return {name: part.rows for name, part in sorted(self._parts.items())}

    def _name(self, row: TableRow) -> str:
        """Returns the name of the part that ``row`` belongs to."""
        split = [row[SPLIT]] if self._has_splits else []
        if not self._split_by:
            return "".join(split)
        value = row.get(self._split_by)
        if isinstance(value, list):
            raise ConfigError("--split-by", f"{self._split_by!r} has lists, such as {value!r}", "name another column")
        return "/".join([*split, part_name(NO_VALUE if value is None else str(value))])

    def _part(self, name: str, files: contextlib.ExitStack) -> "_Part":
        if name not in self._parts:
            if len(self._parts) == MOST_PARTS << self._has_splits:
                problem = f"{self._split_by!r} has more than {MOST_PARTS} values, such as {name!r}"
                raise ConfigError("--split-by", problem, "name a column with fewer values")
            part = _Part(self._folder / "data" / name, self._form, self._columns, self._shard_bytes)
            self._parts[name] = files.enter_context(contextlib.closing(part))
        return self._parts[name]

    def _add(self, part: "_Part", row: TableRow) -> None:
        self._waiting_bytes += part.add(row)
        if part.is_due:
            self._waiting_bytes -= part.flush()
        while self._waiting_bytes > WAITING_BYTES:
            self._waiting_bytes -= max(self._parts.values(), key=lambda other: other.waiting_bytes).flush()


def part_name(value: str) -> str:
    """Returns the name of the folder for the documents with ``value``.

    Raises:
        ConfigError: when the name would be too long.
    """
    name = quote(value, safe=" ").replace(".", "%2E")
    if len(name.encode()) > NAME_BYTES or not name:
        problem = f"{value[:NAME_BYTES]!r} gives no name of a folder"
        raise ConfigError("--split-by", problem, "name a column with short values")
    return name


class _Part:
    """The files of one part, written one after the other."""

    def __init__(self, folder: Path, form: str, columns: Mapping[str, pyarrow.DataType], shard_bytes: int) -> None:
        self._folder, self._form, self._columns, self._shard_bytes = folder, form, columns, shard_bytes
        self._group: list[TableRow] = []
        self._files = 0
        self._file = contextlib.ExitStack()
        self._sink: Any = None
        self._file_bytes = 0
        self.rows = self.waiting_bytes = 0
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, row: TableRow) -> int:
        """Adds ``row`` to the group that waits; returns its size, approximately."""
        size = sum(len(value) if isinstance(value, str) else 8 for value in row.values())
        self._group.append(row)
        self.waiting_bytes += size
        return size

    @property
    def is_due(self) -> bool:
        """Whether the group that waits has as many rows or bytes as a group may have."""
        return len(self._group) == GROUP_ROWS or self.waiting_bytes >= min(GROUP_BYTES, self._shard_bytes)

    def flush(self) -> int:
        """Writes the group that waits; returns the size of its rows as ``add`` gave it."""
        size = self.waiting_bytes
        self._file_bytes += self._written([filled(row, self._columns) for row in self._group])
        self.rows += len(self._group)
        self._group, self.waiting_bytes = [], 0
        if self._file_bytes >= self._shard_bytes:
            self.close()
        return size

    def end(self) -> None:
        """Writes what waits, at least one file."""
        if self._group or not self._files:
            self.flush()
        self.close()

    def close(self) -> None:
        """Ends the current file."""
        self._file.close()
        self._sink, self._file_bytes = None, 0

    def _written(self, rows: list[TableRow]) -> int:
        """Writes ``rows`` to the current file, or to a new one; returns their bytes before compression."""
        sink = self._sink = self._sink or self._opened()
        if self._form == "jsonl":
            lines = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
            sink.write(lines)
            return len(lines)
        table = pyarrow.Table.from_pylist(rows, schema_of(self._columns))
        sink.write_table(table)
        return int(table.nbytes)

    def _opened(self) -> Any:
        is_json = self._form == "jsonl"
        path = self._folder / f"{self._files:05d}.{JSON_SUFFIX if is_json else 'parquet'}"
        self._files += 1
        return self._file.enter_context(created(path) if is_json else parquet_writer(path, schema_of(self._columns)))
