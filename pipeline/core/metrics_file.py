"""metrics.jsonl: one JSON object per line, in the order of the steps, over any number of starts.

{"step": 120, "loss": 3.41, "learning_rate": 0.0006}
"""

import hashlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError

METRICS = "metrics.jsonl"


class MetricsFile:
    """metrics.jsonl, opened by one start of a training."""

    def __init__(self, path: Path, resume_step: int, sha256: str | None = None) -> None:
        """Opens ``path`` and removes the rows after ``resume_step``.

        Args:
            path: the path of the file, which need not exist.
            resume_step: the last step whose rows are kept.
            sha256: the SHA-256 of these rows, as ``flush`` returned it; None when unknown.

        Raises:
            ArtifactError: when these rows have another SHA-256.
        """
        self._path = path
        self._sha256 = hashlib.sha256(_cut(path, resume_step, sha256))
        self._file = path.open("ab")

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends ``row``. Other processes can read it at once."""
        line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
        self._file.write(line)
        self._file.flush()
        self._sha256.update(line)

    def flush(self) -> str:
        """Flushes all rows to the disk (fsync) and returns their SHA-256."""
        os.fsync(self._file.fileno())
        return self._sha256.hexdigest()

    def verify(self) -> None:
        """Flushes all rows to the disk, and compares the file with them.

        Raises:
            ArtifactError: when it has other rows.
        """
        content = self._path.read_bytes() if self._path.is_file() else b""
        if self.flush() != hashlib.sha256(content).hexdigest():
            raise _damaged(self._path, "its rows")

    def close(self) -> None:
        self._file.close()


def metrics_path(training: Path) -> Path:
    """Returns the path of the metrics.jsonl of a training, which may not exist. Once the training is finished, the file
    is compared with its checksum.

    Raises:
        ArtifactError: when it is damaged.
    """
    if (training / "manifest.json").is_file():
        return Artifact(training).path(METRICS)
    return training / METRICS


def copy_metrics(source: Path, target: Path, last_step: int) -> None:
    """Writes the rows of ``source`` up to ``last_step`` to ``target``, which gets its name when it is whole."""
    _replace(target, _rows_until(source, last_step))


def read_metrics(path: Path, end: int = -1) -> list[dict[str, Any]]:
    """Returns the rows of a metrics.jsonl, up to the byte ``end`` if it is given, without an incomplete last line,
    which a kill leaves."""
    return new_metrics(path, 0, end)[0]


def new_metrics(path: Path, start: int, end: int = -1) -> tuple[list[dict[str, Any]], int]:
    """Returns the complete rows from byte ``start`` on, up to byte ``end`` or the last one, and the offset after them.

    When no row ends before ``start``, the file was cut meanwhile and is read from its beginning.
    """
    if not path.is_file():
        return [], 0
    with path.open("rb") as file:
        file.seek(max(0, start - 1))
        if start and file.read(1) != b"\n":
            start = file.seek(0)
        lines = file.read(max(-1, end - start)).split(b"\n")[:-1]
    return [orjson.loads(line) for line in lines], start + sum(len(line) + 1 for line in lines)


def appearing_rows(
    files: Mapping[Path, int], is_over: Callable[[], bool], pause_seconds: float
) -> Iterator[list[dict[str, Any]]]:
    """Yields the rows of ``files`` that were written since the last look, each file from a byte on, and the last ones
    after ``is_over`` became true."""
    positions, over = dict(files), False
    while not over:
        time.sleep(pause_seconds)
        over = is_over()
        for path in files:
            rows, positions[path] = new_metrics(path, positions[path])
            if rows:
                yield rows


def _cut(path: Path, last_step: int, sha256: str | None) -> bytes:
    """Removes the rows after ``last_step`` and returns the bytes of the others.

    The new file is renamed over the old one. So a kill keeps all rows, and an older process that still writes does
    not reach the new file. Rows are in the order of their steps. Those up to a checkpoint were flushed before it, and
    ``sha256`` is their SHA-256. An unreadable line after them was cut off when a node was lost.

    Raises:
        ArtifactError: when the rows up to the checkpoint have another SHA-256.
    """
    kept = _rows_until(path, last_step)
    if sha256 and path.is_file() and hashlib.sha256(kept).hexdigest() != sha256:
        raise _damaged(path, f"its rows up to step {last_step}")
    _replace(path, kept)
    return kept


def _damaged(path: Path, rows: str) -> ArtifactError:
    remedy = "restore it, or remove it and run again to continue without these rows"
    return ArtifactError(str(path), f"is damaged: {rows} are not those that were written", remedy)


def _rows_until(path: Path, last_step: int) -> bytes:
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    rows = itertools.takewhile(lambda line: _is_row_until(line, last_step), lines)
    return b"".join(rows)


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"tmp-{path.name}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _is_row_until(line: bytes, last_step: int) -> bool:
    try:
        return line.endswith(b"\n") and bool(orjson.loads(line)["step"] <= last_step)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False
