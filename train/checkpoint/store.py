"""Writes, verifies and removes checkpoints; a checkpoint is whole or not there.

    checkpoints/
        step_00000050/
            manifest.json       format, state of training, sizes and SHA-256 of all files below; written last
            state/00000.safetensors, ...    one per rank (train/engine/fragments.py)
        writing-step_00000100/  is being written: renamed when its manifest and all bytes are on the disk
        removing-step_00000025/ is being removed

The newest checkpoint is the highest step whose manifest verifies; there is no pointer to it. A kill at any moment
leaves at most a ``writing-`` or ``removing-`` folder, which the next start removes. A damaged checkpoint is passed over
with its reason. When all are damaged, a start is refused: only where nothing was saved does a training begin at step 0.

Commands read checkpoints, too, so no torch is imported here; saver.py has it for several ranks.
"""

import dataclasses
import errno
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace.pipeline.core.artifact_files import FileRecord, make, refuse_outside, sync
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.settings import differing
from headrace.train.checkpoint.names import MANIFEST, checkpoint_name, checkpoints, step_of
from headrace.train.checkpoint.state import State, rollback_step

FORMAT = 3
STATE = "state"
DAMAGE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EIO, errno.EBADMSG, errno.EUCLEAN))
"""Errors of the operating system that mean: this file is damaged. Others (no permission, a file server that does not
answer) are about the reader: they end a start, because the checkpoint may be whole."""


class Snapshot(Protocol):
    """A copy of one rank's share of the state."""

    def write(self, path: Path) -> None: ...


def write_share(writing: Path, snapshot: Snapshot, rank: int) -> tuple[str, FileRecord]:
    """Writes ``snapshot`` and syncs it to the disk; returns the file's name and record."""
    file = f"{STATE}/{rank:05d}.safetensors"
    make(writing / STATE)
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
    _, records = _contents(path)
    for file in records:
        os.link(path / file, writing / file)
    commit(folder, writing, state, records)


@dataclasses.dataclass(frozen=True)
class Newest:
    """A checkpoint to go on from, and the problems of newer ones."""

    path: Path
    state: State
    problems: Sequence[ArtifactError] = ()

    @property
    def reason(self) -> str:
        """Why it is this one, as text."""
        if not self.problems:
            return "its newest checkpoint"
        return f"its newest whole checkpoint (passed over: {_text(self.problems)})"


def newest(
    folder: Path,
    spike_rollback_every: int | None = None,
    saved: dict[int, Path] | None = None,
    verified: Callable[[Path], State] | None = None,
) -> Newest | None:
    """Returns the whole checkpoint in ``folder`` with the highest step; None when nothing was saved there.

    The checkpoint that a spike after it would return to must be whole, too.

    Args:
        folder: the folder of checkpoints.
        spike_rollback_every: the steps between those that a spike returns to.
        saved: the checkpoints there, by step; None: they are listed.
        verified: returns the state of a whole checkpoint; None: ``verify``.

    Raises:
        ArtifactError: when there are checkpoints and none is whole, with the problem of each.
    """
    problems = list[ArtifactError]()
    for path in reversed((checkpoints(folder) if saved is None else saved).values()):
        try:
            return Newest(path, _with_way_back(path, spike_rollback_every, verified or verify), problems)
        except ArtifactError as error:
            problems.append(error)
    if not problems:
        return None
    problem = f"none of the checkpoints is whole: {_text(problems)}"
    raise ArtifactError(str(folder), problem, f"restore one; to begin at step 0: rm -r {shlex.quote(str(folder))}")


def _with_way_back(path: Path, spike_rollback_every: int | None, verified: Callable[[Path], State]) -> State:
    """Verifies the checkpoint at ``path``, and that of the step that a spike after it returns to. Returns its state."""
    state = verified(path)
    kept_step = rollback_step(state.step, spike_rollback_every)
    if kept_step not in (0, state.step):
        try:
            verified(path.with_name(checkpoint_name(kept_step)))
        except ArtifactError as error:
            problem = f"{error.problem}, and a spike after step {state.step} leads back to it"
            raise ArtifactError(error.where, problem, error.remedy) from None
    return state


def _text(problems: Sequence[ArtifactError]) -> str:
    return "; ".join(f"{error.where} {error.problem}" for error in problems)


def verify(path: Path, part: int = 0, parts: int = 1) -> State:
    """Compares the files of the checkpoint at ``path`` with its manifest, and returns its state of training.

    Of several ``parts`` of the files it compares the one with the number ``part``.

    Raises:
        ArtifactError: when a file is missing, or has another size or checksum.
    """
    state, records = _contents(path)
    for file, record in sorted(records.items())[part::parts]:
        try:
            fits = record.fits(path / file)
        except OSError as error:
            raise _unreadable(path, path / file, error) from error
        if not fits:
            raise ArtifactError(str(path / file), "is damaged or missing", f"remove {path}")
    return state


def read_state(path: Path) -> State:
    """Returns the state of training in the checkpoint at ``path``, whose other files are not compared.

    Raises:
        ArtifactError: when its manifest is damaged or missing.
    """
    return _contents(path)[0]


def state_files(path: Path) -> list[Path]:
    """Returns the files that the manifest of the checkpoint at ``path`` lists: those that its ranks wrote."""
    return [path / file for file in sorted(_contents(path)[1])]


def _contents(path: Path) -> tuple[State, dict[str, FileRecord]]:
    """Returns what the manifest of the checkpoint at ``path`` has: the state, and the records of its files.

    Raises:
        ArtifactError: when it is missing or damaged, or belongs to another step.
    """
    manifest = path / MANIFEST
    try:
        if not manifest.is_file():
            raise ArtifactError(str(path), f"has no {MANIFEST}", "remove it")
        values = read_sealed(manifest)
    except OSError as error:
        raise _unreadable(path, manifest, error) from error
    if (file_format := values.get("format")) != FORMAT:
        raise ArtifactError(str(path), f"has format {file_format}, not {FORMAT}", "remove it")
    try:
        refuse_outside(manifest, values["files"])
        records = {file: FileRecord(**record) for file, record in values["files"].items()}
        state = State(**{field.name: values[field.name] for field in dataclasses.fields(State) if field.name in values})
    except (KeyError, TypeError, AttributeError):
        raise ArtifactError(str(manifest), "is not that of a checkpoint", f"remove {path}") from None
    if state.step != step_of(path) or not records:
        problem = f"is that of step {state.step}, with {len(records)} files"
        raise ArtifactError(str(manifest), problem, f"remove {path}")
    return state, records


def _unreadable(path: Path, file: Path, error: OSError) -> Exception:
    """Returns ``error`` about a ``file`` of the checkpoint at ``path`` as damage, if it is one."""
    if error.errno not in DAMAGE:
        return error
    return ArtifactError(str(file), f"cannot be read ({error.strerror})", f"remove {path}")


def check_resumable(saved: State, data: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Checks that ``saved`` was trained on ``data``, in the same order, with the same ``settings``: else it cannot be
    resumed exactly.

    Raises:
        ArtifactError: naming what changed.
    """
    if saved.data != data:
        names = sorted((saved.data.keys() | data.keys()) - {"order"})
        changed = ", ".join(name for name in names if saved.data.get(name) != data.get(name))
        problem = f"the checkpoint of step {saved.step} was trained on other data: {changed} changed"
        raise ArtifactError("weights", problem, "bring that back, or use another root")
    if saved.settings and settings and (names := differing(_decisive(saved.settings), _decisive(settings))):
        problem = f"the checkpoint of step {saved.step} is of a training with other settings: {', '.join(names)}"
        raise ArtifactError("weights", problem, "remove it, or bring back that of this training")


def _decisive(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**settings, **settings["hashed"], "hashed": None}


def sweep(folder: Path) -> None:
    """Removes folders that a kill left half written or half removed."""
    for pattern in ("writing-*", "removing-*"):
        for path in folder.glob(pattern):
            _delete(path)


def remove(path: Path) -> None:
    """Removes a checkpoint; a kill in between leaves nothing that looks like a checkpoint."""
    if path.exists() or path.is_symlink():
        away = path.with_name(f"removing-{path.name}")
        path.rename(away)
        _delete(away)


def _delete(path: Path) -> None:
    """Removes a folder with all files, or what damage or a user put in its place: a file, a link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _synced(path: Path) -> FileRecord:
    """Syncs the file to the disk and returns its record."""
    sync(path)
    return FileRecord.of(path)


@dataclasses.dataclass(frozen=True)
class Keeping:
    """The settings of ``TrainingConfig`` that decide which checkpoints are kept."""

    keep_last: int
    keep_every: int | None = None
    spike_rollback_every: int | None = None


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
