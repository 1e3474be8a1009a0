"""Documents as a table, one column for each field, and its files: JSON lines, Parquet.

    {"id", "text", "metadata": {"url", "drop": {"rule", "value"}, "removed_lines": {"c4_lines.end_mark": 2}}}
      ──>  id │ text │ drop.rule │ drop.value │ removed_lines.c4_lines.end_mark │ url

Objects become columns with dotted names, as ``pandas.json_normalize`` makes them. Every row has every column, so the
documents are read twice: once for the names and types of the columns, once for the rows. Values of one column that
have no common type (a text here, an object there; a fraction here, a whole number there that a float would round)
become their JSON text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow
from datatrove.data import Document
from pyarrow import parquet

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.text_files import created

FIRST = ("id", "text")
"""The columns that come first and that every document has."""
EXTRA = "extra"
"""Metadata with the fields of a record that no setting names."""
NESTED = 3
"""The depth of objects that become columns. Deeper ones become JSON text."""
MAX_COLUMNS = 1_000
GROUP_BYTES = 64_000_000
GROUP_ROWS = 10_000
"""A row group of a Parquet file has at most this many rows, and about GROUP_BYTES of text."""
JSON_TEXT = pyarrow.large_string()
"""The type of a column whose values have no common type. It is written as a string."""

LARGE = pyarrow.uint64()
"""The type of a column with whole numbers that floats would round. It is written as int64."""

TableRow = dict[str, Any]


def flat(document: Document) -> TableRow:
    """Returns ``document`` as a row, without the values that are null."""
    metadata = document.metadata
    if isinstance(extra := metadata.get(EXTRA), dict):
        metadata = {**metadata, EXTRA: _prefixed_once(extra)}
    fields = dict(_leaves(metadata, "", 1))
    clashes = {f"metadata.{name}": fields.pop(name) for name in FIRST if name in fields}
    return {"id": document.id, "text": document.text, **fields, **clashes}


def _prefixed_once(extra: Mapping[str, Any]) -> TableRow:
    """Returns the fields ``extra`` without the prefix that they have if the source is an earlier table of ours."""
    bare = {name: name.removeprefix(f"{EXTRA}.") for name in extra}
    return {name if bare[name] in extra else bare[name]: value for name, value in extra.items()}


def _leaves(values: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and depth < NESTED:
            yield from _leaves(value, f"{prefix}{key}.", depth + 1)
        elif value is not None:
            yield f"{prefix}{key}", value


def columns_of(rows: Iterable[TableRow]) -> dict[str, pyarrow.DataType]:
    """Returns the names and types of the columns that hold ``rows``.

    Raises:
        ConfigError: when there are more than ``MAX_COLUMNS``.
    """
    types: dict[str, pyarrow.DataType] = dict.fromkeys(FIRST, pyarrow.string())
    for row in rows:
        for name, value in row.items():
            types[name] = _common(types.get(name, pyarrow.null()), _type_of(value))
        if len(types) > MAX_COLUMNS:
            problem = f"the documents have more than {MAX_COLUMNS:,} fields, such as {list(types)[-1]!r}"
            raise ConfigError("export", problem, "choose a --rule, or keep fewer fields (source.extra_field_bytes)")
    rest = sorted(types.keys() - set(FIRST))
    return {name: types[name] for name in (*FIRST, *rest)}


def _type_of(value: Any) -> pyarrow.DataType:
    if isinstance(value, bool):
        return pyarrow.bool_()
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            return JSON_TEXT
        return pyarrow.int64() if int(float(value)) == value else LARGE
    if isinstance(value, float):
        return pyarrow.float64()
    if isinstance(value, str):
        return pyarrow.string()
    if isinstance(value, list):
        items = pyarrow.null()
        for item in value:
            items = _common(items, _type_of(item))
        return JSON_TEXT if items == JSON_TEXT else pyarrow.list_(items)
    return pyarrow.null() if value is None else JSON_TEXT


def _common(first: pyarrow.DataType, other: pyarrow.DataType) -> pyarrow.DataType:
    """Returns the type that holds the values of both types."""
    if first == other or pyarrow.types.is_null(other):
        return first
    if pyarrow.types.is_null(first):
        return other
    kinds = {first, other}
    if kinds == {pyarrow.int64(), pyarrow.float64()}:
        return pyarrow.float64()
    if kinds == {pyarrow.int64(), LARGE}:
        return LARGE
    if pyarrow.types.is_list(first) and pyarrow.types.is_list(other):
        items = _common(first.value_type, other.value_type)
        return JSON_TEXT if items == JSON_TEXT else pyarrow.list_(items)
    return JSON_TEXT


def arrow_table(rows: Sequence[TableRow], names: Sequence[str]) -> pyarrow.Table:
    """Returns ``rows`` as a table with the columns ``names``, which every row has."""
    columns: dict[str, pyarrow.DataType] = dict.fromkeys(names, pyarrow.null())
    for row in rows:
        for name in names:
            columns[name] = _common(columns[name], _type_of(row[name]))
    return pyarrow.Table.from_pylist([filled(row, columns) for row in rows], schema_of(columns))


def write_rows(path: Path, name: str, columns: Mapping[str, pyarrow.DataType], rows: Iterable[TableRow]) -> int:
    """Writes ``rows`` to ``path`` in the format that the suffix of ``name`` names; returns their number."""
    full = (filled(row, columns) for row in rows)
    if name.endswith(".parquet"):
        return _write_parquet(path, columns, full)
    count = 0
    with created(path, name) as stream:
        for row in full:
            stream.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            count += 1
    return count


def filled(row: TableRow, columns: Mapping[str, pyarrow.DataType]) -> TableRow:
    """Returns ``row`` with all ``columns``, null where it has none."""
    return {name: _cell(row.get(name), kind) for name, kind in columns.items()}


def _cell(value: Any, kind: pyarrow.DataType) -> Any:
    if value is None:
        return None
    if kind == JSON_TEXT:
        return orjson.dumps(value).decode()
    if pyarrow.types.is_list(kind):
        return [_cell(item, kind.value_type) for item in value]
    return float(value) if kind == pyarrow.float64() else value


def _write_parquet(path: Path, columns: Mapping[str, pyarrow.DataType], rows: Iterable[TableRow]) -> int:
    count, schema = 0, schema_of(columns)
    with parquet_writer(path, schema) as writer:
        for group in _groups(rows):
            writer.write_table(pyarrow.Table.from_pylist(group, schema))
            count += len(group)
    return count


def schema_of(columns: Mapping[str, pyarrow.DataType]) -> pyarrow.Schema:
    """Returns ``columns`` as the schema of a file or table."""
    return pyarrow.schema([(name, _stored(kind)) for name, kind in columns.items()])


def json_columns(columns: Mapping[str, pyarrow.DataType]) -> list[str]:
    """Returns the names of the ``columns`` that hold JSON text, because their values have no common type."""
    return [name for name, kind in columns.items() if kind == JSON_TEXT]


def _stored(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Returns the type that a column of ``kind`` has in a file or table; a column without any value has texts."""
    if pyarrow.types.is_list(kind):
        return pyarrow.list_(_stored(kind.value_type))
    if kind == LARGE:
        return pyarrow.int64()
    return pyarrow.string() if kind == JSON_TEXT or pyarrow.types.is_null(kind) else kind


def _groups(rows: Iterable[TableRow]) -> Iterator[list[TableRow]]:
    """Yields ``rows`` in groups of at most GROUP_ROWS rows and about GROUP_BYTES."""
    group, size = list[TableRow](), 0
    for row in rows:
        group.append(row)
        size += len(row.get("text") or "")
        if size >= GROUP_BYTES or len(group) == GROUP_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def parquet_writer(path: Path, schema: pyarrow.Schema) -> parquet.ParquetWriter:
    """Opens the new file ``path``, a context manager, for tables with ``schema``; each becomes a row group."""
    return parquet.ParquetWriter(path, schema, compression="zstd")
