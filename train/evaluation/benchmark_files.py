"""Reads a benchmark's file: one JSON object a line, in any compression. Errors name file and line.

{"query": "Question: …", "choices": ["…", "…"], "gold": 1}
"""

import codecs
import json
import re
from pathlib import Path
from typing import Any, Literal

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import RepeatedNameError, each_once
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.pipeline.core.text_files import opened

HALF_A_PAIR = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: JSON can escape it, UTF-8 cannot encode it."""


class BenchmarkRecord:
    """One line of a benchmark's file, whose fields are checked as they are taken."""

    def __init__(self, file: str, line: int, path: Path, values: Any) -> None:
        self.name, self._where = f"{file}:{line}", f"{path}:{line}"
        if not isinstance(values, dict):
            raise self.error(f"is not a JSON object but {type(values).__name__}", "give one object a line")
        self.values: dict[str, Any] = values

    def error(self, problem: str, remedy: str) -> ArtifactError:
        return ArtifactError(self._where, problem, remedy)

    def has(self, field: str) -> bool:
        return field in self.values

    def text(self, field: str) -> str:
        """Returns the text in ``field``.

        Raises:
            ArtifactError: when it is absent, not a string, or blank.
        """
        value = self._take(field)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"field {field!r} holds {value!r}", "give it a text that is not blank")
        return value

    def query(self, field: str) -> str:
        """Returns the question in ``field``. A blank one is asked after the token that begins a text.

        Raises:
            ArtifactError: when it is absent or not a string.
        """
        value = self._take(field)
        if not isinstance(value, str):
            raise self.error(f"field {field!r} holds {value!r}", "give it a text")
        return value

    def texts(self, field: str, least: Literal[1, 2] = 2) -> tuple[str, ...]:
        """Returns the texts in ``field``, ``least`` or more.

        Raises:
            ArtifactError: when it is absent or not a list of so many texts that are not blank.
        """
        values = self._take(field)
        whole = isinstance(values, list) and len(values) >= least
        if not whole or not all(isinstance(value, str) and value.strip() for value in values):
            remedy = f"give it a list of {'one' if least == 1 else 'two'} or more texts, none blank"
            raise self.error(f"field {field!r} holds {values!r}", remedy)
        return tuple(values)

    def index(self, field: str, choices: int) -> int:
        """Returns the index of a choice in ``field``.

        Raises:
            ArtifactError: when it is absent, not a whole number, or none of the ``choices``.
        """
        value = self._take(field)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < choices:
            raise self.error(f"field {field!r} holds {value!r}", f"give it a number from 0 to {choices - 1}")
        return value

    def _take(self, field: str) -> Any:
        if field not in self.values:
            raise self.error(f"has no field {field!r}", "its fields are: " + ", ".join(sorted(self.values)))
        return self.values[field]


def read_records(path: Path) -> list[BenchmarkRecord]:
    """Returns the records of ``path``, without blank lines.

    Raises:
        ArtifactError: naming the line that is not JSON in UTF-8, or has a name twice, or the file that cannot be
            decompressed or is empty.
    """
    records = []
    with opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                values = json.loads(line.strip().decode("utf-8-sig"), object_pairs_hook=each_once)
            except UnicodeDecodeError as error:
                problem = f"is not UTF-8 (byte {error.object[error.start]:#04x})"
                raise ArtifactError(f"{path}:{number}", problem, "convert the file to UTF-8") from None
            except RepeatedNameError as error:
                raise ArtifactError(f"{path}:{number}", str(error), "give each name once") from None
            except (ValueError, RecursionError) as error:
                raise ArtifactError(f"{path}:{number}", f"is not JSON ({error})", "give one object a line") from None
            if b"\\u" in line and (half := HALF_A_PAIR.search(json.dumps(values, ensure_ascii=False))):
                problem = f"holds half of a surrogate pair ({half[0]!r})"
                raise ArtifactError(f"{path}:{number}", problem, "write the whole character")
            records.append(BenchmarkRecord(path.name, number, path, values))
    if not records:
        raise ArtifactError(str(path), "holds no records", "give a file with one JSON object a line")
    return records


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


def benchmark_file(path: Path) -> RawFile:
    """Returns name, size and checksum of ``path``.

    Raises:
        ConfigError: when there is no such file.
    """
    if not path.is_file():
        raise ConfigError("evaluation.benchmarks", f"no file {str(path)!r}", "give its folder as evaluation.data")
    return raw_file(path.name, path)
