"""Processes that write below a shared root: their names, whether they still run, and their temporary files.

    node7~4026531836~4711~88231                    node, PID namespace, PID, start time in clock ticks since boot
    tmp-node7~4026531836~4711~88231-00007.bin      a file that this process is writing, or was when it was killed

A PID alone is not unique: nodes share folders but no PIDs, containers share a node but not always its PIDs, and a PID
is used again after its process ended. The start time distinguishes the two processes.
"""

import dataclasses
import functools
import os
import platform
import re
import shutil
from pathlib import Path

UNFINISHED = "tmp-"
"""The prefix of temporary files: files that are being written, or whose writer was killed."""
NAME = re.compile(r"([A-Za-z0-9._-]+)~([0-9]*)~([0-9]{1,10})~([0-9]*)")
ZOMBIE = ("Z", "X", "x")
"""States of a process that has ended but was not waited for yet (proc(5))."""


@dataclasses.dataclass(frozen=True)
class Owner:
    """One process on one machine."""

    node: str
    namespace: str
    """The inode of its PID namespace; empty on systems without /proc."""
    pid: int
    started: str
    """Its start time; empty on systems without /proc."""

    @classmethod
    def current(cls) -> "Owner":
        """Returns this process."""
        return _current(os.getpid())

    @classmethod
    def of(cls, pid: int) -> "Owner":
        """Returns the process of this machine that has the number ``pid`` now."""
        node = re.sub(r"[^A-Za-z0-9._-]", "_", platform.node()) or "unknown"
        try:
            namespace = str(os.stat("/proc/self/ns/pid").st_ino)
        except OSError:
            namespace = ""
        return cls(node, namespace, pid, _state(pid)[1])

    @classmethod
    def parse(cls, text: str) -> "Owner | None":
        """Returns the process whose ``str`` is ``text``; None for any other text."""
        match = NAME.fullmatch(text)
        return cls(match[1], match[2], int(match[3]), match[4]) if match else None

    @classmethod
    def of_unfinished(cls, name: str) -> "Owner | None":
        """Returns the process that writes the temporary file ``name``; None when ``temporary_path`` did not make it."""
        match = NAME.match(name.removeprefix(UNFINISHED))
        return cls.parse(match[0]) if match else None

    def __str__(self) -> str:
        return f"{self.node}~{self.namespace}~{self.pid}~{self.started}"

    @property
    def is_here(self) -> bool:
        """Whether it is visible from this process: the same node and the same PID namespace."""
        me = Owner.current()
        return (self.node, self.namespace) == (me.node, me.namespace)

    @property
    def is_dead(self) -> bool:
        """Whether it is known to have ended; False for processes of other nodes."""
        if not self.is_here:
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):  # no process has a number so large
            return True
        except PermissionError:  # a process of another user has the number: its start time shows which one it is
            pass
        state, started = _state(self.pid)
        return state in ZOMBIE or (started != "" and started != self.started)


@functools.cache
def _current(pid: int) -> Owner:
    """Returns this process. The argument ``pid`` keeps a forked child from using the cached value of its parent."""
    return Owner.of(pid)


def _state(pid: int) -> tuple[str, str]:
    """Returns state and start time of process ``pid``, fields 3 and 22 of /proc/PID/stat; empty when unreadable."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


def temporary_path(path: Path) -> Path:
    """Returns a temporary path that is unique to this process. It is written first, then renamed to ``path``."""
    return path.with_name(f"{UNFINISHED}{Owner.current()}-{path.name}")


def remove_unfinished(path: Path, ending: str = "") -> None:
    """Removes what killed processes left of ``path``: temporary files and folders, also with ``ending`` after the name.

    Raises:
        OSError: when a folder cannot be removed.
    """
    for unfinished in path.parent.glob(f"{UNFINISHED}*"):
        owner = Owner.of_unfinished(unfinished.name)
        name = f"{UNFINISHED}{owner}-{path.name}"
        if owner is None or unfinished.name not in (name, name + ending) or not owner.is_dead:
            continue
        if unfinished.is_dir():
            shutil.rmtree(unfinished)
        else:
            unfinished.unlink(missing_ok=True)
