"""Checkpoints that are whole or not there.

    checkpoints/
        step_00000050/
            manifest.json       format, where training stood, sizes and SHA-256 of all files below; written last
            state/00000.safetensors, ...    one of every rank (train/engine/fragments.py)
        writing-step_00000100/  on its way: renamed when its manifest and all bytes are on the disk
        removing-step_00000025/ on its way out

The newest checkpoint is the highest step whose manifest verifies; nothing points at it. A kill at any moment leaves at
most a ``writing-`` or ``removing-`` folder, which the next start sweeps away. A damaged checkpoint is passed over with
a message.
"""

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Any, Protocol

from headrace.pipeline.core.artifact import FileRecord, read_sealed, sync, write_sealed
from headrace.pipeline.core.containment import refuse_outside
from headrace.pipeline.core.errors import ArtifactError
from headrace.train.checkpoint.names import MANIFEST, checkpoint_name, checkpoints
from headrace.train.checkpoint.state import State, rollback_step

FORMAT = 3
STATE = "state"


class Snapshot(Protocol):
    """One rank's share of the state, at rest."""

    def write(self, path: Path) -> None: ...


@dataclasses.dataclass(frozen=True)
class Keeping:
    """Which checkpoints stay; their names are those of ``TrainingConfig``."""

    keep_last: int
    keep_every: int | None = None
    spike_rollback_every: int | None = None


def write_share(writing: Path, snapshot: Snapshot, rank: int) -> tuple[str, FileRecord]:
    """Have ``snapshot`` on the disk; the file's name and record."""
    file = f"{STATE}/{rank:05d}.safetensors"
    (writing / STATE).mkdir(parents=True, exist_ok=True)
    snapshot.write(writing / file)
    return file, _settled(writing / file)


def commit(folder: Path, writing: Path, state: State, records: dict[str, FileRecord]) -> None:
    """Make ``writing``, which has the files of all ranks, the checkpoint of ``state``: by its manifest and a rename."""
    files = {file: dataclasses.asdict(record) for file, record in records.items()}
    write_sealed(writing / MANIFEST, {"format": FORMAT, **dataclasses.asdict(state), "files": files})
    sync(writing / STATE)
    sync(writing)
    final = folder / checkpoint_name(state.step)
    remove(final)
    writing.rename(final)
    sync(folder)


def newest(folder: Path, spike_rollback_every: int | None = None) -> tuple[Path, State] | None:
    """The checkpoint with the highest step that is whole, and where training stood; None when there is none.

    The one that a spike after it would lead back to must be whole, too. Says on stderr which it passed over, and why.
    """
    for path in reversed(checkpoints(folder).values()):
        try:
            state = verify(path)
            kept_step = rollback_step(state.step, spike_rollback_every)
            if kept_step not in (0, state.step):
                verify(folder / checkpoint_name(kept_step))
            return path, state
        except ArtifactError as error:
            print(f"{error} (passed over)", file=sys.stderr, flush=True)
    return None


def verify(path: Path) -> State:
    """Read the manifest of the checkpoint at ``path`` and compare every file with it.

    Raises:
        ArtifactError: when a file is missing, or its size or checksum is another.
    """
    manifest = _manifest(path)
    for file, record in manifest["files"].items():
        if not (path / file).is_file() or FileRecord.of(path / file) != FileRecord(**record):
            raise ArtifactError(str(path / file), "is damaged or missing", f"remove {path}")
    return State(**{field.name: manifest[field.name] for field in dataclasses.fields(State) if field.name in manifest})


def state_files(path: Path) -> list[Path]:
    """The files of the checkpoint at ``path`` that its ranks wrote: those that its manifest lists, and no others."""
    return [path / file for file in sorted(_manifest(path)["files"])]


def _manifest(path: Path) -> dict[str, Any]:
    if not (path / MANIFEST).is_file():
        raise ArtifactError(str(path), f"has no {MANIFEST}", "remove it")
    manifest = read_sealed(path / MANIFEST)
    if manifest["format"] != FORMAT:
        raise ArtifactError(str(path), f"has format {manifest['format']}, not {FORMAT}", "remove it")
    refuse_outside(path / MANIFEST, manifest["files"])
    return manifest


def check_resumable(found: State, data: dict[str, str]) -> None:
    """Refuse what cannot be resumed exactly.

    Raises:
        ArtifactError: when it was trained on other data, or in another order, naming what changed.
    """
    if found.data != data:
        names = sorted((found.data.keys() | data.keys()) - {"order"})
        changed = ", ".join(name for name in names if found.data.get(name) != data.get(name))
        wrong = f"the checkpoint of step {found.step} was trained on other data: {changed} changed"
        raise ArtifactError("weights", wrong, "bring that back, or use another root")


def prune(folder: Path, keeping: Keeping) -> None:
    """Remove all checkpoints but the newest ``keep_last``, those that a spike leads back to from there, and those of
    steps that are multiples of ``keep_every``."""
    paths = checkpoints(folder)
    newest_steps = list(paths)[-keeping.keep_last :]
    kept = {*newest_steps, *(rollback_step(step, keeping.spike_rollback_every) for step in newest_steps)}
    for step, path in paths.items():
        if step not in kept and (keeping.keep_every is None or step % keeping.keep_every):
            remove(path)


def sweep(folder: Path) -> None:
    """Remove what a kill left half written or half removed."""
    for pattern in ("writing-*", "removing-*"):
        for path in folder.glob(pattern):
            shutil.rmtree(path)


def remove(path: Path) -> None:
    """Remove a checkpoint so that a kill half-way leaves nothing that looks like one."""
    if path.exists():
        away = path.with_name(f"removing-{path.name}")
        path.rename(away)
        shutil.rmtree(away)


def _settled(path: Path) -> FileRecord:
    """The file's record, once its bytes are on the disk."""
    sync(path)
    return FileRecord.of(path)
