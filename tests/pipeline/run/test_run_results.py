"""The main results of a run in a few numbers."""

from headrace.pipeline.run.run_results import above_chance, best
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric


def accuracy(name: str, value: float, chance: float | None) -> tuple[BenchmarkScores, Metric]:
    metric = Metric("acc", value, None, None, chance, 100)
    return BenchmarkScores(name, "multiple_choice", items=100, metrics=(metric,)), metric


def test_the_best_score_is_the_one_furthest_above_chance() -> None:
    pairs, four, exact = accuracy("pairs", 0.55, 0.5), accuracy("four", 0.5, 0.25), accuracy("exact", 0.02, None)
    assert best([pairs, four, exact]) == "four acc 50.0 %"
    assert [round(above_chance(metric), 3) for _, metric in (pairs, four, exact)] == [0.1, 0.333, 0.02]
    assert best([]) == ""
