"""Points of the curves of benchmarks: from metrics.jsonl and from the scores of checkpoints."""

import json
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import TaskOutput, finish
from headrace.pipeline.report.score_history import CHECKPOINT_SCORES, IN_LOOP, points
from headrace.pipeline.tracking.tracker import Tracker
from headrace.pipeline.tracking.wandb_run import Tracking
from headrace.train.evaluation.score_rows import Metric


def metric(name: str, value: float, group: str = "") -> dict[str, Any]:
    interval = [value - 0.1, value + 0.1]
    return {
        "name": name, "value": value, "standard_error": 0.05, "interval": interval, "random": 0.5,
        "items": 20, "group": group, "clean": None, "dirty": None,
    }  # fmt: skip


def training_with_scores(folder: Path) -> Path:
    """Returns the folder of a training with scores after steps 2 and 4."""
    folder.mkdir(parents=True)
    tracker = Tracker(folder, Tracking(wandb="off"), "run", 0, {})
    for step, value in ((2, 0.5), (4, 0.75)):
        tracker.log(step, {"loss": 1.0})
        tracker.log_scores(step, {"piqa": [metric("acc", value)]})
    tracker.close()
    return folder


def scored_checkpoint(root: Path, training: str, step: int, value: float, seed: int = 0) -> None:
    """Writes the files of ``headrace status --watch`` for one checkpoint."""
    folder = root / CHECKPOINT_SCORES / f"{training}-{step}-{seed}"
    out = TaskOutput(folder, "scores", 0)
    entries = [{"name": "blimp", "metrics": [metric("acc", value), metric("acc", 1.0, "anaphor")]}]
    with out.file("scores.json") as path:
        path.write_text(json.dumps({"benchmarks": entries}))
    out.done({})
    settings = {"training": training, "step": step, "evaluation": {"seed": seed}}
    finish(folder, {"settings": settings, "hashed": settings}, {"scores": 1})


def test_points_of_both_sources(tmp_path: Path) -> None:
    training = training_with_scores(tmp_path / "weights" / "abc")
    scored_checkpoint(tmp_path, "abc", 40, 0.6)
    scored_checkpoint(tmp_path, "abc", 8, 0.55)
    scored_checkpoint(tmp_path, "other", 2, 0.1)
    found = points(training)
    assert [(p.step, p.benchmark, p.metric.name, p.metric.group, p.metric.value) for p in found] == [
        (2, "piqa", "acc", "", 0.5),
        (4, "piqa", "acc", "", 0.75),
        (8, "blimp", "acc", "", 0.55),
        (8, "blimp", "acc", "anaphor", 1.0),
        (40, "blimp", "acc", "", 0.6),
        (40, "blimp", "acc", "anaphor", 1.0),
    ]
    assert found[0].metric == Metric("acc", 0.5, 0.05, (0.4, 0.6), 0.5, 20)
    assert found[0].source == IN_LOOP
    assert len({p.source for p in found}) == 2


def test_other_settings_are_another_source(tmp_path: Path) -> None:
    training = training_with_scores(tmp_path / "weights" / "abc")
    for step in (1, 2):
        for seed in (0, 1):
            scored_checkpoint(tmp_path, "abc", step, 0.5, seed)
    points_found = [(p.source, p.step) for p in points(training) if p.source != IN_LOOP and not p.metric.group]
    assert [step for _, step in points_found] == [1, 2, 1, 2]
    assert len(set(points_found)) == 4


def test_a_training_without_scores_has_no_points(tmp_path: Path) -> None:
    assert points(tmp_path / "weights" / "abc") == []
