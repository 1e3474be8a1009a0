"""The artifacts below a root on the disk: their sizes and owners, the runs that use them, and the processes that do."""

import contextlib
import dataclasses
import errno
import functools
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.pipeline.core import claim
from headrace.pipeline.core.artifact_files import folder_bytes, statuses
from headrace.pipeline.core.claim import DAY_SECONDS, UNFINISHED, Owner, temporary_path
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.stage import FACTS, file_state
from headrace.pipeline.run.saved_run import STAGE_JSON, SavedRun, is_own, read_saved, saved_runs, user_of

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
        for path in (self.folder / "manifest.json", self.folder / STAGE_JSON):
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


@dataclasses.dataclass(frozen=True)
class Unused:
    """An artifact that no run uses."""

    stored: Stored
    dependents: Sequence[str]
    """The unused artifacts that were made from it."""
    kept_because: str
    """Why it is not removed; empty when it may be."""


@contextlib.contextmanager
def _refusing_unreadable() -> Iterator[None]:
    """Refuses what this user cannot read in the block, or in the function that it decorates.

    Raises:
        ArtifactError: instead of PermissionError.
    """
    try:
        yield
    except PermissionError as error:
        remedy = "ask its owner for the right to read it"
        raise ArtifactError(str(error.filename), "cannot be read, so what it uses is unknown", remedy) from None


@_refusing_unreadable()
def unused(root: Path) -> list[Unused]:
    """Returns the artifacts below ``root`` that no run uses, those to keep included.

    Raises:
        ArtifactError: when a run.json, a stage's folder or an artifact cannot be read: what it uses is unknown.
    """
    for folder in unreadable_stages(root):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    stored = [artifact for artifact in artifacts(root) if artifact.exists]
    used = used_addresses(root)
    reasons = {artifact.folder: _kept_because(artifact) for artifact in stored if artifact.address not in used}
    if not reasons:
        return []
    used |= _made_from({*used, *(artifact.address for artifact in stored if reasons.get(artifact.folder))}, stored)
    left = [artifact for artifact in stored if artifact.folder in reasons and not _belongs(artifact, used)]
    dependents: dict[str, list[str]] = defaultdict(list)
    for artifact in left:
        for address in artifact.inputs:
            dependents[address].append(artifact.label)
    return [Unused(artifact, dependents[artifact.address], reasons[artifact.folder]) for artifact in left]


def _belongs(artifact: Stored, used: set[str]) -> bool:
    """Whether an artifact that no run leads to is kept for another reason than its owner or its use."""
    training = artifact.description.get("settings", {}).get("training")  # of a checkpoint's scores: an address
    is_scored = isinstance(training, str) and training in used
    return not FACTS[artifact.stage].is_of_run or artifact.address in used or is_scored


def _kept_because(artifact: Stored) -> str:
    try:
        if artifact.is_linked:
            return "a symbolic link"
        if not is_own(artifact.folder):
            return f"belongs to {artifact.user}"
        if not artifact.is_own:
            return "holds files of others"
    except FileNotFoundError:
        return "another process has removed it"
    return "in use" if artifact.may_be_in_use else ""


def _made_from(addresses: set[str], stored: Sequence[Stored]) -> set[str]:
    """Returns the addresses of all inputs, direct or not, of the artifacts with ``addresses``."""
    by_address = defaultdict(list)
    for artifact in stored:
        by_address[artifact.address].append(artifact)
    sources, left = set[str](), list(addresses)
    while left:
        new = {address for artifact in by_address[left.pop()] for address in artifact.inputs} - sources
        sources |= new
        left += new
    return sources


@_refusing_unreadable()
def used_addresses(root: Path) -> set[str]:
    """Returns every address in a run.json below ``root``: of its stages, and of artifacts that its settings name.

    A copy of run.json that queued jobs read counts until all its stages are finished.

    Raises:
        ArtifactError: when one, or the folder of a run, cannot be read.
    """
    files = [path for folder in listed(root / "runs") for path in listed(folder)]
    return set[str]().union(*(_addresses_in(path) for path in files if fnmatch(path.name, "run*.json")))


def _addresses_in(run_json: Path) -> set[str]:
    try:
        return _addresses(run_json, file_state(run_json))
    except FileNotFoundError:  # the command that held it has ended
        return set()


@functools.cache
def _addresses(run_json: Path, state: tuple[int, int, int]) -> set[str]:
    """Returns the addresses in ``run_json``, which is read once for each ``state``: every removal asks for all runs."""
    run, text = SavedRun.read(run_json), run_json.read_text(encoding="utf-8")
    if run_json.name.startswith("run-") and all(stage.is_whole for stage in run.all_steps):
        return set()
    return {*ADDRESS.findall(text), *(stage.address for stage in run.all_steps)}


def leftovers(root: Path) -> list[Stored]:
    """Returns the folders that a killed removal has renamed and not removed."""
    paths = sorted(path for stage in FACTS for path in (root / stage).glob(f"{UNFINISHED}*") if path.is_dir())
    return [
        leftover for leftover in map(Stored, paths) if not leftover.is_linked and leftover.is_own and _is_left(leftover)
    ]


def _is_left(leftover: Stored) -> bool:
    owner = Owner.of_unfinished(leftover.folder.name)
    if owner is None or not ADDRESS.fullmatch(leftover.folder.name.rpartition("-")[2]):
        return False
    return owner.is_dead if owner.is_here else time.time() - leftover.folder.stat().st_ctime > DAY_SECONDS


def remove(artifact: Stored, root: Path, others: Sequence[Stored]) -> bool:
    """Removes an unused artifact. Returns False when a run or a process has begun to use it meanwhile.

    A run uses it also when it uses one of the ``others``, the unused artifacts, that was made from it. When the check
    fails or is interrupted, the artifact gets its name back, too.
    """
    if artifact.may_be_in_use:
        return False
    renamed = temporary_path(artifact.folder)
    artifact.folder.rename(renamed)
    is_unused = False
    try:
        used = used_addresses(root)
        is_unused = not Stored(renamed).may_be_in_use and artifact.address not in used | _made_from(used, others)
    finally:
        if not is_unused and not artifact.folder.exists():
            renamed.rename(artifact.folder)
    if is_unused:
        remove_leftover(renamed)
    return is_unused


def remove_leftover(folder: Path) -> None:
    """Removes a renamed folder, its manifest first: nothing takes what is left for an artifact."""
    (folder / "manifest.json").unlink(missing_ok=True)
    shutil.rmtree(folder)


def scored_folder(scores: Path) -> str:
    """Returns the folder of the model that ``headrace evaluate`` scored, as it was typed; empty when that is unknown.

    The manifest does not hold it, because the scores depend on the files of the model, not on their path.
    """
    with contextlib.suppress(ArtifactError, FileNotFoundError):
        return str(read_saved(scores / STAGE_JSON)["settings"].get("folder", ""))
    return ""
