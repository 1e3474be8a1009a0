"""``headrace watch``: follows a run that works in another terminal or on a cluster; scores its checkpoints.

headrace watch                                  the progress of the newest run, until it is done
headrace watch small                            that of the run of this name, id, beginning of an id, or path
headrace watch --score                          scores the checkpoints as they appear, until the training is done
headrace watch --score --once                   scores the checkpoints that are there now, then ends
headrace watch --score evaluation=standard      … with another evaluation
headrace watch --score experiment=demo ranks=2  … by two ranks

    weights/<address>/checkpoints/step_00000500/ ──> checkpoint_scores/<address>/    scores.json, samples/, …

Ctrl-C ends the command and not the run. The scores of each checkpoint are an artifact. Its address follows from
training, step and evaluation, so nothing is scored twice, and a scoring that was killed resumes. The training is not
touched.
"""

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import command, run_argument
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.report.score_history import Point, checkpoint_points
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.run_execution import execute
from headrace.pipeline.run.run_progress import Following, follow
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints, step_of
from headrace.train.evaluation.score_rows import Metric
from headrace.train.scores import CheckpointScores

POLL_SECONDS = 2.0


@command
@run_argument
@click.option("--score", is_flag=True, help="Score the checkpoints of the training as they appear.")
@click.option("--once", is_flag=True, help="With --score: end after the checkpoints that are there now.")
def watch(overrides: Sequence[str], run: str, score: bool, once: bool) -> None:
    """Follows a run until it is done; with --score, scores its checkpoints."""
    if once and not score:
        raise ConfigError("--once", "is given without --score", "write --score --once, or leave it out to follow a run")
    if score:
        show(run_of(overrides, run, may_change=("evaluation", "ranks")), once)
    else:
        follow(run_of(overrides, run))


def show(run: Run, once: bool) -> None:
    """Scores checkpoints of the training of ``run`` and prints a line for each: those that are there now with ``once``,
    else all until the training is done.

    Raises:
        ConfigError: when the run ends before the training.
        TaskError: when the scoring of a checkpoint failed; running again resumes it.
    """
    training = next((stage for stage in run.stages if stage.name == "weights"), None)
    if training is None:
        raise ConfigError("until", "the run ends before the training", "name a run that trains")
    print(f"watching {training.folder / CHECKPOINTS}", file=sys.stderr)
    scored = 0
    for path in appearing(training, run.run_json.parent, once):
        artifact = scored_checkpoint(run, training, path)
        if artifact is not None:
            print(line(list(checkpoint_points(artifact))), flush=True)
            scored += 1
    print(f"{scored} checkpoints scored; a report that is made from now on shows their curves", file=sys.stderr)


def appearing(training: PlannedStage, folder: Path, once: bool) -> Iterator[Path]:
    """Yields the checkpoints of ``training``, the oldest first: it is the next to be removed.

    Raises:
        HeadraceError: when no job and no command of the run works on the training any more.
    """
    seen, work = set[Path](), Following(training, folder)
    while True:
        is_over = once or training.is_whole  # before the look: the last checkpoint is older than the manifest
        unseen = [path for path in checkpoints(training.folder / CHECKPOINTS).values() if path not in seen]
        for path in unseen if is_over else unseen[:1]:
            seen.add(path)
            yield path
        if is_over:
            return
        if not unseen and not work.is_over():
            time.sleep(POLL_SECONDS)


def scored_checkpoint(run: Run, training: PlannedStage, path: Path) -> Artifact | None:
    """Returns the scores of the checkpoint at ``path``; prints why and returns None when it cannot be read."""
    stage = planned(run, training, path)
    if stage.is_whole:
        return Artifact(stage.folder)
    try:
        return execute(stage, run.config)
    except ArtifactError as error:
        if Path(error.where) != path and path not in Path(error.where).parents:
            raise
        print(f"{error.where}: {error.problem} (passed over)", file=sys.stderr)
        shutil.rmtree(stage.folder)
        return None


def planned(run: Run, training: PlannedStage, path: Path) -> PlannedStage:
    """Returns the stage that scores the checkpoint at ``path`` of ``training``."""
    stage = CheckpointScores(
        evaluation=run.config.evaluation.expanded().with_canaries(run.config.canaries),
        training=training.address,
        step=step_of(path),
        model=run.config.trained_model,
        objective=run.config.objective,
        checkpoint=str(path),
    )
    inputs = {name: training.inputs[name] for name in stage.inputs}
    return PlannedStage.of(stage, Path(run.config.root), inputs, {})


def line(points: list[Point]) -> str:
    """Returns ``step 500  agreement acc 51.9 % ± 4.9 %  piqa acc …``: the first metric of each benchmark."""
    firsts: dict[str, Point] = {}
    for point in points:
        if not point.metric.group:
            firsts.setdefault(point.benchmark, point)
    shown = [f"{point.benchmark} {point.metric.name} {_number(point.metric)}" for point in firsts.values()]
    return "  ".join([f"step {points[0].step:,}" if points else "no items", *shown])


def _number(metric: Metric) -> str:
    """Returns the value with its standard error, which a perplexity has not on both sides alike."""
    kind, digits = metric.kind, 1 if metric.kind.unit else 4
    error = ""
    if metric.standard_error is not None and not kind.is_exponential:
        error = f" ± {decimal(kind.scale * metric.standard_error, digits)}{kind.unit}"
    return f"{decimal(kind.scale * metric.value, digits)}{kind.unit}{error}"
