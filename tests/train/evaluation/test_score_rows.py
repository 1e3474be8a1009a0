"""Rows of scores: written and read again; a metric that is added by its declaration appears everywhere.

The table shows what scores.json holds.
"""

import dataclasses
import json

import pytest

from headrace.pipeline.commands.evaluate import line
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.experiments.comparison import Contestant, cells, compared_metrics
from headrace.pipeline.report.score_history import Point
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.tracking.tracker import curves
from headrace.train.evaluation import score_rows
from headrace.train.evaluation.benchmarks.minimal_pairs import Agreement
from headrace.train.evaluation.contamination import metrics_by_part
from headrace.train.evaluation.harness_files import results
from headrace.train.evaluation.metrics import accuracy, mean, mean_over_groups
from headrace.train.evaluation.score_rows import (
    KINDS,
    BenchmarkScores,
    Metric,
    MetricKind,
    kind_of,
    markdown,
    read_scores,
)
from headrace.train.evaluation.scoring import interval_notes
from headrace.train.inference.queries import Tally
from tests.train.evaluation.test_benchmarks import sources

ADDED = MetricKind("wrong_share", is_share=True, higher_is_better=False, outcome="wrong", size="tries", factor=0.5)
METRIC = Metric("wrong_share", 0.25, 0.05, (0.15, 0.35), 0.5, 4)


@pytest.fixture
def added(monkeypatch) -> None:
    """The declaration is the only place that names the metric."""
    monkeypatch.setattr(score_rows, "KINDS", {**KINDS, ADDED.name: ADDED})


def artifact(folder, wrong: float) -> Artifact:
    out = TaskOutput(folder, "scores", 0)
    metric = dataclasses.replace(METRIC, value=wrong / 4)
    scores = BenchmarkScores("quiz", items=4, metrics=(metric,))
    with out.file("scores.json") as path:
        path.write_text(json.dumps({"benchmarks": [scores.row()]}))
    with out.file("samples/quiz.jsonl") as path:
        outcomes = [{"wrong": wrong, "tries": 2.0} for _ in range(4)]
        rows = [{"name": f"f:{n}", "group": "", "outcome": one} for n, one in enumerate(outcomes)]
        rows = [row | {"continuations": [], "written": []} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out.done({})
    return finish(folder, {"stage": "scores"}, {"scores": 1})


@pytest.mark.usefixtures("added")
def test_an_added_metric_is_in_every_view(tmp_path) -> None:
    one, other = artifact(tmp_path / "a", 1.0), artifact(tmp_path / "b", 3.0)
    scores = read_scores(one.path("scores.json"))
    assert "| quiz | 0 | wrong_share | 25.00 % ± 5.00 % | 15.00 % – 35.00 % | 50.00 % | 4 |" in markdown(scores)
    exported = results(scores, "fp32", {})
    assert exported["results"]["quiz"]["wrong_share,none"] == 0.25
    assert exported["higher_is_better"] == {"quiz": {"wrong_share": False}}
    (row,) = ScoreTable.of(one).rows
    assert (row.cells["value"], row.cells["standard error"], row.title) == ("25.0 %", "± 5.0 %", "quiz wrong share")
    (compared,) = compared_metrics([Contestant.of("a", one), Contestant.of("b", other)])
    assert compared.differences[0].value == 0.5, "0.5 · (wrong of b − wrong of a) / tries"
    (shown,) = cells([compared])
    assert (shown[2], shown[4]) == ("wrong_share %", "25.00 [15.00, 35.00]")
    assert line([Point(8, "quiz", "watch", METRIC)]) == "step 8  quiz wrong_share 25.0 % ± 5.0 %"
    assert curves({"quiz": [METRIC.row()]}) == {"evaluation/quiz/wrong_share": 0.25}


def test_rows_are_read_as_they_were_written() -> None:
    clean = Metric("acc", 0.5, None, None, 0.25, 1, "a")
    metric = Metric("acc", 0.75, 0.1, (0.5, 0.9), 0.25, 4, "a", clean=clean)
    scores = BenchmarkScores("quiz_2shot", "lambada", 2, 4, Tally(1, 2, 3, 4, 5), {"clean": 1}, (metric,))
    assert BenchmarkScores.read(json.loads(json.dumps(scores.row()))) == scores
    assert scores.base_name == "quiz"
    assert list(metric.row()) == ["name", "group", "value", "standard_error", "interval", "random", "items"]


def test_rows_without_the_fields_of_today_are_read() -> None:
    older = {"name": "quiz", "metrics": [{"name": "acc", "value": 0.5, "items": 2}]}
    assert BenchmarkScores.read(older).metrics == (Metric("acc", 0.5, None, None, None, 2),)


@pytest.mark.parametrize(
    ("name", "is_share", "higher"),
    [
        ("acc_mutual_info", True, True),
        ("exact_match (strict-match)", True, True),
        ("f1 (macro)", True, True),
        ("bleu", False, True),
        ("ter", False, False),
        ("likelihood_diff", False, None),
        ("word_perplexity (x)", False, False),
    ],
)
def test_metrics_of_the_harness_need_no_declaration(name: str, is_share: bool, higher: bool | None) -> None:
    kind = kind_of(name)
    assert (kind.name, kind.is_share, kind.higher_is_better) == (name, is_share, higher)


def test_an_unknown_direction_is_not_exported() -> None:
    metrics = tuple(Metric(name, 0.5, None, None, None, 4) for name in ("likelihood_diff", "brier_score"))
    exported = results([BenchmarkScores("crows", metrics=metrics)], "fp32", {})
    assert exported["higher_is_better"] == {"crows": {"brier_score": False}}


def test_an_undeclared_metric_of_ours_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(score_rows, "KINDS", {})
    benchmark = Agreement(limit=2)
    items = benchmark.items(sources())
    with pytest.raises(KeyError, match="the metric 'acc' is declared neither"):
        metrics_by_part(benchmark, items, [{"acc": 1.0}] * 2, [None] * 2, 9)


def test_a_missing_interval_has_its_reason():
    groups = [accuracy("acc", [1.0], 0.5, "a"), accuracy("acc", [1.0, 0.0], 0.5, "b")]
    whole = mean_over_groups("acc", {"a": [1.0], "b": [1.0, 0.0]}, 0.5)
    assert list(interval_notes(whole)) == ["acc has no interval: one item in a."]
    assert list(interval_notes([mean("loss", [2.0], None)])) == ["loss has no interval: one item."]
    assert not list(interval_notes([*groups[1:], mean("loss", [2.0, 3.0], None)]))


ACC = Metric("acc", 0.5, 0.05, (0.4, 0.6), 0.25, 1234)
SCORES = BenchmarkScores("piqa", "multiple_choice", 5, 1234, Tally(2468, 9000, 3, 70, 0), None, (ACC,))


def test_table():
    perplexity = Metric("perplexity", 12345.678, None, None, None, 1234)
    group = dataclasses.replace(ACC, group="island")
    scores = dataclasses.replace(SCORES, metrics=(ACC, perplexity, group))
    empty = BenchmarkScores("held_out_words")
    assert markdown([scores, empty]).splitlines() == [
        "| benchmark | shots | metric | value | 95 % interval | random | items | clean | dirty |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
        "| piqa | 5 | acc | 50.00 % ± 5.00 % | 40.00 % – 60.00 % | 25.00 % | 1,234 | – | – |",
        "| piqa | 5 | perplexity | 12,345.7 | – | – | 1,234 | – | – |",
        "| held_out_words | 0 | – | no items | – | – | 0 | – | – |",
        "",
        "By group:",
        "",
        "| benchmark | shots | metric | value | 95 % interval | random | items | clean | dirty |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
        "| piqa / island | 5 | acc | 50.00 % ± 5.00 % | 40.00 % – 60.00 % | 25.00 % | 1,234 | – | – |",
        "",
        "piqa: 3 of 2,468 contexts did not fit the window and lost 70 tokens on the left.",
    ]
