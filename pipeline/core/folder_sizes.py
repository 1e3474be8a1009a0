"""The sizes of an artifact's folder: of all its files, and of its results alone."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import orjson


def statuses(folder: Path) -> Iterator[os.stat_result]:
    """Yields the status of every file and folder below ``folder``; leaves out those that are removed meanwhile."""
    left = [str(folder)]
    while left:
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError),
            os.scandir(left.pop()) as entries,
        ):
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                yield status
                if stat.S_ISDIR(status.st_mode):
                    left.append(entry.path)


def folder_bytes(folder: Path) -> int:
    """Returns the size of every file and folder below ``folder``; 0 when it is not there."""
    return sum(status.st_size for status in statuses(folder))


def result_bytes(folder: Path) -> int:
    """Returns the size of the results of the artifact in ``folder``.

    These are the files that its manifest lists and its checkpoints, not its logs; of an unfinished one, all files.
    """
    try:
        files = orjson.loads((folder / "manifest.json").read_bytes())["files"]
        listed = sum(record["bytes"] for record in files.values())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # it is unfinished or damaged
        return folder_bytes(folder)
    return int(listed) + folder_bytes(folder / "checkpoints")
