"""Writes, verifies and removes checkpoints; a checkpoint is whole or not there.

    checkpoints/
        step_00000050/
            manifest.json       format, state of training, sizes and SHA-256 of all files below; written last
            state/00000.safetensors, ...    one per rank (train/engine/fragments.py)
        writing-step_00000100/  is being written: renamed when its manifest and all bytes are on the disk
        removing-step_00000025/ is being removed

The newest checkpoint is the highest step whose manifest verifies; there is no pointer to it. A kill at any moment
leaves at most a ``writing-`` or ``removing-`` folder, which the next start removes. A damaged checkpoint is skipped
with a message.

Commands read checkpoints, too, so no torch is imported here; together.py is for several ranks.
"""

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.file_records import FileRecord, refuse_outside, sync
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.train.checkpoint.names import MANIFEST, checkpoint_name, checkpoints
from headrace.train.checkpoint.state import State, rollback_step

FORMAT = 3
STATE = "state"


class Snapshot(Protocol):
    """A copy of one rank's share of the state."""

    def write(self, path: Path) -> None: ...


@dataclasses.dataclass(frozen=True)
class Keeping:
    """The settings of ``TrainingConfig`` that decide which checkpoints are kept."""

    keep_last: int
    keep_every: int | None = None
    spike_rollback_every: int | None = None


def write_share(writing: Path, snapshot: Snapshot, rank: int) -> tuple[str, FileRecord]:
    """Writes ``snapshot`` and syncs it to the disk; returns the file's name and record."""
    file = f"{STATE}/{rank:05d}.safetensors"
    (writing / STATE).mkdir(parents=True, exist_ok=True)
    snapshot.write(writing / file)
    return file, _synced(writing / file)


def commit(folder: Path, writing: Path, state: State, records: dict[str, FileRecord]) -> None:
    """Commits the checkpoint of ``state``: writes the manifest into ``writing``, and renames it."""
    files = {file: dataclasses.asdict(record) for file, record in records.items()}
    write_sealed(writing / MANIFEST, {"format": FORMAT, **dataclasses.asdict(state), "files": files})
    sync(writing / STATE)
    sync(writing)
    final = folder / checkpoint_name(state.step)
    remove(final)
    writing.rename(final)
    sync(folder)


def adopt(folder: Path, path: Path, state: State) -> None:
    """Commits the files of the checkpoint at ``path``, of another training, as one of ``folder`` with ``state``.

    They are hard links: they take no space, and stay when the other training removes its own.
    """
    writing = folder / f"writing-{checkpoint_name(state.step)}"
    (writing / STATE).mkdir(parents=True)
    records = {file: FileRecord(**record) for file, record in _manifest(path)["files"].items()}
    for file in records:
        os.link(path / file, writing / file)
    commit(folder, writing, state, records)


def newest(folder: Path, spike_rollback_every: int | None = None) -> tuple[Path, State] | None:
    """Returns the whole checkpoint with the highest step, and its state of training; None when there is none.

    The checkpoint that a spike after it would return to must be whole, too. Skipped ones are named on stderr.
    """
    return first_whole(newest_first(folder), spike_rollback_every, verify)


def newest_first(folder: Path) -> list[Path]:
    """Returns all checkpoints in ``folder``, the highest step first."""
    return list(reversed(checkpoints(folder).values()))


def first_whole(
    paths: Sequence[Path], spike_rollback_every: int | None, verified: Callable[[Path], State], reports: bool = True
) -> tuple[Path, State] | None:
    """Returns the first of ``paths`` that is whole by ``verified``, as ``newest`` does.

    With ``reports`` it prints why the ones before it are not.
    """
    for path in paths:
        try:
            state = verified(path)
            kept_step = rollback_step(state.step, spike_rollback_every)
            if kept_step not in (0, state.step):
                verified(path.with_name(checkpoint_name(kept_step)))
            return path, state
        except ArtifactError as error:
            if reports:
                print(f"{error} (passed over)", file=sys.stderr, flush=True)
    return None


def verify(path: Path, part: int = 0, parts: int = 1) -> State:
    """Compares the files of the checkpoint at ``path`` with its manifest, and returns its state of training.

    Of several ``parts`` of the files it compares the one with the number ``part``.

    Raises:
        ArtifactError: when a file is missing, or has another size or checksum.
    """
    for file, record in sorted(_manifest(path)["files"].items())[part::parts]:
        if not FileRecord(**record).fits(path / file):
            raise ArtifactError(str(path / file), "is damaged or missing", f"remove {path}")
    return read_state(path)


def read_state(path: Path) -> State:
    """Returns the state of training in the checkpoint at ``path``, whose other files are not compared.

    Raises:
        ArtifactError: when its manifest is damaged or missing.
    """
    manifest = _manifest(path)
    return State(**{field.name: manifest[field.name] for field in dataclasses.fields(State) if field.name in manifest})


def state_files(path: Path) -> list[Path]:
    """Returns the files that the manifest of the checkpoint at ``path`` lists: those that its ranks wrote."""
    return [path / file for file in sorted(_manifest(path)["files"])]


def _manifest(path: Path) -> dict[str, Any]:
    if not (path / MANIFEST).is_file():
        raise ArtifactError(str(path), f"has no {MANIFEST}", "remove it")
    manifest = read_sealed(path / MANIFEST)
    if (found := manifest.get("format")) != FORMAT:
        raise ArtifactError(str(path), f"has format {found}, not {FORMAT}", "remove it")
    refuse_outside(path / MANIFEST, manifest["files"])
    return manifest


def check_resumable(found: State, data: dict[str, str]) -> None:
    """Checks that ``found`` was trained on ``data``, in the same order: else it cannot be resumed exactly.

    Raises:
        ArtifactError: naming what changed.
    """
    if found.data != data:
        names = sorted((found.data.keys() | data.keys()) - {"order"})
        changed = ", ".join(name for name in names if found.data.get(name) != data.get(name))
        wrong = f"the checkpoint of step {found.step} was trained on other data: {changed} changed"
        raise ArtifactError("weights", wrong, "bring that back, or use another root")


def prune(folder: Path, keeping: Keeping, last_step: int, best_step: int | None = None) -> None:
    """Removes checkpoints after that of ``last_step``, the last one that was committed, is whole.

    It keeps the newest ``keep_last``, those that a spike after them returns to, those of steps that are multiples of
    ``keep_every``, and that of ``best_step``. None after ``last_step`` is kept: the training was resumed from an
    earlier one because these are damaged or have an older format.
    """
    paths = checkpoints(folder)
    newest_steps = [step for step in paths if step <= last_step][-keeping.keep_last :]
    kept = {best_step, *newest_steps, *(rollback_step(step, keeping.spike_rollback_every) for step in newest_steps)}
    for step, path in paths.items():
        is_regular = keeping.keep_every is not None and step % keeping.keep_every == 0
        if step > last_step or not (step in kept or is_regular):
            remove(path)


def sweep(folder: Path) -> None:
    """Removes folders that a kill left half written or half removed."""
    for pattern in ("writing-*", "removing-*"):
        for path in folder.glob(pattern):
            shutil.rmtree(path)


def remove(path: Path) -> None:
    """Removes a checkpoint; a kill in between leaves nothing that looks like a checkpoint."""
    if path.exists():
        away = path.with_name(f"removing-{path.name}")
        path.rename(away)
        shutil.rmtree(away)


def _synced(path: Path) -> FileRecord:
    """Syncs the file to the disk and returns its record."""
    sync(path)
    return FileRecord.of(path)
