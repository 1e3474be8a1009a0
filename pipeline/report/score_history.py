"""How the scores of each benchmark move over the steps of a training.

    weights/<address>/metrics.jsonl     {"step": 50, "evaluation": {"piqa": [{"name": "acc", "value": 0.52, …}, …]}}
    checkpoint_scores/*/scores.json     of the steps that ``headrace watch`` scored
        ──> Point, Point, …

What the training scored itself and what was scored beside it are curves of their own: limits may differ.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact, has_older_format, read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import digest
from headrace.pipeline.core.tracker import EVALUATION, Scores

CHECKPOINT_SCORES = "checkpoint_scores"
"""The folder of what ``headrace watch`` leaves, beside that of the weights."""
IN_LOOP = "while training"


@dataclasses.dataclass(frozen=True)
class Point:
    """One metric of one benchmark after one step."""

    step: int
    benchmark: str
    metric: str
    value: float
    error: float | None
    """The standard error, where one is known."""
    interval: tuple[float, float] | None
    """95 %."""
    random: float | None
    """What guessing gives."""
    items: int
    group: str
    """The part of the benchmark that it covers; empty for all of it."""
    source: str
    """``IN_LOOP``, or ``watch`` with a hash of the evaluation's settings: points of one source can be compared."""


def points(training: Path) -> list[Point]:
    """Everything that was scored of the training in the folder ``training``, by source and step."""
    found = list(in_loop(read_metrics(training / "metrics.jsonl")))
    return found + [point for artifact in watched(training) for point in of_checkpoint(artifact)]


def in_loop(metrics: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """What stands in rows of metrics.jsonl."""
    for row in metrics:
        for benchmark, values in row.get(EVALUATION, {}).items():
            yield from _points(row["step"], benchmark, values, IN_LOOP)


def watched(training: Path) -> list[Artifact]:
    """Returns the scores of single checkpoints of ``training`` that exist now, by settings and step.

    Scores of an older format are of other trainings, whose addresses are older, too.
    """
    manifests = (training.parent.parent / CHECKPOINT_SCORES).glob("*/manifest.json")
    artifacts = (Artifact(path.parent) for path in manifests if not has_older_format(path.parent))
    found = [artifact for artifact in artifacts if _is_of(artifact, training)]
    return sorted(found, key=lambda artifact: (source_of(artifact), artifact.settings["step"]))


def of_checkpoint(artifact: Artifact) -> Iterator[Point]:
    """What the scores of a checkpoint say."""
    for benchmark, metrics in scores_of(artifact).items():
        yield from _points(artifact.settings["step"], benchmark, metrics, source_of(artifact))


def scores_of(artifact: Artifact) -> Scores:
    """The metrics of each benchmark of a checkpoint."""
    entries = read_json(artifact.path("scores.json"))["benchmarks"]
    return {entry["name"]: entry["metrics"] for entry in entries}


def source_of(scores: Artifact) -> str:
    return f"watch {digest(scores.manifest['hashed']['evaluation'])[:6]}"


def _is_of(scores: Artifact, training: Path) -> bool:
    return bool(scores.settings["training"] == training.name)


def _points(step: int, benchmark: str, metrics: Sequence[Mapping[str, Any]], source: str) -> Iterator[Point]:
    for metric in metrics:
        interval = metric["interval"]
        yield Point(
            step=step,
            benchmark=benchmark,
            metric=metric["name"],
            value=metric["value"],
            error=metric["standard_error"],
            interval=None if interval is None else (interval[0], interval[1]),
            random=metric["random"],
            items=metric["items"],
            group=metric["group"],
            source=source,
        )
