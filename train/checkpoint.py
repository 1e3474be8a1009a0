"""Checkpoints that are whole or not there.

    checkpoints/
        step_00000050/
            manifest.json       format, where training stood, sizes and SHA-256 of all files below; written last
            state/...           DeepSpeed's files, one or more from every rank
        writing-step_00000100/  on its way: renamed when its manifest and all bytes are on the disk
        removing-step_00000025/ on its way out

The newest checkpoint is the highest step whose manifest verifies; nothing points at it. A kill at any moment leaves at
most a ``writing-`` or ``removing-`` folder, which the next start sweeps away. A damaged checkpoint is passed over with
a message.
"""

import dataclasses
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Protocol

import torch.distributed as dist

from pipeline.core.artifact import FileRecord, read_json, write_json
from pipeline.core.errors import ArtifactError, ConfigError
from train.distributed import Ranks, gather

FORMAT = 2
MANIFEST = "manifest.json"


@dataclasses.dataclass(frozen=True)
class State:
    """Where training stands: with the weights, everything that decides the steps to come.

    The order of rows is a function of (seed, rows_seen) and dropout's random numbers one of (seed, step, rank), so no
    generator's state is kept.
    """

    step: int
    """Updates done."""
    rows_seen: int
    tokens_seen: int
    """Target tokens, so without padding."""
    run_id: str
    """The tracker's, so that a resumed run continues its curve."""
    data: dict[str, str]
    """What decides which rows come when: each artifact and setting, and a hash of it; ``order`` is one of them all."""
    layout: dict[str, Any]
    """Number of ranks and ZeRO stage: DeepSpeed's files can be read back with the same ones only."""

    def after(self, rows: int, tokens: int) -> "State":
        """The state one update of ``rows`` and ``tokens`` later."""
        return dataclasses.replace(
            self, step=self.step + 1, rows_seen=self.rows_seen + rows, tokens_seen=self.tokens_seen + tokens
        )


class Saves(Protocol):
    """The part of the engine that is needed here."""

    def save(self, folder: Path) -> None: ...


def name(step: int) -> str:
    return f"step_{step:08d}"


def save(folder: Path, state: State, engine: Saves, ranks: Ranks) -> Path:
    """Write a checkpoint of all ranks below ``folder``; all ranks call it. Returns its folder, whole."""
    final, writing = folder / name(state.step), folder / f"writing-{name(state.step)}"
    engine.save(writing)
    dist.barrier()
    files = sorted(path for path in writing.rglob("*") if path.is_file())
    mine = {str(path.relative_to(writing)): _settled(path) for path in files[ranks.rank :: ranks.world]}
    records = {file: dataclasses.asdict(record) for part in gather(mine) for file, record in part.items()}
    if ranks.first:
        write_json(writing / MANIFEST, {"format": FORMAT, **dataclasses.asdict(state), "files": records})
        remove(final)
        writing.rename(final)
        _sync_folder(folder)
    dist.barrier()
    return final


def newest(folder: Path) -> tuple[Path, State] | None:
    """The checkpoint with the highest step that is whole, and where training stood; None when there is none.

    Says on stderr which ones it passed over, and why.
    """
    for path in sorted(folder.glob("step_*"), reverse=True):
        try:
            return path, verify(path)
        except ArtifactError as error:
            print(f"{error} (passed over)", file=sys.stderr, flush=True)
    return None


def verify(path: Path) -> State:
    """Read the manifest of the checkpoint at ``path`` and compare every file with it.

    Raises:
        ArtifactError: when a file is missing, or its size or checksum is another.
    """
    if not (path / MANIFEST).is_file():
        raise ArtifactError(str(path), f"has no {MANIFEST}", "remove it")
    manifest = read_json(path / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise ArtifactError(str(path), f"has format {manifest.get('format')}, not {FORMAT}", "remove it")
    for file, record in manifest["files"].items():
        if not (path / file).is_file() or FileRecord.of(path / file) != FileRecord(**record):
            raise ArtifactError(str(path / file), "is damaged or missing", f"remove {path}")
    return State(**{field.name: manifest[field.name] for field in dataclasses.fields(State)})


def check_resumable(found: State, data: dict[str, str], layout: dict[str, Any]) -> None:
    """Refuse what cannot be resumed exactly.

    Raises:
        ConfigError: when the number of ranks or the ZeRO stage differs from the checkpoint's.
        ArtifactError: when it was trained on other data, or in another order, naming what changed.
    """
    if found.data != data:
        names = sorted((found.data.keys() | data.keys()) - {"order"})
        changed = ", ".join(name for name in names if found.data.get(name) != data.get(name))
        wrong = f"the checkpoint of step {found.step} was trained on other data: {changed} changed"
        raise ArtifactError("weights", wrong, "bring that back, or use another root")
    for key, value in layout.items():
        if found.layout[key] != value:
            raise ConfigError(
                "weights",
                f"the checkpoint of step {found.step} has {key} {found.layout[key]}, this run has {value}",
                f"run with {key} {found.layout[key]}: a checkpoint cannot be reshaped yet",
            )


def prune(folder: Path, keep_last: int, keep_every: int | None) -> None:
    """Remove all checkpoints but the newest ``keep_last`` and those of steps that are multiples of ``keep_every``."""
    paths = sorted(folder.glob("step_*"))
    for path in paths[:-keep_last]:
        if keep_every is None or int(path.name.removeprefix("step_")) % keep_every:
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
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
    return FileRecord.of(path)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
