"""Checks before the first step, so that a training that cannot succeed does not begin.

    agreement   settings, data manifests, code and libraries are the same on all ranks
    folder      all ranks can write to the training's folder, and it is the same folder for all
    space       the checkpoints that will be kept and the export fit on the disk

The bytes of the data are compared with their checksums: by a single rank when it opens a file (``Artifact.path``), by
several ranks together before the first step, each a part. What one rank finds, all ranks raise, so that no rank waits
for another.
"""

import dataclasses
import functools
import hashlib
import importlib.metadata
import math
import os
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, RetryableError
from headrace.pipeline.core.settings import digest
from headrace.pipeline.core.stage import Inputs, Stage
from headrace.train.checkpoint.names import CHECKPOINTS
from headrace.train.distributed.processes import Ranks, gather, on_each, on_first
from headrace.train.engine.optimizers.base import Optimizer, Shapes, checkpoint_bytes
from headrace.train.parts import FP32
from headrace.train.training_config import TrainingConfig

SHOWING_SECONDS = 60.0
"""The time after which a network file system shows a file of another node (the limit of NFS's cache, acdirmax)."""
ROUND_BYTES = 2**36
"""The ranks exchange what they found after this number of bytes each: minutes, at the speed of one disk."""
LIBRARIES = ("torch", "deepspeed", "numpy")
SOURCES = Path(__file__).resolve().parents[2]


def check(
    stage: Stage,
    training: TrainingConfig,
    optimizer: Optimizer,
    shapes: Shapes,
    inputs: Inputs,
    folder: Path,
    ranks: Ranks,
) -> None:
    """Makes all checks for the ``training`` of ``stage``, of a model with these ``shapes``; all ranks call it.

    Raises:
        ConfigError: when ranks were not started alike.
        RetryableError: when a node cannot write to ``folder``: another node may do; when the disk has no space for the
            checkpoints: it may be freed.
    """
    check_agreement(gather(identity(stage, inputs)))
    check_folder(folder, ranks)
    on_first(ranks, lambda: check_room(training, optimizer, shapes, folder))


def identity(stage: Stage, inputs: Inputs) -> dict[str, str]:
    """Returns what must be the same on all ranks, each with its value or a hash of it."""
    facts = {"settings": digest(dataclasses.asdict(stage)), "code": code_version()}
    facts |= {f"manifest of {name}": digest(artifact.manifest) for name, artifact in inputs.items()}
    return facts | {name: importlib.metadata.version(name) for name in LIBRARIES}


def code_version() -> str:
    """Returns a hash of the source of our packages."""
    total = hashlib.sha256()
    for package in ("data_prep", "pipeline", "train"):
        for path in sorted((SOURCES / package).rglob("*.py")):
            total.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()[:12]


def verify_together(artifacts: Sequence[Artifact], ranks: Ranks) -> None:
    """Compares the files of ``artifacts`` with their checksums: each rank a part, all trust the others for theirs.

    After every ROUND_BYTES the ranks wait for each other, so that no round takes longer than a process group waits.

    Raises:
        ArtifactError: on all ranks, when a file is damaged or missing.
    """
    files = [(artifact, name) for artifact in artifacts for name in sorted(artifact.manifest["files"])]
    size = sum(artifact.manifest["files"][name]["bytes"] for artifact, name in files)
    rounds = max(1, math.ceil(size / ranks.world / ROUND_BYTES))
    mine = files[ranks.rank :: ranks.world]
    for number in range(rounds):
        on_each(functools.partial(_compare, mine[number::rounds]))
    for artifact, name in files:
        artifact.take_as_whole(name)


def _compare(files: Sequence[tuple[Artifact, str]]) -> None:
    for artifact, name in files:
        artifact.path(name)


def check_agreement(identities: Sequence[Mapping[str, str]]) -> None:
    """Refuses ranks that differ from rank 0 in anything."""
    for rank, other in enumerate(identities):
        for name, value in identities[0].items():
            if other.get(name) != value:
                problem = f"ranks 0 and {rank} differ in {name} ({value}, {other.get(name)})"
                raise ConfigError("weights", problem, "start all ranks from one run.json and one installation")


def check_folder(folder: Path, ranks: Ranks) -> None:
    """Checks that every rank can write to ``folder`` and read what rank 0 wrote there."""
    token = folder / f"health-{on_first(ranks, lambda: uuid.uuid4().hex)}"
    problem = _write(folder, token if ranks.first else None)
    if not any(gather(problem)) and not _shows(token):
        problem = "does not show what rank 0 writes"
    of_ranks = gather((socket.gethostname(), problem))  # so all have looked for the token when it is removed
    if ranks.first:
        token.unlink(missing_ok=True)
    for rank, (host, problem) in enumerate(of_ranks):
        if problem:
            remedy = "make it a folder that all nodes share and may write to"
            raise RetryableError(str(folder), f"{problem} on rank {rank} ({host})", remedy)


def check_room(training: TrainingConfig, optimizer: Optimizer, shapes: Shapes, folder: Path) -> None:
    """Refuses to fill the disk of ``folder``: what is kept, one more on its way, and the export, less what is there."""
    kept = training.keep_last + (training.steps // training.keep_every if training.keep_every else 0)
    if training.spike_rollback_every:
        kept += 1 + (training.keep_last - 1) * training.save_every // training.spike_rollback_every
    saved = min(kept, 1 + sum((training.steps - 1) // period for period in training.save_periods)) + 1
    present = sum(path.stat().st_size for path in folder.rglob(f"{CHECKPOINTS}/**/*") if path.is_file())
    values = sum(math.prod(shape) for of_role in shapes.values() for shape in of_role)
    needed = max(0, saved * checkpoint_bytes(optimizer, shapes) - present) + FP32 * values
    free = shutil.disk_usage(folder).free
    if free < needed:
        problem = f"{free / 1e9:.2f} GB are free, the checkpoints to be kept and the export need {needed / 1e9:.2f} GB"
        raise RetryableError(str(folder), problem, "free disk, or keep fewer (training.keep_last, training.keep_every)")


def _write(folder: Path, token: Path | None) -> str:
    """Writes to ``folder``, and ``token``; returns what prevents it, or an empty text."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"headrace")
            os.fsync(file.fileno())
        if token:
            token.touch()
    except OSError as error:
        return f"cannot be written to ({error.strerror})"
    return ""


def _shows(path: Path) -> bool:
    deadline = time.monotonic() + SHOWING_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
