"""Signal and noise of a benchmark, from scores made by hand."""

import json
import statistics
from pathlib import Path

import pytest

from headrace.pipeline.core.statistics import pooled_deviation
from headrace.pipeline.experiments.contestants import Contestant
from headrace.pipeline.experiments.signal_and_noise import HEAD, signal_and_noise, signal_table
from headrace.train.evaluation.metrics import accuracy
from headrace.train.evaluation.score_rows import BenchmarkScores


def contestant(folder: Path, name: str, seed: int, layers: int, right: list[int], history: list[float]) -> Contestant:
    """Returns a run whose training was scored while it ran, each time as ``history`` says."""
    weights = folder / "weights" / name
    weights.mkdir(parents=True)
    rows = [
        {"step": step, "evaluation": {"quiz": [{"name": "acc", "value": value, "items": 4}]}}
        for step, value in enumerate(history)
    ]
    (weights / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = {"quiz": BenchmarkScores("quiz", metrics=(accuracy("acc", right, 0.5),))}
    return Contestant(name, None, weights, scores, {"training": {"seed": seed}, "model": {"layers": layers}})


def test_signal_is_between_models_and_noise_between_seeds_and_checkpoints(tmp_path: Path) -> None:
    runs = [
        contestant(tmp_path, "a1", 1, 2, [1, 0, 0, 0], [0.0, 0.2, 0.3, 0.2, 0.3, 0.25]),
        contestant(tmp_path, "a2", 2, 2, [1, 1, 0, 0], [0.5]),
        contestant(tmp_path, "b1", 1, 4, [1, 1, 1, 1], []),
    ]
    (row,) = signal_and_noise(runs)
    assert (row.benchmark, row.metric, row.models) == ("quiz", "acc", 2)
    assert row.signal == pytest.approx(1.0 - (0.25 + 0.5) / 2)
    assert row.seed_noise == pytest.approx(statistics.stdev([0.25, 0.5]))
    assert row.checkpoint_noise == pytest.approx(statistics.stdev([0.2, 0.3, 0.2, 0.3, 0.25]))  # the last five
    assert row.ratio == pytest.approx(0.625 / statistics.stdev([0.25, 0.5]))
    assert signal_table(runs) == [HEAD, ["quiz", "acc", "2", "0.625", "0.050", "0.177", "3.536"]]


def test_without_seeds_and_checkpoints_nothing_is_said(tmp_path: Path) -> None:
    runs = [
        contestant(tmp_path, "a", 1, 2, [1, 0, 0, 0], []),
        contestant(tmp_path, "b", 1, 4, [1, 1, 0, 0], [0.5]),
    ]
    assert signal_table(runs) == [HEAD]


def test_seeds_of_one_model_have_noise_and_no_signal(tmp_path: Path) -> None:
    runs = [
        contestant(tmp_path, "a", 1, 2, [1, 0, 0, 0], []),
        contestant(tmp_path, "b", 2, 2, [1, 1, 0, 0], []),
    ]
    (row,) = signal_and_noise(runs)
    assert (row.models, row.signal, row.ratio) == (1, None, None)


def test_deviations_are_pooled_by_their_degrees_of_freedom() -> None:
    assert pooled_deviation([[1.0, 3.0], [5.0], [], [0.0, 0.0, 0.0]]) == pytest.approx((2 / 3) ** 0.5)
    assert pooled_deviation([[1.0], []]) is None
