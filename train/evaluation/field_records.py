"""Records of a file as dictionaries, and values taken from them. Reads TSV, CSV and JSON lines, in any compression.

    TSV     fields separated by tabs; quotes are ordinary characters, as in GLUE
    CSV     RFC 4180: quoted fields may hold commas and line ends
    JSONL   one object a line

The first line of TSV and CSV names the fields; of a file without such a line they are "0", "1", ….
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.compression import CODECS, bare_name
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import RepeatedNameError, each_once
from headrace.pipeline.core.text_files import opened
from headrace.train.evaluation.benchmark_files import HALF_A_PAIR

KINDS = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
"""The end of a file's name → its format."""

LARGEST_FP32 = (2 - 2**-23) * 2.0**127

FieldValues = Mapping[str, Any]
"""One record: values by the names of the fields."""


class RecordError(Exception):
    """A line holds no example."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.reason, self.field = reason, field


def records(path: Path, header: bool = True) -> Iterator[tuple[str, FieldValues | RecordError]]:
    """Yields ``<file>:<line>`` of each record with its values, or with the reason that it has none. Blank lines are no
    records.

    Args:
        path: the file; the end of its name is its format.
        header: whether the first line of TSV and CSV names the fields.

    Raises:
        ArtifactError: when the format is not known, or the file cannot be decompressed.
    """
    kind = kind_of(path)
    with opened(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="" if kind == "csv" else "\n")
        numbered = (
            _objects(text) if kind == "jsonl" else _table(_split(text) if kind == "tsv" else _quoted(text), header)
        )
        for number, record in numbered:
            yield f"{path.name}:{number}", record


def kind_of(path: Path) -> str:
    """Returns the format of ``path``: tsv, csv or jsonl.

    Raises:
        ArtifactError: when the end of its name is none of ``KINDS``.
    """
    suffix = Path(bare_name(path.name)).suffix.lower()
    if suffix not in KINDS:
        compressions = ", ".join(codec.suffixes[0] for codec in CODECS)
        remedy = f"name it {', '.join(KINDS)}, also with {compressions} after it"
        raise ArtifactError(str(path), f"is of no known format ({suffix or 'no'} suffix)", remedy)
    return KINDS[suffix]


def _objects(lines: io.TextIOWrapper) -> Iterator[tuple[int, FieldValues | RecordError]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, _object(line)


def _object(line: str) -> FieldValues | RecordError:
    try:
        values = json.loads(line, object_pairs_hook=each_once)
    except RepeatedNameError:
        return RecordError("repeated_name")
    except (ValueError, RecursionError):
        return RecordError("not_json")
    return values if isinstance(values, dict) else RecordError("not_json")


Cells = Iterator[tuple[int, list[str] | None]]
"""The number and the fields of each record; None where they cannot be separated."""


def _split(lines: io.TextIOWrapper) -> Cells:
    for number, line in enumerate(lines, 1):
        yield number, line.rstrip("\r\n").split("\t")


def _quoted(lines: io.TextIOWrapper) -> Cells:
    reader = csv.reader(lines)
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield number, None


def _table(rows: Cells, header: bool) -> Iterator[tuple[int, FieldValues | RecordError]]:
    names: list[str] | None = None
    for number, cells in rows:
        if cells is not None and not any(cell.strip() for cell in cells):
            continue
        if names is None:
            names = cells if header else [str(index) for index in range(len(cells or ()))]
            if header:
                continue
        if cells is None or names is None or len(cells) != len(names):
            yield number, RecordError("wrong_columns")
        else:
            yield number, dict(zip(names, cells, strict=True))


def text_of(record: FieldValues, field: str) -> str:
    """Returns the text in ``field``.

    Raises:
        RecordError: when it is absent, no text, or not UTF-8.
    """
    value = value_of(record, field)
    if not isinstance(value, str):
        raise RecordError("no_text")
    return utf8(value)


def utf8(text: str) -> str:
    """Returns ``text``.

    Raises:
        RecordError: when it is not UTF-8.
    """
    if HALF_A_PAIR.search(text):
        raise RecordError("not_utf8")
    return text


def value_of(record: FieldValues, field: str) -> Any:
    """Returns the value in ``field``.

    Raises:
        RecordError: when it is absent.
    """
    if field not in record:
        raise RecordError("no_field", field)
    return record[field]


def number_of(record: FieldValues, field: str) -> float:
    """Returns the number in ``field``.

    Raises:
        RecordError: when it is absent, no number, or not finite in fp32, in which models compute.
    """
    try:
        number = float(value_of(record, field))
    except (TypeError, ValueError, OverflowError):
        raise RecordError("no_number") from None
    if not abs(number) <= LARGEST_FP32:
        raise RecordError("no_number")
    return number


def index_of(record: FieldValues, field: str) -> int:
    """Returns the whole number in ``field``, 0 or more.

    Raises:
        RecordError: when it is absent, or no such number.
    """
    number = number_of(record, field)
    if number < 0 or number != int(number):
        raise RecordError("no_number")
    return int(number)


def offset_of(record: FieldValues, field: str) -> int | None:
    """Returns the whole number in ``field``, 0 or more; None where there is no such number."""
    try:
        return index_of(record, field)
    except RecordError:
        return None


def object_of(record: FieldValues, field: str) -> FieldValues:
    """Returns the object in ``field``.

    Raises:
        RecordError: when it is absent, or no object.
    """
    value = value_of(record, field)
    if not isinstance(value, dict):
        raise RecordError("no_object")
    return value


def objects_of(record: FieldValues, field: str) -> list[FieldValues]:
    """Returns the list of objects in ``field``.

    Raises:
        RecordError: when it is absent, or no such list.
    """
    values = value_of(record, field)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise RecordError("no_list")
    return values
