"""Artifacts below a root that no run uses, and their removal.

    runs/*/run*.json ── addresses ──> used          and their inputs, and theirs
    <stage>/<address>/ ── not used ──> unused ──> renamed to tmp-<process>-<address> ──> removed

The rename makes a removal safe to kill: a folder with the name of an address is always whole. After the rename no
process finds the artifact any more, so its use is checked once more, and it gets its name back when it is used.
"""

import contextlib
import dataclasses
import errno
import functools
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from headrace.pipeline.core.claim import DAY_SECONDS, UNFINISHED, Owner, temporary_path
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.stage import FACTS, file_state
from headrace.pipeline.run.run_files import is_own
from headrace.pipeline.run.saved_runs import SavedRun
from headrace.pipeline.run.storage import ADDRESS, Stored, artifacts, listed, unreadable_stages


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
