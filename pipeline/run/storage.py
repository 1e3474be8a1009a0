"""The artifacts below a root on the disk: their sizes and owners, the runs that use them, and the processes that do."""

import contextlib
import dataclasses
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.pipeline.core import claim
from headrace.pipeline.core.artifact_files import folder_bytes, statuses
from headrace.pipeline.core.claim import DAY_SECONDS, Owner
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.stage import FACTS
from headrace.pipeline.run.run_files import user_of
from headrace.pipeline.run.saved_runs import SavedRun, saved_runs, stage_json_in

ADDRESS = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])")
CONTENTS = {"manifest.json", "parts", "logs"}
"""Each artifact, finished or not, has at least one of them."""
READING = "reading-{}.claim"
"""The claim that a command holds while it reads an artifact that no run may use; the braces stand for the process."""


@dataclasses.dataclass(frozen=True)
class Stored:
    """The folder of an artifact, finished or not."""

    folder: Path

    @property
    def stage(self) -> str:
        return self.folder.parent.name

    @property
    def address(self) -> str:
        return self.folder.name

    @property
    def label(self) -> str:
        return f"{self.stage}/{self.address}"

    @property
    def exists(self) -> bool:
        """Whether the folder is there now; then ``bytes`` and ``user`` are known, also when it is removed later."""
        with contextlib.suppress(FileNotFoundError):
            return bool(self.user) and self.folder.is_dir()
        return False

    @cached_property
    def bytes(self) -> int:
        return folder_bytes(self.folder)

    @cached_property
    def user(self) -> str:
        return user_of(self.folder)

    @cached_property
    def is_own(self) -> bool:
        """Whether this user owns the folder and everything in it."""
        return all(status.st_uid == os.geteuid() for status in (self.folder.lstat(), *statuses(self.folder)))

    @property
    def is_linked(self) -> bool:
        """Whether its files are elsewhere, perhaps below another root, whose runs use them."""
        return self.folder.is_symlink() or self.folder.parent.is_symlink()

    @property
    def claims(self) -> list[Path]:
        """The claims of processes that work on it, or hold it (``reading``), also of those that have ended."""
        return [path for name in ("parts", "logs") for path in (self.folder / name).glob("*.claim")]

    @property
    def is_in_use(self) -> bool:
        """Whether a process works on it, or holds it."""
        return bool(claim.live_owners(self.claims))

    @property
    def may_be_in_use(self) -> bool:
        """The same for a removal: a claim of another machine, whose clock may be wrong, counts for a day."""
        return bool(claim.live_owners(self.claims, DAY_SECONDS))

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """The values of its manifest, or of the record of a stage without a run; empty for other unfinished ones."""
        for path in (self.folder / "manifest.json", stage_json_in(self.folder)):
            if path.is_file():
                values = read_json(path)
                return values if isinstance(values, dict) else {}
        return {}

    @property
    def inputs(self) -> set[str]:
        """The addresses of its inputs, and of the training that it scores."""
        named = [*self.description.get("inputs", {}).values(), self.description.get("settings", {}).get("training")]
        return {Path(name).name for name in named if isinstance(name, str)}


def artifacts(root: Path) -> list[Stored]:
    """Returns the artifacts below ``root``, by stage and address. Other folders with such names are left out."""
    paths = (path for stage in FACTS for path in (root / stage).glob("*"))
    return [Stored(path) for path in sorted(paths) if ADDRESS.fullmatch(path.name) and _is_artifact(path)]


def _is_artifact(folder: Path) -> bool:
    try:
        return not CONTENTS.isdisjoint(path.name for path in listed(folder))
    except PermissionError:  # it belongs to another user, so gc keeps it
        return True


def listed(folder: Path) -> list[Path]:
    """Returns what is in ``folder``; nothing when it is no folder. Unlike glob, it raises PermissionError."""
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []


def unreadable_stages(root: Path) -> list[Path]:
    """Returns the folders of stages below ``root`` whose artifacts this user cannot list."""
    folders = (root / stage for stage in FACTS)
    return [folder for folder in folders if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK)]


@contextlib.contextmanager
def reading(folders: Iterable[Path]) -> Iterator[None]:
    """Keeps the artifacts in ``folders`` from removal during the block, those that this user can write to."""
    with contextlib.ExitStack() as held:
        for folder in folders:
            with contextlib.suppress(OSError):  # reading needs no right to write, and no space on the disk
                remove_ended_readers(folder)
                held.enter_context(claim.claimed(folder / "logs" / READING.format(Owner.current())))
        yield


def remove_ended_readers(folder: Path) -> None:
    """Removes the claims in the artifact at ``folder`` of commands that were killed while they read it.

    The claim of a command on another machine is removed when it is a day old: the command may be suspended.
    """
    for path in (folder / "logs").glob(READING.format("*")):
        with contextlib.suppress(FileNotFoundError):  # its command has ended now
            is_old = time.time() - path.lstat().st_mtime > DAY_SECONDS
            if claim.is_dead(path) or (is_old and not claim.live_owners([path])):
                path.unlink()


def users_of(root: Path) -> dict[str, list[SavedRun]]:
    """Returns for each address the readable runs that lead to it, the last started one first."""
    users: dict[str, list[SavedRun]] = defaultdict(list)
    for run in saved_runs(root):
        for stage in run.all_steps:
            users[stage.address].append(run)
    return users
