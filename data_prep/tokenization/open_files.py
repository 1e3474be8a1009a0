"""Reads parts of files with a bounded number of open files.

    read(path, offset, size) ──> open already? ──> pread
                                 └─ open it; if too many are open, close the least recently read one

One ``OpenFiles`` serves the whole process, because training on a mixture reads several artifacts. Files are read, not
memory-mapped: a map also keeps a file descriptor, and creating it costs several times as much as reading a row.
"""

import os
import resource
import threading
from pathlib import Path

from headrace.pipeline.core.errors import ArtifactError

MOST_OPEN = 512
SHARE = 4
"""At most 1 / SHARE of the process's file descriptors are used."""


class OpenFiles:
    """Keeps at most ``most`` files open. It is safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._files: dict[Path, int] = {}
        """Descriptors by path, in the order of their last use."""
        self._lock = threading.Lock()

    def read(self, path: Path, offset: int, size: int) -> bytes:
        """Reads ``size`` bytes at ``offset``.

        Raises:
            ArtifactError: if the file ends earlier.
        """
        with self._lock:
            file = self._files.pop(path, None)
            if file is None:
                while len(self._files) >= self._most:
                    os.close(self._files.pop(next(iter(self._files))))
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._files[path] = file
            data = os.pread(file, size, offset)
        if len(data) != size:
            problem = f"ends at byte {offset + len(data)}, before byte {offset + size}"
            raise ArtifactError(str(path), problem, "remove its artifact's folder and run again")
        return data


def allowed() -> int:
    """Returns the number of files that this process may keep open for reading."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN if soft == resource.RLIM_INFINITY else max(1, min(MOST_OPEN, soft // SHARE))


FILES = OpenFiles(allowed())
