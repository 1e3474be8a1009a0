"""Folders that this process writes to for long: one that is moved, or replaced, gets nothing more at its old path.

    with held(folder):          keeps the folder open
        make(folder / "logs")   what every writer calls: a folder that is another one now is not made again

A process that keeps a path alone would make the folder again after a move, and write the rest of its work there.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

MOVED = errno.EREMCHG
"""The error number of a write to a folder that was moved: no file system gives it."""

_held: dict[str, int] = {}
"""The absolute paths of folders → open descriptors of them."""


@contextlib.contextmanager
def held(folder: Path, is_new: bool = True) -> Iterator[None]:
    """Holds ``folder`` during the block, and makes it if it ``is_new``.

    Raises:
        OSError: with the number MOVED, when it is not there and not new.
    """
    path = os.path.abspath(folder)
    check(folder)
    if path in _held:
        yield
        return
    if is_new:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        _held[path] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise _moved(path, "") from None
    try:
        yield
    finally:
        os.close(_held.pop(path))


def make(folder: Path) -> None:
    """Makes ``folder``, and those above it, where they are not there.

    Raises:
        OSError: with the number MOVED, when it belongs to a held folder that was moved.
    """
    check(folder)
    folder.mkdir(parents=True, exist_ok=True)


def check(path: Path | str) -> None:
    """Compares the held folders that ``path`` belongs to with what is at their paths now.

    Raises:
        OSError: with the number MOVED, when one was moved or replaced.
    """
    wanted = os.path.abspath(path) + os.sep
    for folder, descriptor in list(_held.items()):
        if wanted.startswith(folder + os.sep):
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(folder), os.fstat(descriptor)):
                    continue
            raise _moved(folder, os.readlink(f"/proc/self/fd/{descriptor}") if os.path.isdir("/proc/self/fd") else "")


def _moved(folder: str, place: str) -> OSError:
    where = f": it is {place} now" if place and place != folder and not place.endswith(" (deleted)") else ""
    return OSError(MOVED, f"was moved or replaced during the work{where}; nothing more is written to this path", folder)
