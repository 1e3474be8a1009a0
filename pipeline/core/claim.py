"""Processes that write below a shared root: their names, their temporary files, and claims, by which they share tasks.

    node7~4026531836~4711~88231                    an Owner: node, PID namespace, PID, start in clock ticks since boot
    tmp-node7~4026531836~4711~88231-00007.bin      a file that this process is writing, or was when it was killed

A PID alone is not unique: nodes share folders but no PIDs, containers share a node but not always its PIDs, and a PID
is used again after its process ended. The start time distinguishes the two processes.

A claim names the process that runs a task. With claims, several commands on one root share the tasks.

    parts/clean-00007.claim  ->  node7~4026531836~4711~88231~117~0     a symbolic link without a target file
    parts/clean-00007.json       the part record: the task is done

One call, symlink(2), creates the claim and writes its owner into it. It succeeds for one process only, also on NFS.
The modification time of the link is its heartbeat. The claim is in the same folder as the part record. So creating the
claim also refreshes the folder in the cache of an NFS client, and the new owner sees the part record of an earlier one.

A claim is taken over when its owner has ended. On the same machine, and by a later start of the same job, this happens
at once. Otherwise it happens when the heartbeat has not changed for SILENCE_SECONDS by the clock of the process that
waits. A task can have two owners when the first one was suspended for that time. This costs only time: both write the
same bytes to temporary files and rename them.
"""

import contextlib
import dataclasses
import functools
import os
import platform
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.environment import JOB, RESTARTS

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


HEARTBEAT_SECONDS = 10.0
SILENCE_SECONDS = 180.0
"""Longer than a heartbeat plus the time for which an NFS client may cache an old modification time (acregmax, 60 s)."""
DAY_SECONDS = 86_400.0
"""The age of a heartbeat that no difference of clocks explains."""
POLL_SECONDS = 0.2
QUIET_SECONDS = 1.0
"""Shorter waits, which happen at the end of each phase, are not reported."""


def claim_of(part: Path) -> Path:
    """Returns the path of the claim for the task with the part record ``part``."""
    return part.with_suffix(".claim")


@contextlib.contextmanager
def claimed(claim: Path) -> Iterator[bool]:
    """Holds ``claim`` during the block. The block receives False when another process holds the claim."""
    mine = _signature(os.environ)
    if not _create(claim, mine):
        yield False
        return
    released = threading.Event()
    threading.Thread(target=_beat, args=(claim, released), name="heartbeat", daemon=True).start()
    try:
        yield True
    finally:
        released.set()
        if _text(claim) == mine:
            claim.unlink(missing_ok=True)


@contextlib.contextmanager
def claimed_when_free(claim: Path, label: str) -> Iterator[None]:
    """Waits until ``claim`` is free, then holds it during the block."""
    waiting = Waiting(label)
    while True:
        with claimed(claim) as is_ours:
            if is_ours:
                yield
                return
        waiting.until_free(claim)


class Waiting:
    """A wait for claims of other processes. It reports the owner with ``print_line``, by default on stderr.

    Clocks of machines may differ by hours. So a claim of another machine is silent when its heartbeat has not changed
    for SILENCE_SECONDS by the clock of this process, whatever its time.
    """

    def __init__(self, label: str, print_line: Callable[[str], None] | None = None) -> None:
        self._label, self._print_line = label, print_line or _print
        self._since = 0.0
        self._reported = ""
        self._beats: dict[Path, tuple[str, int, float]] = {}
        """Claim → its text, its heartbeat, and when this process saw them first."""

    def until_free(self, claim: Path) -> None:
        """Returns when no process holds ``claim``."""
        self.start()
        while not self.any_free([claim]):
            time.sleep(POLL_SECONDS)

    def start(self) -> None:
        """Starts the clock of a new wait. Short waits are not reported."""
        self._since = time.monotonic()

    def any_free(self, claims: Sequence[Path]) -> bool:
        """Whether at least one of ``claims`` is free. A claim whose owner has ended is free."""
        held = [holder for claim in claims if (holder := self._holder(claim))]
        if len(held) < len(claims):
            return True
        if held[0] != self._reported and time.monotonic() - self._since >= QUIET_SECONDS:
            self._print_line(f"{self._label} waits for {held[0]}")
            self._reported = held[0]
        return False

    def _holder(self, claim: Path) -> str:
        """Returns the owner of ``claim`` as text, empty when it is free. Removes the claim when its owner has ended."""
        try:
            text, beat = _text(claim) or "", claim.lstat().st_mtime_ns
        except FileNotFoundError:
            return ""
        if self._beats.get(claim, ())[:2] != (text, beat):
            self._beats[claim] = text, beat, time.monotonic()
        owner, silent_seconds = _owner(text), time.monotonic() - self._beats[claim][2]
        is_silent = silent_seconds > SILENCE_SECONDS and not (owner and owner.is_here)
        if is_silent or _is_over(text, _signature(os.environ)):
            _remove(claim, text)
            return ""
        return f"{owner.node} PID {owner.pid}" if owner else "an unknown process"


def owners(parts: Path) -> set[Owner]:
    """Returns the owners of the claims in the folder ``parts``."""
    texts = [_text(claim) for claim in parts.glob("*.claim")]
    return {owner for text in texts if text and (owner := _owner(text))}


def live_owners(claims: Iterable[Path], silence_seconds: float = SILENCE_SECONDS) -> set[Owner]:
    """Returns the owners of ``claims`` that are not known to have ended.

    Owners on other machines count as long as their heartbeat is younger than ``silence_seconds`` by the clock of this
    one. Clocks may differ: what is removed for good needs more seconds than clocks differ (``DAY_SECONDS``).
    """
    live = set()
    for claim in claims:
        owner = _owner(_text(claim) or "")
        if owner and (not owner.is_dead if owner.is_here else _age_seconds(claim) < silence_seconds):
            live.add(owner)
    return live


def remove_silent(claim: Path) -> None:
    """Removes ``claim`` when its owner is on another machine and its heartbeat is older than SILENCE_SECONDS by the
    clock of this one. This is for a process that does not wait for the claim."""
    text = _text(claim)
    owner = _owner(text or "")
    if text is not None and _age_seconds(claim) > SILENCE_SECONDS and not (owner and owner.is_here):
        _remove(claim, text)


def _age_seconds(claim: Path) -> float:
    """Returns the age of the heartbeat of ``claim``; infinity when it was released."""
    try:
        return time.time() - claim.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")


def is_dead(claim: Path) -> bool:
    """Whether the owner of ``claim`` is known to have ended."""
    owner = _owner(_text(claim) or "")
    return owner is not None and owner.is_dead


def clear(parts: Path) -> None:
    """Removes all claims in ``parts`` except those of this process. All tasks there must be done."""
    for claim in parts.glob("*.claim"):
        if _text(claim) != _signature(os.environ):
            claim.unlink(missing_ok=True)


def _signature(environment: Mapping[str, str]) -> str:
    """Returns the text of this process's claims: the process, its job and the number of restarts of the job."""
    job, restarts = environment.get(JOB, ""), environment.get(RESTARTS, "0")
    return f"{Owner.current()}~{job}~{restarts}"


def _owner(text: str) -> Owner | None:
    return Owner.parse(text.rsplit("~", 2)[0])


def _is_over(text: str, mine: str) -> bool:
    """Whether the owner of the claim with ``text`` has certainly ended. ``mine`` is the signature of this process."""
    owner = _owner(text)
    if owner is None:
        return False
    (job, restarts), (my_job, my_restarts) = text.split("~")[-2:], mine.split("~")[-2:]
    is_restarted = restarts.isdecimal() and my_restarts.isdecimal() and int(restarts) < int(my_restarts)
    return (is_restarted and job == my_job != "") or owner.is_dead


def _create(claim: Path, mine: str) -> bool:
    """Creates ``claim``, also when an owner that has ended left one. Returns whether this process holds it now."""
    make(claim.parent)
    while True:
        try:
            claim.symlink_to(mine)
            return True
        except FileExistsError:
            text = _text(claim)
        if text == mine:  # the reply of an NFS server was lost, and the client repeated the request
            return True
        if text is None:
            continue
        if not _is_over(text, mine):
            return False
        _remove(claim, text)


def _remove(claim: Path, text: str) -> None:
    """Removes ``claim`` if its text is ``text``. A newer claim of another process is restored."""
    removed = temporary_path(claim)
    try:
        claim.rename(removed)
    except FileNotFoundError:
        return
    now = _text(removed)
    if now and now != text:
        with contextlib.suppress(FileExistsError):
            claim.symlink_to(now)
    removed.unlink()


def _text(claim: Path) -> str | None:
    """Returns the text of ``claim``; None when it does not exist, an empty text when it is not a symbolic link."""
    try:
        return os.readlink(claim)
    except FileNotFoundError:
        return None
    except OSError:
        return ""


def _beat(claim: Path, released: threading.Event) -> None:
    """Updates the modification time of ``claim`` until it is released. A failed update is reported, then repeated."""
    while not released.wait(HEARTBEAT_SECONDS):
        try:
            os.utime(claim, follow_symlinks=False)
        except FileNotFoundError:  # another process has moved it to check its owner, and restores it
            continue
        except OSError as error:
            print(f"{claim}: heartbeat failed ({error.strerror})", file=sys.stderr, flush=True)


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
