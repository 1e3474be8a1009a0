"""Scores one random benchmark of a release again with its weights, and compares answers and metrics.

weights ── benchmark drawn ──> answers, metrics ── the same bytes, else within BOUND ──> those in the release
"""

import dataclasses
import random
import tempfile
from pathlib import Path
from typing import Any

import orjson

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.core.text_files import read_lines
from headrace.pipeline.release.finding import OTHER, SAME, UNCHECKED, Finding
from headrace.pipeline.release.release_folder import Release
from headrace.pipeline.run.local_ranks import launch
from headrace.pipeline.run.planned_stage import PlannedStage, save_stage
from headrace.train.evaluation.score_rows import markdown, read_scores
from headrace.train.scores import Scores

BOUND = 1e-3
"""The largest difference of a number in an answer, as a share of it, or of 1 below that: other batches and other
hardware add numbers up in another order."""
SUBJECT = "scores"
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
        return Finding(SUBJECT, UNCHECKED, "the run has tasks of lm-evaluation-harness alone")
    name = draw.choice(sorted(stage.evaluation.benchmarks))
    chosen = dataclasses.replace(stage, evaluation=stage.evaluation.only({name}), planned=None)
    inputs = {own: release.artifact(own).folder for own in stage.inputs}
    with tempfile.TemporaryDirectory(prefix="headrace-") as root:
        again = PlannedStage.of(chosen, Path(root), inputs, planned.shards)
        if changed := [file for file in again.description["raw_files"] if file not in artifact.manifest["raw_files"]]:
            return Finding(SUBJECT, UNCHECKED, f"{changed[0]['name']} has changed; give the file of REPRODUCE.md")
        with system_errors_explained(again.folder):
            launch(again.stage, again.folder, save_stage(again), 1)
        now = Artifact(again.folder)
        deviation = _deviation(_scored(artifact, name), _scored(now, name))
        is_same = artifact.manifest["files"][_answers(name)] == now.manifest["files"][_answers(name)]
    if markdown(read_scores(artifact.path(TABLE_OF))) != artifact.path(TABLE).read_text(encoding="utf-8"):
        return Finding(SUBJECT, OTHER, f"{TABLE} is not the table of {TABLE_OF}")
    if is_same and not deviation:
        return Finding(SUBJECT, SAME, f"{name} scored again: the same answers, byte for byte, and the same metrics")
    text = f"{name} scored again: answers and metrics differ by up to {deviation:.1e}; the bound is {BOUND:.0e}"
    return Finding(SUBJECT, SAME if deviation <= BOUND else OTHER, text)


def _answers(name: str) -> str:
    return f"samples/{name}.jsonl"


def _scored(artifact: Artifact, name: str) -> list[Any]:
    """Returns the answers to the items of the benchmark ``name``, and its metrics."""
    answers = [orjson.loads(line) for line in read_lines(artifact.path(_answers(name)))]
    (own,) = (own for own in read_json(artifact.path(TABLE_OF))["benchmarks"] if own["name"] == name)
    return [answers, own["metrics"]]


def _deviation(before: Any, now: Any) -> float:
    """Returns the largest difference of two numbers in the same place; infinity where anything else differs."""
    if isinstance(before, float) and isinstance(now, float | int):
        return abs(now - before) / max(1.0, abs(before))
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return max(map(_deviation, before, now), default=0.0)
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        return max((_deviation(value, now[name]) for name, value in before.items()), default=0.0)
    return 0.0 if before == now else float("inf")
