"""``headrace sync``: sends a run to wandb again, whatever it received before: the training and every finished stage.

    texts <- clean <- unique <- tokens <- packed <- weights <- scores <- report     one wandb run each, in one group
                                checkpoint_scores ─┘                                the scores of ``headrace watch``

The training that wandb received may have gaps and repeated steps (it was offline, or killed and resumed). Stages may be
missing. metrics.jsonl and the artifacts have everything. Each wandb run keeps its id, so none is made twice. Offline
each is a folder, which replaces earlier ones; the command that uploads them is printed.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.pipeline.command_line.declaration import command, run_argument
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.report.score_history import checkpoint_artifacts
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.pipeline.tracking.stage_runs import StageRuns, wandb_id
from headrace.pipeline.tracking.tracker import wants
from headrace.pipeline.tracking.wandb_run import errors_explained, replaced
from headrace.train.checkpoint.names import CHECKPOINTS, manifests
from headrace.train.weights import Weights


@command
@run_argument
def sync(overrides: Sequence[str], run: str) -> None:
    """Sends a run to wandb again under the same ids: its training from metrics.jsonl, and its finished stages."""
    places: list[str] = []
    terminal.show(explain(run_of(overrides, run), places))
    if offline := [place for place in places if os.path.isdir(place)]:
        print("", "upload with:", shlex.join(["wandb", "sync", *offline]), sep="\n")  # whole, however long it is


def explain(run: Run, places: list[str]) -> Iterator[Fact]:
    """Sends the run; yields its group and the places of its wandb runs, which it adds to ``places``.

    Raises:
        ArtifactError: when no stage is finished and the training has no checkpoint yet.
        RetryableError: when wandb's server refuses a run or does not answer.
    """
    runs = StageRuns.of(run.config, run.run_json)
    finished = [stage for stage in run.stages if stage.is_whole and wants(runs.tracking, stage.name)]
    training = next((stage for stage in run.stages if stage.name == Weights.name), None)
    saved = manifests(training.folder / CHECKPOINTS)[-1:] if training else []
    if not finished and not saved:
        raise ArtifactError(run.config.root, "has no finished stage and no checkpoint of this run", "start the run")
    yield "group", runs.group
    if training and saved:
        places.append(runs.rebuild_training(training, saved[0]))
        yield from _facts(training, saved[0], places[0])
    for stage in finished:
        if not os.access(stage.folder, os.W_OK):
            yield stage.name, "not sent: this user may not write its record"
            continue
        with errors_explained():
            places.append(runs.record(stage, replaced, again=True))
        yield stage.name, places[-1] or "another process records it now"


def _facts(stage: PlannedStage, checkpoint: Path, place: str) -> Iterator[Fact]:
    """Yields the id of the training's wandb run, its place, its steps and the scored checkpoints."""
    yield "run", wandb_id(checkpoint)
    yield "now at", place
    rows = read_metrics(metrics_path(stage.folder))
    yield "steps", f"{rows[-1]['step'] if rows else 0:,} in {len(rows):,} rows"
    if watched := checkpoint_artifacts(stage.folder):
        yield "watched", f"scores of {len(watched)} checkpoints"
