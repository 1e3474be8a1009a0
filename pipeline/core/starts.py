"""The file ``<artifact>/logs/starts.jsonl``: from which step each start of a training went on, and why.

{"line": "weights: goes on from step 120, its newest checkpoint"}

The command that started the ranks prints new lines on the terminal, as ``headrace watch`` does; ``headrace status``
shows the last one. The ranks print them to their own log, too, which is that of the job on a cluster.
"""

import contextlib
import sys
from pathlib import Path

import orjson

FILE = "logs/starts.jsonl"
"""The path of the file below the artifact's folder."""


def record(folder: Path, line: str) -> None:
    """Prints ``line`` about this start, and adds it to the file below the artifact's ``folder``."""
    print(line, file=sys.stderr, flush=True)
    path = folder / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(orjson.dumps({"line": line}, option=orjson.OPT_APPEND_NEWLINE))
    except OSError as error:  # a full disk: the first save reports it on all ranks
        print(f"{path} could not be written ({error.strerror})", file=sys.stderr, flush=True)


def latest(folder: Path) -> str:
    """Returns the line of the last start of the training in ``folder``; empty when there was none."""
    with contextlib.suppress(ValueError, LookupError, TypeError):  # it is only displayed
        return str(orjson.loads(_content(folder)[before_latest(folder) :])["line"])
    return ""


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
