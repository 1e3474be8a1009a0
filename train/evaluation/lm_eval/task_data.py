"""Reads the records of a task's files, with the types that ``datasets`` gives them to lm-evaluation-harness.

    json       objects, one a line or in one list     pyarrow's types: a field that a record lacks is None
    csv        the first line names the fields        pandas's types (csv_cells.py)
    parquet    the file's types
    text       one line, one record: {"text": …}

All files of a task have the same fields with the same types. ``datasets`` converts those of later files to the types of
the first, in ways that depend on its version.
"""

import codecs
import csv
import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.text_files import opened, stored_path
from headrace.train.evaluation.lm_eval.csv_cells import typed
from headrace.train.evaluation.lm_eval.task_file import TaskFile
from headrace.train.evaluation.lm_eval.task_keys import DataFiles

RecordValues = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class RecordTable:
    """The records of one file."""

    types: Mapping[str, str]
    """Name of a field → its type."""
    rows: Sequence[RecordValues]


@dataclasses.dataclass(frozen=True)
class NamedRecord:
    """A record, and ``<file>:<number>`` with numbers from 1."""

    name: str
    values: RecordValues


def split_files(task: TaskFile, data: Path) -> dict[str, list[Path]]:
    """Returns the files of each split, found below the folder of the task's YAML or else below ``data``.

    Raises:
        ConfigError: when a file is missing, or two files have one name.
    """
    files = {split: [_found(task, name, data) for name in names] for split, names in task.data.paths.items()}
    names = [path.name for path in {path for paths in files.values() for path in paths}]
    if len(set(names)) < len(names):
        problem = f"{task.path}: two files of data_files have one name, but names distinguish their items"
        raise ConfigError("evaluation.yaml", problem, "rename one")
    return files


def _found(task: TaskFile, name: str, data: Path) -> Path:
    for folder in (task.path.parent, data):
        path = stored_path(folder / name)
        if path.is_file():
            return path
    remedy = "give a path below the YAML's folder or evaluation.data"
    raise ConfigError("evaluation.yaml", f"{task.path}: no file {name!r}", remedy)


def read_splits(task: TaskFile, data: Path) -> dict[str, list[NamedRecord]]:
    """Returns the records of each split of ``task``, in the order of its files.

    Raises:
        ConfigError: see ``split_files``; also when a split that the task names has no files.
        ArtifactError: naming a file that cannot be read, or whose fields are not those of the others.
    """
    files = split_files(task, data)
    for key, split in {**task.splits, "fewshot_config.split": task.worked.split}.items():
        if split is not None and split not in files:
            problem = f"{task.path}: {key} is {split!r}, and data_files has {', '.join(files)}"
            raise ConfigError("evaluation.yaml", problem, "name its files in data_files")
    tables = {path: read_table(path, task.data) for paths in files.values() for path in paths}
    _check_alike(tables)
    fields = next(iter(tables.values())).types
    return {split: [*_named(paths, tables, fields)] for split, paths in files.items()}


def _named(
    paths: Sequence[Path], tables: Mapping[Path, RecordTable], fields: Mapping[str, str]
) -> Iterator[NamedRecord]:
    for path in paths:
        for number, row in enumerate(tables[path].rows, start=1):
            yield NamedRecord(f"{path.name}:{number}", dict.fromkeys(fields) | dict(row))


def _check_alike(tables: Mapping[Path, RecordTable]) -> None:
    """Refuses a file with a field that the first file lacks, or has with another type."""
    (first, table), *others = tables.items()
    for path, other in others:
        for field, kind in other.types.items():
            if table.types.get(field) != kind:
                problem = f"field {field!r} is {kind} here and {table.types.get(field, 'absent')} in {first.name}"
                raise ArtifactError(str(path), problem, "give the files of a task the same fields and types")


def read_table(path: Path, source: DataFiles) -> RecordTable:
    """Returns the records of the file ``path``.

    Raises:
        ArtifactError: naming it when it cannot be read in this format, or has no records.
    """
    with opened(path) as stream:
        content = stream.read()
    readers: Mapping[str, Callable[[Path, bytes], RecordTable]] = {
        "json": _json,
        "parquet": _parquet,
        "text": _text,
        "csv": lambda path, content: _csv(path, content, source.separator),
    }
    table = readers[source.format](path, content)
    if not table.rows:
        raise ArtifactError(str(path), "holds no records", f"give a file of {source.format} with records")
    return table


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        problem = f"is not UTF-8 (byte {content[error.start]:#04x})"
        raise ArtifactError(f"{path}:{line}", problem, "convert the file to UTF-8") from None


def _text(path: Path, content: bytes) -> RecordTable:
    lines = io.StringIO(_decoded(path, content), newline=None)
    return RecordTable({"text": "string"}, [{"text": line.removesuffix("\n")} for line in lines])


def _parquet(path: Path, content: bytes) -> RecordTable:
    import pyarrow
    from pyarrow import parquet

    try:
        return _of_arrow(parquet.read_table(io.BytesIO(content)))
    except (pyarrow.ArrowException, OSError) as error:
        raise ArtifactError(str(path), f"is not Parquet ({_first_line(error)})", "give a Parquet file") from None


def _json(path: Path, content: bytes) -> RecordTable:
    import pyarrow
    from pyarrow import json as arrow_json

    lines = _json_lines(path, content.removeprefix(codecs.BOM_UTF8))
    _check_objects(path, lines)
    if not lines.strip():
        return RecordTable({}, [])
    try:
        options = arrow_json.ReadOptions(block_size=max(1, len(lines) + 1))
        return _of_arrow(arrow_json.read_json(io.BytesIO(lines), read_options=options))
    except pyarrow.ArrowException as error:
        remedy = "give each field values of one type"
        raise ArtifactError(str(path), f"has fields of mixed types ({_first_line(error)})", remedy) from None


def _json_lines(path: Path, content: bytes) -> bytes:
    """Returns ``content`` with one object a line; a file may hold a list of objects instead."""
    if not content.startswith(b"["):
        return content
    try:
        objects = json.loads(_decoded(path, content))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(str(path), f"is not JSON ({error})", "give a list of objects") from None
    return "\n".join(json.dumps(values) for values in objects).encode()


def _check_objects(path: Path, lines: bytes) -> None:
    """Refuses what is no object, and lists or objects in a field whose objects have different fields: old versions of
    ``datasets`` fill them with None, new ones do not."""
    records: list[Any] = []
    for number, line in enumerate(lines.splitlines(), start=1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise ArtifactError(f"{path}:{number}", f"is not JSON ({error})", "give one object a line") from None
            if not isinstance(records[-1], dict):
                raise ArtifactError(f"{path}:{number}", "is not a JSON object", "give one object a line")
    for field in dict.fromkeys(field for record in records for field in record):
        if not _are_alike([record[field] for record in records if record.get(field) is not None]):
            problem = f"objects in the field {field!r} have different fields"
            raise ArtifactError(str(path), problem, "give all of them the same, null where there is no value")


def _are_alike(values: Sequence[Any]) -> bool:
    """Whether all objects among ``values``, and among the values in them, have the same fields."""
    if any(isinstance(value, dict) for value in values):
        fields = values[0].keys() if isinstance(values[0], dict) else {}
        if not fields or any(not isinstance(value, dict) or value.keys() != fields for value in values):
            return False
        return all(_are_alike([value[field] for value in values if value[field] is not None]) for field in fields)
    if any(isinstance(value, list) for value in values):
        return all(isinstance(value, list) for value in values) and _are_alike(
            [entry for value in values for entry in value if entry is not None]
        )
    return True


def _of_arrow(table: Any) -> RecordTable:
    return RecordTable({field.name: str(field.type) for field in table.schema}, table.to_pylist())


def _csv(path: Path, content: bytes, separator: str) -> RecordTable:
    text = _decoded(path, content.removeprefix(codecs.BOM_UTF8))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        lines = [(reader.line_num, cells) for cells in reader if cells and not _is_blank(cells)]
    except csv.Error as error:
        raise ArtifactError(f"{path}:{reader.line_num}", f"is not CSV ({error})", "correct the quotes") from None
    (_, header), *body = lines or [(0, [])]
    if len({*header, ""}) <= len(header):
        raise ArtifactError(str(path), f"names its fields {header!r}", "give each field a name of its own")
    for number, cells in body:
        if len(cells) > len(header):
            problem = f"has {len(cells)} cells, and the first line names {len(header)} fields"
            raise ArtifactError(f"{path}:{number}", problem, "put cells with a separator in quotes")
    columns = [[cells[index] if index < len(cells) else "" for _, cells in body] for index in range(len(header))]
    values = [_column(path, field, cells) for field, cells in zip(header, columns, strict=True)]
    rows = [dict(zip(header, row, strict=True)) for row in zip(*(cells for _, cells in values), strict=True)]
    return RecordTable({field: kind for field, (kind, _) in zip(header, values, strict=True)}, rows)


def _is_blank(cells: Sequence[str]) -> bool:
    return len(cells) == 1 and bool(cells[0]) and not cells[0].strip(" \t")


def _column(path: Path, field: str, cells: Sequence[str]) -> tuple[str, Sequence[Any]]:
    try:
        return typed(cells)
    except ValueError as error:
        problem = f"field {field!r} holds {error}, a number of more than 64 bits"
        raise ArtifactError(str(path), problem, "make it a text by a letter, or smaller") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
