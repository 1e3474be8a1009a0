"""The main results of a run in a few numbers: the validation loss of its training, and the accuracies of its model.

Only metrics.jsonl and scores.json are read, so a table of many runs takes a fraction of a second. Those of finished
stages are compared with their checksums. ``facts_of`` adds what a table of runs shows: date, user, stages, size, cost.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.artifact_files import result_bytes
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.metrics_file import metrics_path
from headrace.pipeline.report.accounts import Account
from headrace.pipeline.run.saved_run import AnyStage, SavedRun
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, read_scores

TAIL_BYTES = 1 << 18
"""The end of metrics.jsonl that is read first. It holds a thousand steps."""

BenchmarkAccuracy = tuple[BenchmarkScores, Metric]
"""A benchmark and its first metric that is a share of right answers."""


def validation_loss(stages: Sequence[AnyStage]) -> float | None:
    """Returns the last validation loss in nats per token; None before the first one. The training may still run.

    Raises:
        ArtifactError: when the training is finished and its metrics.jsonl is damaged.
    """
    folder = _folder(stages, "weights")
    path = None if folder is None else metrics_path(folder)
    if path is None or not path.is_file():
        return None
    start = max(0, path.stat().st_size - TAIL_BYTES)
    loss = _last_loss(path, start)
    return _last_loss(path, 0) if loss is None and start else loss


def _last_loss(path: Path, start: int) -> float | None:
    """Returns the last validation loss in a metrics.jsonl from the byte ``start`` on."""
    with path.open("rb") as stream:
        stream.seek(start)
        lines = stream.read().split(b"\n")[:-1]
    for line in reversed(lines):
        if line.startswith(b"{") and b'"validation_loss"' in line:
            loss = orjson.loads(line)["validation_loss"]
            if loss is not None:
                return float(loss)
    return None


def accuracies(stages: Sequence[AnyStage]) -> list[BenchmarkAccuracy]:
    """Returns the accuracies of the finished scores, by the benchmarks' names and shots; none before.

    Raises:
        ArtifactError: when scores.json is damaged.
    """
    folder = _folder(stages, "scores")
    if folder is None or not is_whole(folder):
        return []
    benchmarks = sorted(read_scores(Artifact(folder).path("scores.json")), key=lambda scores: scores.order)
    firsts = (
        (benchmark, next((metric for metric in benchmark.whole if metric.kind.is_share), None))
        for benchmark in benchmarks
    )
    return [(benchmark, metric) for benchmark, metric in firsts if metric is not None]


def best(scored: Sequence[BenchmarkAccuracy]) -> str:
    """Returns the accuracy that is furthest above chance as text, ``piqa acc 61.0 %``; empty when there are none."""
    if not scored:
        return ""
    benchmark, metric = max(scored, key=lambda pair: above_chance(pair[1]))
    return f"{benchmark.name} {metric.name} {percent(metric)}"


def above_chance(metric: Metric) -> float:
    """Returns a share of right answers on a scale where 0 is chance and 1 all right."""
    chance = metric.random or 0.0
    return (metric.value - chance) / (1 - chance) if chance < 1 else 0.0


def percent(metric: Metric) -> str:
    return f"{metric.kind.scale * metric.value:.1f}{metric.kind.unit}"


def _folder(stages: Sequence[AnyStage], stage: str) -> Path | None:
    return next((planned.folder for planned in stages if planned.name == stage), None)


DAMAGED = "damaged"


def facts_of(run: SavedRun, sizes: dict[Path, int]) -> dict[str, Any]:
    """Returns what is known of ``run`` as JSON values. ``sizes`` keeps the bytes of folders that runs share."""
    for stage in run.steps:
        if stage.folder not in sizes:
            sizes[stage.folder] = result_bytes(stage.folder)
    spent = Account.of(run.id, run.folders, sizes).total
    try:
        loss, best_score = validation_loss(run.steps), best(accuracies(run.steps))
    except ArtifactError:
        loss, best_score = None, DAMAGED
    return {
        "name": run.name,
        "names": run.names,
        "id": run.id,
        "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        "user": run.user,
        "own": run.is_own,
        "done": sum(stage.is_whole for stage in run.steps),
        "stages": len(run.steps),
        "running": bool(run.processes()),
        "where": str(run.values["config"].get("cluster", {}).get("type", "")),
        "bytes": sum(sizes[stage.folder] for stage in run.steps),
        "core_hours": spent.core_hours,
        "gpu_hours": spent.gpu_hours,
        "loss": loss,
        "best_score": best_score,
        "notes": str(run.values["config"].get("tracking", {}).get("notes") or ""),
        "folder": str(run.file.parent),
    }
