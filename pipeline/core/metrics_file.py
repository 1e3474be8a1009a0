"""metrics.jsonl: one JSON object a line, in the order of the steps, through any number of starts.

{"step": 120, "loss": 3.41, "learning_rate": 0.0006}
"""

import hashlib
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from headrace.pipeline.core.errors import ArtifactError


class MetricsFile:
    """The file as one start of a training writes it."""

    def __init__(self, path: Path, resume_step: int, settled: str | None = None) -> None:
        """Open ``path`` without the rows after ``resume_step``.

        Args:
            path: of the file, which need not exist.
            resume_step: the last step whose rows stay.
            settled: the SHA-256 of these rows, as ``settle`` returned it; None when unknown.

        Raises:
            ArtifactError: when these rows are not the ones that were settled.
        """
        self._sha256 = hashlib.sha256(_cut(path, resume_step, settled))
        self._file = path.open("ab")

    def write(self, row: Mapping[str, Any]) -> None:
        """Append ``row``; other processes see it at once."""
        line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
        self._file.write(line)
        self._file.flush()
        self._sha256.update(line)

    def settle(self) -> str:
        """Wait until all rows are on the disk; their SHA-256."""
        os.fsync(self._file.fileno())
        return self._sha256.hexdigest()

    def close(self) -> None:
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics.jsonl; a last line that was cut off by a kill is left out."""
    return new_metrics(path, 0)[0]


def new_metrics(path: Path, start: int) -> tuple[list[dict[str, Any]], int]:
    """The whole rows from byte ``start`` on, and the byte after them.

    A file that was cut since, and may have grown again, is read from its beginning: no row ends before ``start``.
    """
    if not path.is_file():
        return [], 0
    with path.open("rb") as file:
        file.seek(max(0, start - 1))
        if start and file.read(1) != b"\n":
            start = file.seek(0)
        lines = file.read().split(b"\n")[:-1]
    return [orjson.loads(line) for line in lines], start + sum(len(line) + 1 for line in lines)


def _cut(path: Path, last_step: int, settled: str | None) -> bytes:
    """Leave the rows up to ``last_step``: by rename, so that a kill leaves them all and an older writer loses its file.

    Rows are in the order of their steps, and those up to a checkpoint were on the disk before it: their SHA-256 is
    ``settled``. A line after them that cannot be read was cut off when a node was lost. Returns what is left.

    Raises:
        ArtifactError: when the rows up to the checkpoint are not the ones that were written.
    """
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    rows = itertools.takewhile(lambda line: _is_row_until(line, last_step), lines)
    kept = b"".join(rows)
    if settled and path.is_file() and hashlib.sha256(kept).hexdigest() != settled:
        wrong = f"is damaged: its rows up to step {last_step} are not what was written"
        raise ArtifactError(str(path), wrong, "bring it back, or remove it and run again to go on without them")
    temporary = path.with_name(f"tmp-{path.name}")
    with temporary.open("wb") as file:
        file.write(kept)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return kept


def _is_row_until(line: bytes, last_step: int) -> bool:
    try:
        return line.endswith(b"\n") and bool(orjson.loads(line)["step"] <= last_step)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False
