"""The scores of each benchmark over the steps of a training.

    weights/<address>/metrics.jsonl     {"step": 50, "evaluation": {"piqa": [{"name": "acc", "value": 0.52, …}, …]}}
    checkpoint_scores/*/scores.json     of the steps that ``headrace watch`` scored
        ──> Point, Point, …

Scores by the training itself and by ``headrace watch`` are separate curves: their limits may differ.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact, has_older_format
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import digest
from headrace.pipeline.core.tracker import EVALUATION, Scores
from headrace.train.evaluation.score_rows import Metric, read_scores

CHECKPOINT_SCORES = "checkpoint_scores"
"""The folder that ``headrace watch`` writes to, beside that of the weights."""
IN_LOOP = "while training"


@dataclasses.dataclass(frozen=True)
class Point:
    """One metric of one benchmark after one step."""

    step: int
    benchmark: str
    source: str
    """``IN_LOOP``, or ``watch`` with a hash of the evaluation's settings: points of one source can be compared."""
    metric: Metric


def points(training: Path) -> list[Point]:
    """Returns all scores of the training in the folder ``training``, by source and step."""
    found = list(in_loop(read_metrics(training / "metrics.jsonl")))
    return found + [point for artifact in watched(training) for point in of_checkpoint(artifact)]


def in_loop(metrics: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """Yields the points in rows of metrics.jsonl."""
    for row in metrics:
        for benchmark, found in row.get(EVALUATION, {}).items():
            for metric in found:
                yield Point(row["step"], benchmark, IN_LOOP, Metric.read(metric))


def watched(training: Path) -> list[Artifact]:
    """Returns the scores of single checkpoints of ``training`` that exist now, by settings and step.

    Scores of an older format are of other trainings, whose addresses are older, too.
    """
    manifests = (training.parent.parent / CHECKPOINT_SCORES).glob("*/manifest.json")
    artifacts = (Artifact(path.parent) for path in manifests if not has_older_format(path.parent))
    found = [artifact for artifact in artifacts if _is_of(artifact, training)]
    return sorted(found, key=lambda artifact: (source_of(artifact), artifact.settings["step"]))


def of_checkpoint(artifact: Artifact) -> Iterator[Point]:
    """Yields the points of a checkpoint's scores."""
    step, source = artifact.settings["step"], source_of(artifact)
    for scores in read_scores(artifact.path("scores.json")):
        for metric in scores.metrics:
            yield Point(step, scores.name, source, metric)


def rows_of(artifact: Artifact) -> Scores:
    """Returns the metrics of each benchmark of a checkpoint, as metrics.jsonl has those of a training."""
    return {one.name: [metric.row() for metric in one.metrics] for one in read_scores(artifact.path("scores.json"))}


def source_of(scores: Artifact) -> str:
    """Returns the source of the points of a checkpoint's ``scores``."""
    return f"watch {digest(scores.manifest['hashed']['evaluation'])[:6]}"


def _is_of(scores: Artifact, training: Path) -> bool:
    return bool(scores.settings["training"] == training.name)
