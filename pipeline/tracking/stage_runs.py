"""The wandb runs of finished stages: one for each artifact, in the group of its run, with the stage as its type.

    texts, clean, …, packed, scores    settings, counts, its address and those of the artifacts that it was made from
    report                             its page, with the funnel and the scores
    weights                            made by the training itself (tracker.py), under the id in its checkpoints

    <artifact>/logs/wandb.json         its id, name and group. It also has a place when it is complete

The id of a run is a hash of the artifact's folder at the first attempt. It is written before the run is opened. So two
commands, or a second one after a kill, record one run, also after the root was moved. An artifact that several runs
share stays in the group of the first. The page holds texts of documents and questions; ``tracking.report=false`` keeps
it on the machine.

As a program, it records the stages whose names it reads from its standard input, for ``Recorder`` of tracker.py:

    python -m headrace.pipeline.tracking.stage_runs RUN_JSON
"""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.claim import claimed, remove_silent
from headrace.pipeline.core.environment import MAIN_PID
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.settings import digest, plain
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.report.report import Report
from headrace.pipeline.report.score_history import checkpoint_artifacts, metric_rows, source_of
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run, load
from headrace.pipeline.run.rank import exit_with
from headrace.pipeline.tracking.tracker import (
    RECORD,
    ScoresByBenchmark,
    curves,
    place_in_line,
    record_of,
    wandb_rows,
    wants,
)
from headrace.pipeline.tracking.wandb_run import (
    CLOSING_SECONDS,
    Background,
    RunFacts,
    Tracking,
    errors_explained,
    finish,
    group_of,
    opened,
    place_of,
    record_page,
    remove_older_offline,
    replaced,
)
from headrace.train.checkpoint.names import CHECKPOINTS, manifests
from headrace.train.scores import Scores
from headrace.train.weights import Weights

CLAIM = "logs/wandb.claim"

Open = Callable[[Path, Tracking, str, RunFacts], Any]
"""``opened`` or ``replaced`` of wandb_run.py."""


@dataclasses.dataclass(frozen=True)
class StageRuns:
    """The wandb runs of the stages of one run."""

    label: str
    """The run's name, or its id."""
    group: str
    tracking: Tracking

    @classmethod
    def of(cls, config: RunConfig, run_json: Path) -> "StageRuns":
        """Returns the wandb runs of the run with ``config`` that is saved in ``run_json``."""
        label = config.name or run_json.parent.name
        return cls(label, group_of(config.tracking, config.name, run_json), config.tracking)

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
        facts = {**artifact.settings, **place_in_line(stage.address, stage.description["inputs"])}
        run = opens(stage.folder, tracking, run_id, facts)
        run.summary.update(summary_of(artifact))
        if isinstance(stage.stage, Report):
            record_page(run, artifact.path("report.html"))
        place, is_offline = place_of(run), run.offline
        finish(run)
        write_sealed(stage.folder / RECORD, {**values, "place": place, "offline": is_offline})
        remove_older_offline(stage.folder, run_id, Path(place))
        return place

    def rebuild_training(self, stage: PlannedStage, checkpoint: Path) -> str:
        """Replaces the wandb run of the training ``stage`` by one that is made from its files. Returns its place.

        It has the curves of metrics.jsonl, and the scores of its checkpoints that ``headrace evaluate`` computed. The
        manifest of its newest ``checkpoint`` has its id.

        Raises:
            RetryableError: when wandb's server refuses the run or does not answer.
        """
        assert isinstance(stage.stage, Weights)
        tracking = dataclasses.replace(stage.stage.tracking, group=self.group, wandb=self.tracking.wandb)
        run_id = wandb_id(checkpoint)
        watched = [
            (scores.settings["step"], source_of(scores), metric_rows(scores))
            for scores in checkpoint_artifacts(stage.folder)
        ]
        ranks = len(read_sealed(checkpoint)["files"])  # each wrote a file
        facts = {**plain(stage.stage), **place_in_line(stage.address, stage.description["inputs"]), "ranks": ranks}
        place = rebuild(stage.folder, tracking, run_id, facts, watched)
        if os.path.isdir(place) and stage.is_whole:  # a training that runs writes to its own folder
            remove_older_offline(stage.folder, run_id, Path(place))
        return place


def rebuild(
    folder: Path,
    tracking: Tracking,
    run_id: str,
    facts: RunFacts,
    extra_scores: Sequence[tuple[int, str, ScoresByBenchmark]] = (),
) -> str:
    """Replaces the wandb run ``run_id`` of a training by one made from ``folder/metrics.jsonl``. Returns its place.

    ``facts`` are those that the training itself records. ``extra_scores`` were not computed by it: the step, their
    source and their values.

    Raises:
        RetryableError: when wandb's server refuses the run or does not answer.
    """
    with errors_explained():
        run = replaced(folder, tracking, run_id, facts)
        for row in wandb_rows(read_metrics(metrics_path(folder))):
            run.log(row)
        for step, source, extra in extra_scores:
            others = curves(extra, f" ({source})")
            run.log({"global_step": step, **others})
            run.summary.update(others)
        place = place_of(run)
        finish(run)
        return place


def wandb_id(checkpoint: Path) -> str:
    """Returns the id of the wandb run of a training, which the manifest of each ``checkpoint`` holds."""
    return str(read_sealed(checkpoint)["run_id"])


def summary_of(artifact: Artifact) -> dict[str, float]:
    """Returns the counts of ``artifact``, but not those of single rules and lengths; of scores, also the metrics on all
    items, with their standard errors."""
    values: dict[str, float] = {name: number for name, number in artifact.counts.items() if ":" not in name}
    if artifact.manifest["stage"] == Scores.name:
        rows = metric_rows(artifact)
        errors = {
            name: [{**row, "value": row["standard_error"]} for row in metrics if row["standard_error"] is not None]
            for name, metrics in rows.items()
        }
        values |= curves(rows) | curves(errors, " standard error")
    return values


def sent_again(run: Run, places: list[str]) -> Iterator[Fact]:
    """Sends the training and the finished stages of ``run`` again, whatever wandb received before, under the same ids.

    Yields the group and the places of the wandb runs, which are also added to ``places``.

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
        rows = read_metrics(metrics_path(training.folder))
        yield "run", wandb_id(saved[0])
        yield "now at", places[0]
        yield "steps", f"{rows[-1]['step'] if rows else 0:,} in {len(rows):,} rows"
        if watched := checkpoint_artifacts(training.folder):
            yield "watched", f"scores of {len(watched)} checkpoints"
    for stage in finished:
        if not os.access(stage.folder, os.W_OK):
            yield stage.name, "not sent: this user may not write its record"
            continue
        with errors_explained():
            places.append(runs.record(stage, replaced, again=True))
        yield stage.name, places[-1] or "another process records it now"


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


def main(arguments: Sequence[str]) -> None:
    """Records stages until the end of the standard input. After an error, which is one line, it records no more."""
    exit_with(int(os.environ[MAIN_PID]))
    (file,) = arguments
    recording = Recording(Path(file))
    calls = Background("wandb", "headrace export RUN --wandb records the stages later")
    for line in sys.stdin:
        calls.call(partial(recording.record, line.strip()))
    calls.close(CLOSING_SECONDS)
    sys.stderr.flush()
    os._exit(0)  # a hook of wandb would wait for its server


if __name__ == "__main__":
    main(sys.argv[1:])
