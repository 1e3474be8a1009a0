"""Claims: who runs a task, so that several commands on one root share the work instead of doing it twice.

    parts/clean-00007.claim  ->  node7~4026531836~4711~88231~117~0     a symbolic link that leads nowhere
    parts/clean-00007.json       the task is done: its part record

A claim is made and named in one step (symlink(2)), which succeeds for one process only, also over NFS. Its modification
time is its heartbeat. It lies beside the part record, so making a claim also refreshes what an NFS client remembers of
the folder: who holds a claim sees the part record that the holder before left.

A claim is taken over when its owner has ended: at once on the same machine, and at once by a later start of the same
SLURM job; otherwise when the heartbeat has not changed for SILENCE_SECONDS, measured with the clock of the process that
waits. Two owners are possible (one was suspended for so long). That costs time only: both write the same bytes aside
and rename them.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from headrace.pipeline.core.owner import Owner, aside
from headrace.pipeline.core.variables import JOB, RESTARTS

HEARTBEAT_SECONDS = 10.0
SILENCE_SECONDS = 180.0
"""Longer than a heartbeat and what an NFS client may hide a changed time for (acregmax, 60 s) together."""
POLL_SECONDS = 0.2
QUIET_SECONDS = 1.0
"""Shorter waits, as at the end of each phase, are not worth a line."""


def claim_of(part: Path) -> Path:
    """The claim on the task whose part record is ``part``."""
    return part.with_suffix(".claim")


@contextlib.contextmanager
def claimed(claim: Path) -> Iterator[bool]:
    """Hold ``claim`` during the block, which is told False when another process holds it."""
    mine = _signature(os.environ)
    if not _take(claim, mine):
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
def turn(claim: Path, label: str) -> Iterator[None]:
    """Hold ``claim`` during the block, after waiting for the process that holds it."""
    waiting = Waiting(label)
    while True:
        with claimed(claim) as is_ours:
            if is_ours:
                yield
                return
        waiting.until_free(claim)


class Waiting:
    """Waits for tasks of ``label`` that other processes hold, and ``say``s for whom."""

    def __init__(self, label: str, say: Callable[[str], None] | None = None) -> None:
        self._label, self._say = label, say or _print
        self._since = 0.0
        self._said = ""
        self._beats: dict[Path, tuple[tuple[str, int], float]] = {}

    def until_free(self, claim: Path) -> None:
        """Return once nobody holds ``claim``."""
        self.begin()
        while not self.any_free([claim]):
            time.sleep(POLL_SECONDS)

    def begin(self) -> None:
        """A new wait begins: short ones are silent."""
        self._since = time.monotonic()

    def any_free(self, claims: Sequence[Path]) -> bool:
        """Whether nobody holds one of ``claims``, or its owner has ended."""
        held = [holder for claim in claims if (holder := self._holder(claim))]
        if len(held) < len(claims):
            return True
        if held[0] != self._said and time.monotonic() - self._since >= QUIET_SECONDS:
            self._say(f"{self._label} waits for {held[0]}")
            self._said = held[0]
        return False

    def _holder(self, claim: Path) -> str:
        """Who holds ``claim``, for people; empty when nobody does. Takes away the claim of an owner that has ended."""
        now = time.monotonic()
        try:
            found = (_text(claim) or "", claim.lstat().st_mtime_ns)
        except FileNotFoundError:
            return ""
        if self._beats.get(claim, (None, 0.0))[0] != found:
            self._beats[claim] = (found, now)
        owner = _owner(found[0])
        is_silent = now - self._beats[claim][1] > SILENCE_SECONDS and not (owner and owner.is_here)
        if is_silent or _is_over(found[0], _signature(os.environ)):
            _take_away(claim, found[0])
            return ""
        return f"{owner.node} PID {owner.pid}" if owner else "an unknown process"


def owners(parts: Path) -> set[Owner]:
    """Those who hold a claim in the folder ``parts``."""
    texts = [_text(claim) for claim in parts.glob("*.claim")]
    return {owner for text in texts if text and (owner := _owner(text))}


def clear(parts: Path) -> None:
    """Remove the claims in ``parts``, where all tasks are done, but this process's own."""
    for claim in parts.glob("*.claim"):
        if _text(claim) != _signature(os.environ):
            claim.unlink(missing_ok=True)


def _signature(environment: Mapping[str, str]) -> str:
    """The text of this process's claims: its name, its job, and how often that was started again."""
    job, restarts = environment.get(JOB, ""), environment.get(RESTARTS, "0")
    return f"{Owner.current()}~{job}~{restarts}"


def _owner(text: str) -> Owner | None:
    return Owner.parse(text.rsplit("~", 2)[0])


def _is_over(text: str, mine: str) -> bool:
    """Whether the owner of a claim is known to have ended; ``mine`` is this process's signature."""
    owner = _owner(text)
    if owner is None:
        return False
    (job, restarts), (my_job, my_restarts) = text.split("~")[-2:], mine.split("~")[-2:]
    is_restarted = restarts.isdecimal() and my_restarts.isdecimal() and int(restarts) < int(my_restarts)
    return (is_restarted and job == my_job != "") or owner.is_dead


def _take(claim: Path, mine: str) -> bool:
    """Make ``claim``, taking it over from an owner that has ended; whether it is this process's now."""
    claim.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            claim.symlink_to(mine)
            return True
        except FileExistsError:
            text = _text(claim)
        if text == mine:  # the answer of an NFS server was lost, and the request repeated
            return True
        if text is None:
            continue
        if not _is_over(text, mine):
            return False
        _take_away(claim, text)


def _take_away(claim: Path, text: str) -> None:
    """Remove ``claim``, which said ``text``. One that another process has made since is put back."""
    removed = aside(claim)
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
    """What ``claim`` says; None when it is gone, nothing when it is no claim."""
    try:
        return os.readlink(claim)
    except FileNotFoundError:
        return None
    except OSError:
        return ""


def _beat(claim: Path, released: threading.Event) -> None:
    """Renew the modification time of ``claim``. One beat that fails is nothing; a claim that is gone has no owner."""
    while not released.wait(HEARTBEAT_SECONDS):
        try:
            os.utime(claim, follow_symlinks=False)
        except FileNotFoundError:  # another process looks whose it is, and puts it back
            continue
        except OSError as error:
            print(f"{claim}: heartbeat failed ({error.strerror})", file=sys.stderr, flush=True)


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
