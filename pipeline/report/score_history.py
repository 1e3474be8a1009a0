"""The scores of each benchmark over the steps of a training.

    weights/<address>/metrics.jsonl     {"step": 50, "evaluation": {"piqa": [{"name": "acc", "value": 0.52, …}, …]}}
    checkpoint_scores/*/scores.json     of the steps that ``headrace evaluate --checkpoints`` scored
        ──> Point, Point, …

Scores by the training itself and by ``headrace evaluate --checkpoints`` are separate curves: their limits may differ.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact, has_older_format
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.settings import digest
from headrace.pipeline.tracking.tracker import EVALUATION, ScoresByBenchmark
from headrace.train.evaluation.score_rows import Metric, read_scores

CHECKPOINT_SCORES = "checkpoint_scores"
"""The folder that ``headrace evaluate --checkpoints`` writes to, in the same root as the weights."""
IN_LOOP = "while training"


@dataclasses.dataclass(frozen=True)
class Point:
    """One metric of one benchmark after one step."""

    step: int
    benchmark: str
    source: str
    """``IN_LOOP``, or ``watch`` with a hash of the evaluation's settings: only points of one source can be compared."""
    metric: Metric


def points(training: Path) -> list[Point]:
    """Returns all scores of the training in the folder ``training``, by source and step."""
    in_loop = list(loop_points(read_metrics(metrics_path(training))))
    return in_loop + [point for artifact in checkpoint_artifacts(training) for point in checkpoint_points(artifact)]


def loop_points(metrics: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """Yields the points in rows of metrics.jsonl."""
    for row in metrics:
        for benchmark, metrics_of_benchmark in row.get(EVALUATION, {}).items():
            for metric in metrics_of_benchmark:
                yield Point(row["step"], benchmark, IN_LOOP, Metric.read(metric))


def checkpoint_artifacts(training: Path) -> list[Artifact]:
    """Returns the scores of single checkpoints of ``training`` that exist now, by settings and step.

    Scores of an older format are left out: they belong to trainings whose addresses have the older format, too.
    """
    manifests = (training.parent.parent / CHECKPOINT_SCORES).glob("*/manifest.json")
    artifacts = (Artifact(path.parent) for path in manifests if not has_older_format(path.parent))
    scored = [artifact for artifact in artifacts if _is_of(artifact, training)]
    return sorted(scored, key=lambda artifact: (source_of(artifact), artifact.settings["step"]))


def checkpoint_points(artifact: Artifact) -> Iterator[Point]:
    """Yields the points of a checkpoint's scores."""
    step, source = artifact.settings["step"], source_of(artifact)
    for scores in read_scores(artifact.path("scores.json")):
        for metric in scores.metrics:
            yield Point(step, scores.name, source, metric)


def metric_rows(artifact: Artifact) -> ScoresByBenchmark:
    """Returns benchmark → metrics of a scored checkpoint, in the format of metrics.jsonl."""
    return {
        scores.name: [metric.row() for metric in scores.metrics] for scores in read_scores(artifact.path("scores.json"))
    }


def source_of(scores: Artifact) -> str:
    """Returns the source of the points of a checkpoint's ``scores``."""
    return f"watch {digest(scores.manifest['hashed']['evaluation'])[:6]}"


def _is_of(scores: Artifact, training: Path) -> bool:
    return bool(scores.settings["training"] == training.name)
