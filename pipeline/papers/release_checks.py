"""All checks of a release, in their order: cheap ones first, and what is damaged before what would read it.

    one shard of each data stage    inputs, raw files ── phases before the last, one task of it ──> the same files
    model                           last checkpoint ── written again ──> hf/*, the same files
    steps                           last checkpoint but one ── trained again ──> hf/*, state, losses
    scores                          one benchmark ── scored again ──> answers and metrics

A phase hands its files to the next one, so the earlier phases of a stage run as a whole: of most stages there are none.

On the model of machine that trained, in as many threads, every byte is the same. Other hardware adds numbers up in
another order: there the losses and the weights may differ by BOUNDS, answers and metrics by ANSWER_BOUND, and the
optimizer state is not compared.
"""

import dataclasses
import functools
import math
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.artifact import Artifact, part_path
from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.json_files import read_json, read_sealed
from headrace.pipeline.core.metrics_file import METRICS, metrics_path, read_metrics
from headrace.pipeline.core.progress import StageProgress
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.core.text_files import read_lines
from headrace.pipeline.core.work_log import Attempt
from headrace.pipeline.papers import stored_files
from headrace.pipeline.papers.export_model import write_model
from headrace.pipeline.papers.release_folder import Release, saved_run
from headrace.pipeline.papers.stored_files import OTHER, SAME, UNCHECKED, Finding, checked, compared
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.local_ranks import launch
from headrace.pipeline.run.mirror import MANIFEST, checkpoint_records, label_of
from headrace.pipeline.run.planned_stage import PlannedStage, save_stage
from headrace.pipeline.run.workers import Workers
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints
from headrace.train.checkpoint.store import state_files
from headrace.train.config import ModelConfig
from headrace.train.evaluation.score_rows import markdown, read_scores
from headrace.train.families.hf_folder import read_weights
from headrace.train.families.initial_weights import PREDECESSOR
from headrace.train.model.transformer import build_empty
from headrace.train.scores import Scores
from headrace.train.weights import Weights


def rebuilt(release: Release, draw: random.Random) -> Iterator[Finding]:
    """Yields a finding for each data stage; ``draw`` chooses the shards."""
    with Workers(release.run.config.worker_processes) as workers:
        for name, artifact in release.artifacts.items():
            stage, shard = release.stage(name), draw.randrange(artifact.shard_count)
            if isinstance(stage.stage, Report):
                yield Finding(name, UNCHECKED, "its page shows times, which another run would not have")
            elif not stage.stage.distributed:
                yield checked(f"shard of {name}", functools.partial(rebuilt_shard, release, stage, shard, workers))


def rebuilt_shard(release: Release, stage: PlannedStage, shard: int, workers: Workers) -> Finding:
    """Computes the ``shard`` of ``stage`` again; phases before the last one run in ``workers``.

    Raises:
        HeadraceError: when an input or a raw file is missing or has changed, or another version planned the stage.
    """
    inputs = {name: release.artifact(name).folder for name in stage.inputs}
    with tempfile.TemporaryDirectory(prefix="headrace-") as root:
        again = dataclasses.replace(stage, folder=Path(root, label_of(stage.folder)), inputs=inputs)
        again.refuse_other_version()
        *before, last = again.phases
        with system_errors_explained(again.folder), StageProgress(stage.name, len(again.phases)) as progress:
            for number, phase in enumerate(before, 1):
                progress.start_phase(number, phase.name, phase.tasks, phase.raw_bytes)
                again.executor(phase).run(workers, progress)
            again.executor(last).run_task(shard)
        tasks = [(phase.name, task) for phase in before for task in range(phase.tasks)] + [(last.name, shard)]
        made = [read_sealed(part_path(again.folder, *task))["files"] for task in tasks]
    records = {name: record for files in made for name, record in files.items()}
    listed = release.artifacts[stage.name].manifest["files"]
    differing = [f"{name} has other bytes" for name, record in records.items() if listed.get(name) != record]
    text = f"shard {shard} of {last.tasks}: {len(records)} files made again, same bytes"
    return compared(f"shard of {stage.name}", differing, text)


def findings(folder: Path, root: Path, seed: int) -> Iterator[Finding]:
    """Yields the findings about the release in ``folder``; data that is not in it is read below ``root``.

    ``seed`` chooses shards and benchmarks.

    Raises:
        ConfigError: when it is no release.
    """
    saved_run(folder)
    yield stored_files.files(folder)
    try:
        release = Release.open(folder, root)
        yield stored_files.addresses(release)
    except HeadraceError as error:
        yield Finding("addresses", OTHER, str(error))
        return
    yield from stored_files.data(release)
    yield from stored_files.documents(release)
    draw = random.Random(seed)
    yield from rebuilt(release, draw)
    if Weights.name in release.artifacts:
        yield checked(MODEL, lambda: exported(release))
        yield checked(STEPS, lambda: replayed(release))
    if Scores.name in release.artifacts:
        yield checked(SCORES, lambda: scored_again(release, draw))


BOUNDS = {"fp32": 1e-3, "bf16": 2e-2, "fp16": 2e-2}
"""Precision → the largest difference on other hardware: of a loss, as a share of it; of all weights, by their norms.

100 steps of the demo in fp32, with other vector instructions and another number of threads, differed by 1.6e-7 and
9.3e-5. Half precision was not measured."""
STEPS, MODEL = "steps", "model"


def replayed(release: Release) -> Finding:
    """Returns whether the training gives the same from its last checkpoint but one on.

    Raises:
        HeadraceError: when it cannot be repeated here.
    """
    planned = release.stage(Weights.name)
    saved = checkpoints(planned.folder / CHECKPOINTS)
    if len(saved) < 2:
        problem = "the release has one checkpoint, and steps are repeated from an earlier one (training.keep_last=2)"
        return Finding(STEPS, UNCHECKED, problem)
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
        return Finding(STEPS, SAME, f"{steps} trained again: {len(before)} files have the same bytes")
    machine = Attempt.begin().machine
    if machine in release.facts["machines"][Weights.name]:
        return compared(STEPS, differing, "")
    bound = BOUNDS[stage.training.precision]
    text = (
        f"{steps} trained again on {machine}: losses differ by up to {losses:.1e}, weights by {weights:.1e}; the bound"
    )
    return Finding(STEPS, SAME if max(losses, weights) <= bound else OTHER, f"{text} is {bound:.0e}")


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


ANSWER_BOUND = 1e-3
"""The largest difference of a number in an answer, as a share of it, or of 1 below that: other batches and other
hardware add numbers up in another order."""
SCORES = "scores"
TABLE, TABLE_OF = "scores.md", "scores.json"


def scored_again(release: Release, draw: random.Random) -> Finding:
    """Returns whether a benchmark that ``draw`` chooses has the same answers.

    Raises:
        HeadraceError: when it cannot be scored here.
    """
    planned = release.stage(Scores.name)
    stage, artifact = planned.stage, release.artifacts[Scores.name]
    assert isinstance(stage, Scores)
    if not stage.evaluation.benchmarks:
        return Finding(SCORES, UNCHECKED, "the run has tasks of lm-evaluation-harness alone")
    name = draw.choice(sorted(stage.evaluation.benchmarks))
    chosen = dataclasses.replace(stage, evaluation=stage.evaluation.only({name}), planned=None)
    inputs = {name: release.artifact(name).folder for name in stage.inputs}
    with tempfile.TemporaryDirectory(prefix="headrace-") as root:
        again = PlannedStage.of(chosen, Path(root), inputs, planned.shards)
        if changed := [file for file in again.description["raw_files"] if file not in artifact.manifest["raw_files"]]:
            return Finding(SCORES, UNCHECKED, f"{changed[0]['name']} has changed; give the file of REPRODUCE.md")
        with system_errors_explained(again.folder):
            launch(again.stage, again.folder, save_stage(again), 1)
        now = Artifact(again.folder)
        deviation = _answer_deviation(_scored(artifact, name), _scored(now, name))
        is_same = artifact.manifest["files"][_answers(name)] == now.manifest["files"][_answers(name)]
    if markdown(read_scores(artifact.path(TABLE_OF))) != artifact.path(TABLE).read_text(encoding="utf-8"):
        return Finding(SCORES, OTHER, f"{TABLE} is not the table of {TABLE_OF}")
    if is_same and not deviation:
        return Finding(SCORES, SAME, f"{name} scored again: the same answers, byte for byte, and the same metrics")
    text = f"{name} scored again: answers and metrics differ by up to {deviation:.1e}; the bound is {ANSWER_BOUND:.0e}"
    return Finding(SCORES, SAME if deviation <= ANSWER_BOUND else OTHER, text)


def _answers(name: str) -> str:
    return f"samples/{name}.jsonl"


def _scored(artifact: Artifact, name: str) -> list[Any]:
    """Returns the answers to the items of the benchmark ``name``, and its metrics."""
    answers = [orjson.loads(line) for line in read_lines(artifact.path(_answers(name)))]
    (row,) = (row for row in read_json(artifact.path(TABLE_OF))["benchmarks"] if row["name"] == name)
    return [answers, row["metrics"]]


def _answer_deviation(before: Any, now: Any) -> float:
    """Returns the largest difference of two numbers in the same place; infinity where anything else differs."""
    if isinstance(before, float) and isinstance(now, float | int):
        return abs(now - before) / max(1.0, abs(before))
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return max(map(_answer_deviation, before, now), default=0.0)
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        return max((_answer_deviation(value, now[name]) for name, value in before.items()), default=0.0)
    return 0.0 if before == now else float("inf")
