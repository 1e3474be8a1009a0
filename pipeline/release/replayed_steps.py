"""Writes the model of a release again, and trains its last steps again, from the checkpoint before the last one.

step_00000600 ── steps 601 to 700 ──> hf/*, step_00000700/state/* ── SHA-256 ──> the same in the release
                                  └─> losses of metrics.jsonl, weights: within BOUNDS

On the model of machine that trained, in as many threads, every byte is the same. Other hardware adds numbers up in
another order: there the losses and the weights may differ by BOUNDS, and the optimizer state is not compared.
"""

import dataclasses
import math
import shutil
import tempfile
from pathlib import Path

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.metrics_file import METRICS, metrics_path, read_metrics
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.core.work_log import Attempt
from headrace.pipeline.export.export_model import write_model
from headrace.pipeline.release.finding import OTHER, SAME, UNCHECKED, Finding, compared
from headrace.pipeline.release.release_folder import Release
from headrace.pipeline.run.local_ranks import launch
from headrace.pipeline.run.mirror import MANIFEST, checkpoint_records, label_of
from headrace.pipeline.run.planned_stage import save_stage
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints
from headrace.train.checkpoint.store import state_files
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import read_weights
from headrace.train.families.initial_weights import PREDECESSOR
from headrace.train.model.pair import build_empty
from headrace.train.weights import Weights

BOUNDS = {"fp32": 1e-3, "bf16": 2e-2, "fp16": 2e-2}
"""Precision → the largest difference on other hardware: of a loss, as a share of it; of all weights, by their norms.

100 steps of the demo in fp32, with other vector instructions and another number of threads, differed by 1.6e-7 and
9.3e-5. Half precision was not measured."""
SUBJECT, MODEL = "steps", "model"


def replayed(release: Release) -> Finding:
    """Returns whether the training gives the same from its last checkpoint but one on.

    Raises:
        HeadraceError: when it cannot be repeated here.
    """
    planned = release.stage(Weights.name)
    saved = checkpoints(planned.folder / CHECKPOINTS)
    if len(saved) < 2:
        problem = "the release has one checkpoint, and steps are repeated from an earlier one (training.keep_last=2)"
        return Finding(SUBJECT, UNCHECKED, problem)
    start, end = sorted(saved)[-2:]
    stage = planned.stage
    assert isinstance(stage, Weights)
    inputs = {name: release.artifact(name).folder for name in stage.inputs}
    silent = dataclasses.replace(stage, tracking=dataclasses.replace(stage.tracking, wandb="off"))
    with tempfile.TemporaryDirectory(prefix="headrace-") as root:
        folder = Path(root, label_of(planned.folder))
        again = dataclasses.replace(planned, stage=silent, folder=folder, inputs=inputs)
        again.refuse_other_version()
        shutil.copytree(saved[start], folder / CHECKPOINTS / saved[start].name)
        shutil.copyfile(planned.folder / METRICS, folder / METRICS)
        if (planned.folder / PREDECESSOR).is_dir():
            shutil.copytree(planned.folder / PREDECESSOR, folder / PREDECESSOR)
        with system_errors_explained(folder):
            ranks, threads = len(state_files(saved[start])), release.facts.get("threads")
            launch(silent, folder, save_stage(again), ranks, threads)
        before, now = _results(planned.folder, end), _results(folder, end)
        losses = _loss_deviation(planned.folder, folder, start)
        weights = _weight_deviation(planned.folder / "hf", folder / "hf", stage.model)
    differing, steps = [name for name in before if before[name] != now.get(name)], f"{start + 1:,} to {end:,}"
    if not differing:
        return Finding(SUBJECT, SAME, f"{steps} trained again: {len(before)} files have the same bytes")
    machine = Attempt.begin().machine
    if machine in release.facts["machines"][Weights.name]:
        return compared(SUBJECT, differing, "")
    bound = BOUNDS[stage.training.precision]
    text = (
        f"{steps} trained again on {machine}: losses differ by up to {losses:.1e}, weights by {weights:.1e}; the bound"
    )
    return Finding(SUBJECT, SAME if max(losses, weights) <= bound else OTHER, f"{text} is {bound:.0e}")


def exported(release: Release) -> Finding:
    """Returns whether the last checkpoint gives the files of the model, byte for byte; no data is read.

    Raises:
        HeadraceError: when a file is damaged.
    """
    if release.run.config.training.initial_weights:
        problem = "it has files of the model that its training began from, which is not in the release"
        return Finding(MODEL, UNCHECKED, problem)
    planned = release.stage(Weights.name)
    saved = checkpoints(planned.folder / CHECKPOINTS)
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        write_model(release.run, planned, {max(saved): saved[max(saved)]}, Path(folder))
        listed = release.artifacts[Weights.name].manifest["files"]
        names = [name for name in listed if name.startswith("hf/")]
        names += [f"hf/{path.relative_to(folder).as_posix()}" for path in Path(folder).rglob("*") if path.is_file()]
        again = {name: Path(folder, name.removeprefix("hf/")) for name in names}
        differing = [
            f"{name} is not that of the last checkpoint"
            for name, path in again.items()
            if name not in listed or not FileRecord(**listed[name]).fits(path)
        ]
    return compared(MODEL, differing, f"the last checkpoint gives its {len(again)} files, same bytes")


def _results(folder: Path, step: int) -> dict[str, FileRecord]:
    """Returns the model and the checkpoint of ``step`` in the training ``folder``."""
    listed = Artifact(folder).manifest["files"]
    model = {name: FileRecord(**record) for name, record in listed.items() if name.startswith("hf/")}
    path = checkpoints(folder / CHECKPOINTS)[step]
    return model | checkpoint_records(folder, [f"{CHECKPOINTS}/{path.name}/{MANIFEST}"])


def _loss_deviation(before: Path, now: Path, start: int) -> float:
    """Returns the largest difference of a loss after step ``start``, as a share of that in the folder ``before``."""
    losses, again = _losses(before, start), _losses(now, start)
    return max((abs(again[step] - loss) / abs(loss) for step, loss in losses.items() if loss), default=0.0)


def _weight_deviation(before: Path, now: Path, model: ModelConfig) -> float:
    """Returns the norm of the difference of all weights of two models, as a share of that of ``before``."""
    empty = build_empty(model, Encoder.load(before / "tokenizer.json").vocabulary_size)
    again = dict(read_weights(empty, now))
    difference = norm = 0.0
    for name, values in read_weights(empty, before):
        difference += float((again[name].double() - values.double()).square().sum())
        norm += float(values.double().square().sum())
    return math.sqrt(difference / norm) if norm else 0.0


def _losses(folder: Path, start: int) -> dict[int, float]:
    rows = read_metrics(metrics_path(folder))
    return {row["step"]: row["loss"] for row in rows if row["step"] > start and "loss" in row}
