"""Pieces of files, of which a bounded number are open at a time, however many there are.

    read(path, offset, size) ──> open already? ──> pread
                                 └─ open it; close the one that was read least recently if too many are open

One ``OpenFiles`` serves the whole process, since a training on a mixture reads several artifacts. Files are read, not
mapped: a map keeps a descriptor too, and making one costs several times what reading a row does.
"""

import os
import resource
import threading
from pathlib import Path

from headrace.pipeline.core.errors import ArtifactError

MOST_OPEN = 512
SHARE = 4
"""The part of the process's descriptors that may be used is 1 / SHARE."""


class OpenFiles:
    """Keeps at most ``most`` files open; several threads may read."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._files: dict[Path, int] = {}
        """In the order of their last use."""
        self._lock = threading.Lock()

    def read(self, path: Path, offset: int, size: int) -> bytes:
        """The ``size`` bytes from ``offset`` on.

        Raises:
            ArtifactError: when the file ends before.
        """
        with self._lock:
            file = self._files.pop(path, None)
            if file is None:
                while len(self._files) >= self._most:
                    os.close(self._files.pop(next(iter(self._files))))
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._files[path] = file
            found = os.pread(file, size, offset)
        if len(found) != size:
            wrong = f"ends at byte {offset + len(found)}, before byte {offset + size}"
            raise ArtifactError(str(path), wrong, "remove its artifact's folder and run again")
        return found


def allowed() -> int:
    """How many files this process may keep open here."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN if soft == resource.RLIM_INFINITY else max(1, min(MOST_OPEN, soft // SHARE))


FILES = OpenFiles(allowed())
