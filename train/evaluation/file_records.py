"""Reads records of files, and makes texts of them: questions of benchmarks, examples to learn from. Free of torch.

    TSV     fields separated by tabs; quotes are ordinary characters, as in GLUE
    CSV     RFC 4180: quoted fields may hold commas and line ends
    JSONL   one object a line: {"query": "Question: …", "choices": ["…", "…"], "gold": 1}
    train.en, train.de      one sentence a line: aligned plain files, whose lines have names

The first line of TSV and CSV names the fields; of a file without such a line they are "0", "1", …. A benchmark leaves
no question out: a broken record is an error with file and line (``BenchmarkRecord``). Of examples to learn from, broken
ones are dropped and counted by reason (``RecordError``).
"""

import codecs
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from headrace.pipeline.core.compression import CODECS, bare_name
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import RepeatedNameError, object_in
from headrace.pipeline.core.text_files import opened, read_lines

T = TypeVar("T")
HALF_A_PAIR = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, and what stands for a byte that is not UTF-8."""
KINDS = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
"""The end of a file's name → its format."""
LARGEST_FP32 = (2 - 2**-23) * 2.0**127
MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""

FieldValues = Mapping[str, Any]
"""One record: values by the names of the fields."""


class RecordError(Exception):
    """A line holds no record, or a record no example."""

    def __init__(self, reason: str, field: str = "", problem: str = "") -> None:
        """``reason`` and ``field`` are what is counted; ``problem`` says more where no record may be left out."""
        super().__init__(reason)
        self.reason, self.field = reason, field
        self.problem = problem or f"is no record ({' '.join(filter(None, (reason, field)))})"


class BenchmarkRecord:
    """One record of a benchmark's file, whose fields are checked as they are taken."""

    def __init__(self, path: Path, line: int, values: FieldValues) -> None:
        self.name, self._where, self.values = f"{path.name}:{line}", f"{path}:{line}", values

    def error(self, problem: str, remedy: str) -> ArtifactError:
        return ArtifactError(self._where, problem, remedy)

    def parsed(self, parse: "Callable[[BenchmarkRecord], T]") -> T:
        """Returns what ``parse`` makes of this record.

        Raises:
            ArtifactError: when it is none that fits.
        """
        try:
            return parse(self)
        except RecordError as broken:
            raise self.error(broken.problem, "its fields are: " + ", ".join(sorted(self.values))) from None

    def text(self, field: str) -> str:
        """Returns the text in ``field``.

        Raises:
            ArtifactError: when it is absent, not a string, or blank.
        """
        return str(self._taken(field, _is_shown, "give it a text that is not blank"))

    def query(self, field: str) -> str:
        """Returns the question in ``field``. A blank one is asked after the token that begins a text.

        Raises:
            ArtifactError: when it is absent or not a string.
        """
        return str(self._taken(field, lambda value: isinstance(value, str), "give it a text"))

    def texts(self, field: str, least: Literal[1, 2] = 2) -> tuple[str, ...]:
        """Returns the texts in ``field``, ``least`` or more.

        Raises:
            ArtifactError: when it is absent or not a list of so many texts that are not blank.
        """

        def fit(values: Any) -> bool:
            return isinstance(values, list) and len(values) >= least and all(map(_is_shown, values))

        number = "one" if least == 1 else "two"
        return tuple(self._taken(field, fit, f"give it a list of {number} or more texts, none blank"))

    def index(self, field: str, choices: int) -> int:
        """Returns the index of a choice in ``field``.

        Raises:
            ArtifactError: when it is absent, not a whole number, or none of the ``choices``.
        """
        remedy = f"give it a number from 0 to {choices - 1}"
        return int(self._taken(field, lambda value: type(value) is int and 0 <= value < choices, remedy))

    def _taken(self, field: str, fits: Callable[[Any], bool], remedy: str) -> Any:
        if field not in self.values:
            raise self.error(f"has no field {field!r}", "its fields are: " + ", ".join(sorted(self.values)))
        if not fits(self.values[field]):
            raise self.error(f"field {field!r} holds {self.values[field]!r}", remedy)
        return self.values[field]


def _is_shown(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def benchmark_records(paths: Sequence[Path], lines: Sequence[str] = (), header: bool = True) -> list[BenchmarkRecord]:
    """Returns the records of a benchmark; see ``pair_records``.

    Raises:
        ArtifactError: naming file and line of a broken record, since no question is left out, or a file without any.
    """
    by_name = {path.name: path for path in paths}
    of_benchmark = []
    for name, values in pair_records(paths, lines, header):
        file, _, line = name.rpartition(":")
        if isinstance(values, RecordError):
            raise ArtifactError(f"{by_name[file]}:{line}", values.problem, "correct the line, or remove it")
        of_benchmark.append(BenchmarkRecord(by_name[file], int(line), values))
    read = {record.name.rpartition(":")[0] for record in of_benchmark}
    if empty := [path for path in paths[:: len(lines) or 1] if path.name not in read]:
        raise ArtifactError(str(empty[0]), "holds no records", "give a file with one record a line")
    return of_benchmark


def read_text(path: Path, from_byte: int = 0, to_byte: int | None = None) -> str:
    """Returns the text of ``path``, or of a part of its bytes; characters that the part cuts are left out.

    Raises:
        ArtifactError: when it cannot be decompressed, is empty, or is not UTF-8; then naming the line.
    """
    with opened(path) as file:
        content = file.read(-1 if to_byte is None else to_byte)[from_byte:]
    first = next((index for index, byte in enumerate(content[:4]) if byte & 0xC0 != 0x80), 0) if from_byte else 0
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(content[first:])
    except UnicodeDecodeError as error:
        line = content[: first + error.start].count(b"\n") + 1
        problem = f"is not UTF-8 (byte {content[first + error.start]:#04x})"
        raise ArtifactError(f"{path}:{line}", problem, "convert the file to UTF-8") from None
    if not text.strip():
        raise ArtifactError(str(path), "holds no text", "give a file with text, and bytes that lie in it")
    return text


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
    if kind == "jsonl":
        for number, line in enumerate(read_lines(path), 1):
            if content := (line.removeprefix(MARK) if number == 1 else line).strip():
                yield f"{path.name}:{number}", _object(content)
        return
    with opened(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="" if kind == "csv" else "\n")
        for number, record in _table(_split(text) if kind == "tsv" else _quoted(text), header):
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


def _object(line: bytes) -> FieldValues | RecordError:
    try:
        return object_in(line)
    except RepeatedNameError as error:
        return RecordError("repeated_name", problem=str(error))
    except ValueError as error:
        return RecordError("not_json", problem=str(error))


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


def pair_records(
    paths: Sequence[Path], lines: Sequence[str], header: bool = True
) -> Iterator[tuple[str, FieldValues | RecordError]]:
    """Yields ``<file>:<line>`` of each record with its values, or with the reason that it has none.

    Args:
        paths: the files.
        lines: the names of the lines of aligned files, of which each set has one for each name; empty: each file has
            records of its own.
        header: whether the first line of TSV and CSV names the fields.

    Raises:
        ArtifactError: when aligned files are not as many as ``lines``, or do not have one number of lines.
    """
    if not lines:
        for path in paths:
            yield from records(path, header)
        return
    if not paths or len(paths) % len(lines):
        problem = f"there are {len(paths)} files, and each set of aligned ones has {len(lines)} ({', '.join(lines)})"
        raise ArtifactError(", ".join(map(str, paths)), problem, "give the files of each set one after the other")
    for start in range(0, len(paths), len(lines)):
        yield from _aligned(paths[start : start + len(lines)], lines)


def _aligned(paths: Sequence[Path], names: Sequence[str]) -> Iterator[tuple[str, FieldValues | RecordError]]:
    """Yields the lines of a set of files side by side."""
    counts = [0] * len(paths)
    for number, row in enumerate(itertools.zip_longest(*map(read_lines, paths)), 1):
        counts = [count + (line is not None) for count, line in zip(counts, row, strict=True)]
        if min(counts) == number:
            texts = [line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape") for line in row]
            bare = [text.removesuffix("\r") for text in texts]
            is_whole = all(text.strip() for text in bare)
            values = dict(zip(names, bare, strict=True))
            yield f"{paths[0].name}:{number}", values if is_whole else RecordError("blank_text")
    if min(counts) < max(counts):
        of_files = " and ".join(f"{path.name} {count:,}" for path, count in zip(paths, counts, strict=True))
        problem = f"the numbers of lines differ: {of_files}"
        raise ArtifactError(str(paths[0].parent), problem, "give files in which lines of one number belong together")


def value_of(record: FieldValues, field: str) -> Any:
    """Returns the value in ``field``. It and the functions below raise a RecordError when there is none that fits."""
    if field not in record:
        raise RecordError("no_field", field)
    return record[field]


def text_of(record: FieldValues, field: str) -> str:
    """Returns the text in ``field``."""
    value = value_of(record, field)
    if not isinstance(value, str):
        raise RecordError("no_text")
    return utf8(value)


def utf8(text: str) -> str:
    """Returns ``text``, which is to be UTF-8."""
    if HALF_A_PAIR.search(text):
        raise RecordError("not_utf8")
    return text


def number_of(record: FieldValues, field: str) -> float:
    """Returns the number in ``field``; it is to be finite in fp32, in which models compute."""
    try:
        number = float(value_of(record, field))
    except (TypeError, ValueError, OverflowError):
        raise RecordError("no_number") from None
    if not abs(number) <= LARGEST_FP32:
        raise RecordError("no_number")
    return number


def index_of(record: FieldValues, field: str) -> int:
    """Returns the whole number in ``field``, 0 or more."""
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
    """Returns the object in ``field``."""
    value = value_of(record, field)
    if not isinstance(value, dict):
        raise RecordError("no_object")
    return value


def objects_of(record: FieldValues, field: str) -> list[FieldValues]:
    """Returns the list of objects in ``field``."""
    values = value_of(record, field)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise RecordError("no_list")
    return values
