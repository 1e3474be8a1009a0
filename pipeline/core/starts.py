"""The file ``<artifact>/logs/starts.jsonl``: from which step each start of a training went on, and why.

{"line": "weights: goes on from step 120, its newest checkpoint", "threads": 16}

The command that started the ranks prints new lines on the terminal, as ``headrace watch`` does; ``headrace status``
shows the last one. The ranks print them to their own log, too, which is that of the job on a cluster. ``threads`` is
the number of threads in which a rank computes on CPUs, or null: with another one it adds numbers up in another order.
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

import orjson

from headrace.pipeline.core.held_folders import make

FILE = "logs/starts.jsonl"
"""The path of the file below the artifact's folder."""


def record(folder: Path, line: str, threads: int | None = None) -> None:
    """Prints ``line`` about this start, and adds it to the file below the artifact's ``folder``."""
    print(line, file=sys.stderr, flush=True)
    path = folder / FILE
    try:
        make(path.parent)
        with path.open("ab") as file:
            file.write(orjson.dumps({"line": line, "threads": threads}, option=orjson.OPT_APPEND_NEWLINE))
    except OSError as error:  # a full disk: the first save reports it on all ranks
        print(f"{path} could not be written ({error.strerror})", file=sys.stderr, flush=True)


def latest(folder: Path) -> str:
    """Returns the line of the last start of the training in ``folder``; empty when there was none."""
    return str(_latest(folder, "line") or "")


def threads(folder: Path) -> int | None:
    """Returns the threads of a rank of the last start; None when none was recorded."""
    number: int | None = _latest(folder, "threads")
    return number


def first_threads(folder: Path) -> int | None:
    """Returns the threads of a rank of the first start; None when none was recorded."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        number: int | None = orjson.loads(_content(folder).partition(b"\n")[0])["threads"]
        return number
    return None


def _latest(folder: Path, key: str) -> Any:
    with contextlib.suppress(ValueError, LookupError, TypeError):  # no result depends on it
        return orjson.loads(_content(folder)[before_latest(folder) :])[key]
    return None


def size(folder: Path) -> int:
    """Returns the size of the file in bytes: lines of later starts come after it."""
    return len(_content(folder))


def before_latest(folder: Path) -> int:
    """Returns the size of the file without the line of the last start."""
    return _content(folder).rstrip(b"\n").rfind(b"\n") + 1


def _content(folder: Path) -> bytes:
    with contextlib.suppress(OSError):
        return (folder / FILE).read_bytes()
    return b""
