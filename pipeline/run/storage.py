"""The artifacts below a root on the disk: their sizes and owners, the runs that use them, and those that no run uses.

    runs/*/run*.json ── addresses ──> used          and their inputs, and theirs
    <stage>/<address>/ ── not used ──> unused ──> renamed to tmp-<process>-<address> ──> removed

The rename makes a removal safe to kill: a folder with the name of an address is always whole. After the rename no
process finds the artifact any more, so its use is checked once more, and it gets its name back when it is used.
"""

import contextlib
import dataclasses
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
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.owner import UNFINISHED, Owner, temporary_path
from headrace.pipeline.run.saved import SavedRun, is_own, saved_runs, user_of

ADDRESS = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])")
STAGES = (
    "texts", "clean", "signatures", "duplicates", "unique", "overlaps", "tokenizer", "tokens", "packed", "weights",
    "scores", "report", "folder_scores", "checkpoint_scores",
)  # fmt: skip
"""The names of all stages. Importing the stages would take longer than ``headrace runs`` may take."""
CONTENTS = {"manifest.json", "parts", "logs"}
"""Each artifact, finished or not, has at least one of them."""
READING = "reading-{}.claim"
"""The claim that a command holds while it reads an artifact that no run may use; the braces stand for the process."""
WITHOUT_RUN = ("folder_scores",)
"""Artifacts that a command makes for its user, not for a run: they are never unused."""
DAY_SECONDS = 86_400.0


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

    @cached_property
    def bytes(self) -> int:
        return sum(status.st_size for status in _statuses(self.folder))

    @property
    def user(self) -> str:
        return user_of(self.folder)

    @cached_property
    def is_own(self) -> bool:
        """Whether this user owns the folder and everything in it."""
        return all(status.st_uid == os.geteuid() for status in (self.folder.lstat(), *_statuses(self.folder)))

    @property
    def is_linked(self) -> bool:
        """Whether its files are elsewhere, perhaps below another root, whose runs use them."""
        return self.folder.is_symlink() or self.folder.parent.is_symlink()

    @property
    def is_in_use(self) -> bool:
        """Whether a process works on it, or holds it (``reading``)."""
        claims = (path for name in ("parts", "logs") for path in (self.folder / name).glob("*.claim"))
        return bool(claim.live_owners(claims))

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """The values of its manifest, or of the record of a step without a run; empty for other unfinished ones."""
        for path in (self.folder / "manifest.json", self.folder / "logs/step.json"):
            if path.is_file():
                values = read_json(path)
                return values if isinstance(values, dict) else {}
        return {}

    @property
    def inputs(self) -> set[str]:
        """The addresses of its inputs, and of the training that it scores."""
        named = [*self.description.get("inputs", {}).values(), self.description.get("settings", {}).get("training")]
        return {Path(one).name for one in named if isinstance(one, str)}


def _statuses(folder: Path) -> Iterator[os.stat_result]:
    """Yields the status of every file and folder below ``folder``; leaves out those that are removed meanwhile."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                yield os.lstat(os.path.join(parent, name))


def folder_bytes(folder: Path) -> int:
    """Returns the size of all files below ``folder``."""
    return Stored(folder).bytes


def artifacts(root: Path) -> list[Stored]:
    """Returns the artifacts below ``root``, by stage and address. Other folders with such names are left out."""
    found = (path for stage in STAGES for path in (root / stage).glob("*"))
    return [Stored(path) for path in sorted(found) if ADDRESS.fullmatch(path.name) and _is_artifact(path)]


def _is_artifact(folder: Path) -> bool:
    try:
        return not CONTENTS.isdisjoint(path.name for path in _listed(folder))
    except PermissionError:  # it belongs to another user, so gc keeps it
        return True


def _listed(folder: Path) -> list[Path]:
    """Returns what is in ``folder``; nothing when it is no folder. Unlike glob, it raises PermissionError."""
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextlib.contextmanager
def reading(folders: Iterable[Path]) -> Iterator[None]:
    """Keeps the artifacts in ``folders`` from removal during the block, those that this user can write to."""
    with contextlib.ExitStack() as held:
        for folder in folders:
            with contextlib.suppress(OSError):  # reading needs no right to write, and no space on the disk
                held.enter_context(claim.claimed(folder / "logs" / READING.format(Owner.current())))
        yield


def users_of(root: Path) -> dict[str, list[SavedRun]]:
    """Returns for each address the readable runs that lead to it, the last started one first."""
    found: dict[str, list[SavedRun]] = defaultdict(list)
    for run in saved_runs(root):
        for step in run.steps:
            found[step.address].append(run)
    return found


@dataclasses.dataclass(frozen=True)
class Unused:
    """An artifact that no run uses."""

    stored: Stored
    dependents: Sequence[str]
    """The unused artifacts that were made from it."""
    kept_because: str
    """Why it is not removed; empty when it may be."""


def unused(root: Path) -> list[Unused]:
    """Returns the artifacts below ``root`` that no run uses, those to keep included.

    Raises:
        ArtifactError: when a run.json cannot be read: what it uses is unknown.
    """
    stored = artifacts(root)
    used = used_addresses(root)
    reasons = {one.folder: _kept_because(one) for one in stored if one.address not in used}
    used |= _made_from({*used, *(one.address for one in stored if reasons.get(one.folder))}, stored)
    left = [one for one in stored if one.folder in reasons and not _belongs(one, used)]
    dependents: dict[str, list[str]] = defaultdict(list)
    for one in left:
        for address in one.inputs:
            dependents[address].append(one.label)
    return [Unused(one, dependents[one.address], reasons[one.folder]) for one in left]


def _belongs(one: Stored, used: set[str]) -> bool:
    """Whether an artifact that no run leads to is kept for another reason than its owner or its use."""
    training = one.description.get("settings", {}).get("training")
    return one.stage in WITHOUT_RUN or one.address in used or training in used


def _kept_because(one: Stored) -> str:
    if one.is_linked:
        return "a symbolic link"
    if not is_own(one.folder):
        return f"belongs to {one.user}"
    if not one.is_own:
        return "holds files of others"
    return "in use" if one.is_in_use else ""


def _made_from(addresses: set[str], stored: Sequence[Stored]) -> set[str]:
    """Returns the addresses of all inputs, direct or not, of the artifacts with ``addresses``."""
    by_address = defaultdict(list)
    for one in stored:
        by_address[one.address].append(one)
    found, left = set[str](), list(addresses)
    while left:
        new = {address for one in by_address[left.pop()] for address in one.inputs} - found
        found |= new
        left += new
    return found


def used_addresses(root: Path) -> set[str]:
    """Returns every address in a run.json below ``root``: of its stages, and of artifacts that its settings name.

    A copy of run.json that queued jobs read counts until all its stages are finished.

    Raises:
        ArtifactError: when one, or the folder of a run, cannot be read.
    """
    try:
        files = [path for folder in _listed(root / "runs") for path in _listed(folder)]
        return set[str]().union(*(_addresses_in(path) for path in files if fnmatch(path.name, "run*.json")))
    except PermissionError as error:
        remedy = "ask its owner for the right to read it"
        where = str(error.filename or root)
        raise ArtifactError(where, "cannot be read, so what it uses is unknown", remedy) from None


def _addresses_in(run_json: Path) -> set[str]:
    try:
        run, text = SavedRun.read(run_json), run_json.read_text(encoding="utf-8")
    except FileNotFoundError:  # the command that held it has ended
        return set()
    if run_json.name.startswith("run-") and all(step.is_whole for step in run.steps):
        return set()
    return {*ADDRESS.findall(text), *(step.address for step in run.steps)}


def leftovers(root: Path) -> list[Stored]:
    """Returns the folders that a killed removal has renamed and not removed."""
    paths = sorted(path for stage in STAGES for path in (root / stage).glob(f"{UNFINISHED}*") if path.is_dir())
    return [one for one in map(Stored, paths) if not one.is_linked and one.is_own and _is_left(one)]


def _is_left(one: Stored) -> bool:
    owner = Owner.of_unfinished(one.folder.name)
    if owner is None or not ADDRESS.fullmatch(one.folder.name.rpartition("-")[2]):
        return False
    return owner.is_dead if owner.is_here else time.time() - one.folder.stat().st_ctime > DAY_SECONDS


def remove(one: Stored, root: Path) -> bool:
    """Removes an unused artifact. Returns False when a run or a process has begun to use it meanwhile.

    When the check fails or is interrupted, the artifact gets its name back, too.
    """
    if one.is_in_use:
        return False
    renamed = temporary_path(one.folder)
    one.folder.rename(renamed)
    is_unused = False
    try:
        is_unused = not Stored(renamed).is_in_use and one.address not in used_addresses(root)
    finally:
        if not is_unused and not one.folder.exists():
            renamed.rename(one.folder)
    if is_unused:
        remove_leftover(renamed)
    return is_unused


def remove_leftover(folder: Path) -> None:
    """Removes a renamed folder, its manifest first: nothing takes what is left for an artifact."""
    (folder / "manifest.json").unlink(missing_ok=True)
    shutil.rmtree(folder)
