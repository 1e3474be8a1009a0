"""The wandb runs of finished stages: one for each artifact, in the group of its run, with the stage as its type.

    texts, clean, …, packed, scores    settings, counts, the artifact, and the artifacts that it was made from
    report                             tables, figures and page (media.py)
    weights                            made by the training itself (tracker.py), under the id in its checkpoints

    <artifact>/logs/wandb.json         its id, name and group. It also has a place when it is complete

The id of a run is a hash of the artifact's folder at the first attempt. It is written before the run is opened. So two
commands, or a second one after a kill, record one run, also after the root was moved. An artifact that several runs
share stays in the group of the first. Texts of documents and questions leave the machine; ``tracking.report=false``
keeps them.

As a program, it records the stages whose names it reads from its standard input, for ``Recorder`` of tracker.py:

    python -m headrace.pipeline.tracking.stage_runs RUN_JSON
"""

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from headrace.data_prep.clean import Cleaning
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.claim import claimed, remove_silent
from headrace.pipeline.core.environment import MAIN_PID
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.settings import digest, plain
from headrace.pipeline.report.about import About
from headrace.pipeline.report.accounts import Account
from headrace.pipeline.report.report import Report
from headrace.pipeline.report.score_history import checkpoint_artifacts, metric_rows, source_of
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import load
from headrace.pipeline.run.rank import exit_with
from headrace.pipeline.run.saved_run import SavedRun
from headrace.pipeline.tracking.media import media, score_rows
from headrace.pipeline.tracking.settings import Tracking, group_of
from headrace.pipeline.tracking.tracker import RECORD, ScoresByBenchmark, curves, record_of, wandb_rows
from headrace.pipeline.tracking.wandb_run import (
    CLOSING_SECONDS,
    Background,
    Media,
    Product,
    RunFacts,
    errors_explained,
    finish,
    opened,
    place_of,
    plain_counts,
    record_inputs,
    record_media,
    record_output,
    remove_older_offline,
    replaced,
)
from headrace.train.checkpoint.names import newest_product
from headrace.train.scores import Scores
from headrace.train.weights import Weights

CLAIM = "logs/wandb.claim"
NO_MEDIA = Media()

Open = Callable[[Path, Tracking, str, RunFacts], Any]
"""``opened`` or ``replaced`` of wandb_run.py."""


@dataclasses.dataclass(frozen=True)
class StageRuns:
    """The wandb runs of the stages of one run."""

    label: str
    """The run's name, or its id."""
    group: str
    tracking: Tracking
    cleaning: Cleaning
    """The filters of the run, for the samples of its report."""
    run_json: Path

    @classmethod
    def of(cls, config: RunConfig, run_json: Path) -> "StageRuns":
        """Returns the wandb runs of the run with ``config`` that is saved in ``run_json``."""
        label = config.name or run_json.parent.name
        return cls(label, group_of(config.tracking, config.name, run_json), config.tracking, config.cleaning, run_json)

    @property
    def offline(self) -> "StageRuns":
        """The same without a server."""
        return dataclasses.replace(self, tracking=dataclasses.replace(self.tracking, wandb="offline"))

    def record(self, stage: PlannedStage, opens: Open = opened, again: bool = False) -> str:
        """Records the finished ``stage``. Returns the URL or the offline folder of its wandb run.

        A stage that is recorded, or that another process records now, is left as it is. ``again=True`` replaces the
        run of a recorded stage, in the group that it has. An empty text means that another process records it.
        """
        remove_silent(stage.folder / CLAIM)  # a recorder on another node was killed
        with claimed(stage.folder / CLAIM) as is_ours:
            before = record_of(stage.folder)
            if "place" in before and not again:
                return str(before["place"])
            return self._recorded(stage, opens, before) if is_ours else ""

    def _recorded(self, stage: PlannedStage, opens: Open, before: Mapping[str, Any]) -> str:
        """Records ``stage``, which has the record ``before`` of an earlier time, or none."""
        artifact = Artifact(stage.folder)
        first = {"id": digest(str(stage.folder.resolve())), "name": f"{self.label}:{stage.name}", "group": self.group}
        values = {**first, **before}
        if not before:
            write_sealed(stage.folder / RECORD, values)
        run_id = values["id"]
        tracking = dataclasses.replace(self.tracking, name=values["name"], group=values["group"], job_type=stage.name)
        product = Product.of(artifact)
        facts = {**artifact.settings, "address": stage.address, "inputs": list(product.inputs)}
        run = opens(stage.folder, tracking, run_id, facts)
        if tracking.lineage:
            record_inputs(run, inputs_of(stage))
            record_output(run, product)
        run.summary.update(summary_of(artifact) | self._spent_on(stage))
        record_media(run, self._media(stage, artifact))
        place, is_offline = place_of(run), run.offline
        finish(run)
        write_sealed(stage.folder / RECORD, {**values, "place": place, "offline": is_offline})
        remove_older_offline(stage.folder, run_id, Path(place))
        return place

    def rebuild_training(self, stage: PlannedStage, checkpoint: Product, final: Artifact | None) -> str:
        """Replaces the wandb run of the training ``stage`` by one that is made from its files. Returns its place.

        It has the curves of metrics.jsonl, the scores of its checkpoints, and the ``final`` scores.

        Raises:
            RetryableError: when wandb's server refuses the run or does not answer.
        """
        run_id, tracking = wandb_id(checkpoint), self._of_training(stage)
        watched = [
            (scores.settings["step"], source_of(scores), metric_rows(scores))
            for scores in checkpoint_artifacts(stage.folder)
        ]
        last = [(checkpoint.facts["step"], Scores.name, metric_rows(final))] if final else []
        tables = _scores_of(final) if final else NO_MEDIA
        facts, inputs = facts_of(stage, checkpoint), inputs_of(stage)
        place = rebuild(stage.folder, tracking, run_id, facts, inputs, checkpoint, [*watched, *last], tables)
        if os.path.isdir(place) and stage.is_whole:  # a training that runs writes to its own folder
            remove_older_offline(stage.folder, run_id, Path(place))
        return place

    def add_scores(self, training: PlannedStage, scores: Artifact) -> None:
        """Records the final ``scores`` in the wandb run of the finished ``training``, too, if it can be found.

        Online the run goes on. Offline it is made again: an upload of two folders keeps the rows of only one.
        """
        checkpoint = newest_product(training.folder, training.description["inputs"])
        if checkpoint is None or not os.access(training.folder, os.W_OK):
            return
        tracking = self._of_training(training)
        if tracking.wandb == "offline":
            self.rebuild_training(training, checkpoint, scores)
            return
        run = opened(training.folder, tracking, wandb_id(checkpoint), facts_of(training, checkpoint))
        if not run.offline:
            values = curves(metric_rows(scores), f" ({Scores.name})")
            run.log({"global_step": checkpoint.facts["step"], **values})
            run.summary.update(values)
            record_media(run, _scores_of(scores))
        finish(run)
        if run.offline:
            self.offline.rebuild_training(training, checkpoint, scores)

    def _of_training(self, stage: PlannedStage) -> Tracking:
        """Returns the settings of the wandb run of the training ``stage``, in the group of this run."""
        assert isinstance(stage.stage, Weights)
        return dataclasses.replace(stage.stage.tracking, group=self.group, wandb=self.tracking.wandb)

    def _spent_on(self, stage: PlannedStage) -> dict[str, float]:
        """Returns the hours of ``stage`` in this run; nothing when another run made it."""
        if not self.run_json.is_file():
            return {}
        run = SavedRun.read(self.run_json)
        spent = Account.of(run.id, run.folders).spent(stage.name)
        return {"core_hours": spent.core_hours, "gpu_hours": spent.gpu_hours} if spent.attempts else {}

    def _media(self, stage: PlannedStage, artifact: Artifact) -> Media:
        """Returns the tables, figures and page of a report; nothing for other stages."""
        if not isinstance(stage.stage, Report):
            return NO_MEDIA
        inputs = {name: Artifact(folder) for name, folder in stage.inputs.items()}
        about = About.of(Path(stage.stage.root), stage.stage.run, stage.stage.run_name, inputs)
        return media(artifact, inputs, self.cleaning, about)


def rebuild(
    folder: Path,
    tracking: Tracking,
    run_id: str,
    facts: RunFacts,
    inputs: Sequence[Product],
    checkpoint: Product,
    extra_scores: Sequence[tuple[int, str, ScoresByBenchmark]] = (),
    media: Media = NO_MEDIA,
) -> str:
    """Replaces the wandb run ``run_id`` of a training by one made from ``folder/metrics.jsonl``. Returns its place.

    ``facts``, ``inputs`` and the newest ``checkpoint`` are what the training itself records. ``extra_scores`` were not
    computed by it: the step, their source and their values.

    Raises:
        RetryableError: when wandb's server refuses the run or does not answer.
    """
    with errors_explained():
        run = replaced(folder, tracking, run_id, facts)
        if tracking.lineage:
            record_inputs(run, inputs)
        for row in wandb_rows(read_metrics(metrics_path(folder))):
            run.log(row)
        for step, source, extra in extra_scores:
            others = curves(extra, f" ({source})")
            run.log({"global_step": step, **others})
            run.summary.update(others)
        record_media(run, media)
        if tracking.lineage:
            record_output(run, checkpoint)
        place = place_of(run)
        finish(run)
        return place


def _scores_of(scores: Artifact) -> Media:
    """Returns ``scores`` as a table."""
    return Media({Scores.name: score_rows(ScoreTable.of(scores))})


def wandb_id(checkpoint: Product) -> str:
    """Returns the id of the wandb run of a training, which each of its checkpoints holds."""
    return str(read_sealed(checkpoint.manifest)["run_id"])


def facts_of(stage: PlannedStage, checkpoint: Product) -> RunFacts:
    """Returns what the wandb run of a training says of it, as the training itself does; ranks wrote a file each."""
    ranks = len(read_sealed(checkpoint.manifest)["files"])
    return {**plain(stage.stage), "address": stage.address, "ranks": ranks}


def inputs_of(stage: PlannedStage) -> list[Product]:
    """Returns the inputs of ``stage`` that were not removed since. Weights are listed as their newest checkpoint."""
    artifacts = {name: Artifact(folder) for name, folder in stage.inputs.items() if is_whole(folder)}
    return [
        (newest_product(artifact.folder, artifact.manifest["inputs"]) if name == Weights.name else None)
        or Product.of(artifact)
        for name, artifact in artifacts.items()
    ]


def summary_of(artifact: Artifact) -> dict[str, float]:
    """Returns the counts of ``artifact``; of scores, also the metrics on all items, with their standard errors."""
    values: dict[str, float] = dict(plain_counts(artifact))
    if artifact.manifest["stage"] == Scores.name:
        rows = metric_rows(artifact)
        errors = {
            name: [{**row, "value": row["standard_error"]} for row in own if row["standard_error"] is not None]
            for name, own in rows.items()
        }
        values |= curves(rows) | curves(errors, " standard error")
    return values


class Recording:
    """Records stages of the run in ``file`` one after the other, with the settings of wandb in it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._is_offline = False

    @cached_property
    def _saved(self) -> tuple[StageRuns, dict[str, PlannedStage]]:
        config, stages = load(self._file)
        return StageRuns.of(config, self._file), {stage.name: stage for stage in stages}

    def record(self, stage: str) -> None:
        """Records the finished ``stage``. Once wandb had to go offline, later stages do not try its server again."""
        runs, stages = self._saved
        place = (runs.offline if self._is_offline else runs).record(stages[stage])
        self._is_offline |= os.path.isdir(place)
        if place and stage == Scores.name:
            final = Artifact(stages[stage].folder)
            (runs.offline if self._is_offline else runs).add_scores(stages[Weights.name], final)


def main(arguments: Sequence[str]) -> None:
    """Records stages until the end of the standard input. After an error, which is one line, it records no more."""
    exit_with(int(os.environ[MAIN_PID]))
    (file,) = arguments
    recording = Recording(Path(file))
    calls = Background("wandb", "headrace sync records the stages later")
    for line in sys.stdin:
        calls.call(partial(recording.record, line.strip()))
    calls.close(CLOSING_SECONDS)
    sys.stderr.flush()
    os._exit(0)  # a hook of wandb would wait for its server


if __name__ == "__main__":
    main(sys.argv[1:])
