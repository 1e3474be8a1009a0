"""Figures of scores: accuracies, benchmarks over steps, differences; and the questions that are shown."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.core.artifact import TaskOutput, finish
from headrace.pipeline.report.report import Report
from headrace.pipeline.report.score_figures import (
    AccuracyMark,
    Interval,
    accuracies,
    benchmark_curves,
    forest,
    main_metrics,
)
from headrace.pipeline.report.score_history import IN_LOOP, Point
from headrace.pipeline.report.score_table import PER_BENCHMARK, ScoreTable, questions
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric
from headrace.train.inference.queries import Tally
from tests.pipeline.report.test_report import CLEANING, artifact, full_run, write_report
from tests.pipeline.report.test_score_history import scored_checkpoint


def entry(name, shots, value, groups=(), truncated=0):
    def metric(name, value, group=""):
        return Metric(name, value, 0.1, (value - 0.1, value + 0.1), 0.25, 9, group)

    metrics = (metric("acc", value), metric("acc_norm", 0.9), *(metric("acc", share, group) for group, share in groups))
    return BenchmarkScores(name, shots=shots, tally=Tally(9, 9, truncated, 1), metrics=metrics)


def named_after(name, metric):
    """Returns the scores of a benchmark with one metric."""
    return BenchmarkScores(name, metrics=(Metric(metric, 0.5, None, None, None, 1),))


QUIZ = [entry("quiz", 0, 0.3), entry("quiz_16shot", 16, 0.5, truncated=3), entry("quiz_2shot", 2, 0.4)]


def traces(figure):
    return json.loads(figure.json)["data"]


def test_all_numbers_of_shots_share_a_row():
    found = [AccuracyMark("quiz acc", 0, 0.3, (0.2, 0.5), 0.25), AccuracyMark("quiz acc", 16, 0.5, None, 0.25),
             AccuracyMark("sums acc", 0, 0.0, (0.0, 0.1), None)]  # fmt: skip
    guess, zero, many = traces(accuracies(found))
    assert (guess["x"], guess["y"]) == ([0.25], [0])
    assert (zero["name"], zero["x"], zero["y"]) == ("0 shots", [0.3, 0.0], pytest.approx([-0.175, 0.825]))
    assert (many["name"], many["x"], many["y"]) == ("16 shots", [0.5], pytest.approx([0.175]))
    assert (zero["error_x"]["array"], zero["error_x"]["arrayminus"]) == (
        pytest.approx([0.2, 0.1]),
        pytest.approx([0.1, 0]),
    )
    assert zero["opacity"] < many["opacity"] == 1
    assert json.loads(accuracies(found).json)["layout"]["yaxis"]["ticktext"] == ["quiz acc", "sums acc"]
    assert [trace["name"] for trace in traces(accuracies(found[:1]))] == ["random guessing", "this model"]
    assert accuracies([]) is None


def test_rows_of_one_metric_are_sorted_by_shots(tmp_path):
    def fill(out):
        with out.file("scores.json") as path:
            path.write_text(json.dumps({"benchmarks": [one.row() for one in QUIZ]}))
        return {}

    table = ScoreTable.of(artifact(tmp_path, "scores", {}, fill))
    shown = [(row.benchmark.base_name, row.metric.name, row.benchmark.shots) for row in table.rows]
    assert shown == [("quiz", metric, shots) for metric in ("acc", "acc_norm") for shots in (0, 2, 16)]
    assert [(row.benchmark.base_name, row.title) for row in table.headlines()] == [("quiz", "quiz acc")]
    assert len(traces(table.figure)) == 4


def test_forest_plot_of_differences():
    found = [Interval("quiz acc", "b", 2.0, -1.0, 4.0, ""), Interval("quiz acc", "c", 5.0, 4.0, 7.0, "**"),
             Interval("sums acc", "b", -3.0, -4.0, -2.5, "*")]  # fmt: skip
    figure = forest("shares", found, "points")
    b, c = traces(figure)
    assert (b["x"], b["y"]) == ([2.0, -3.0], pytest.approx([-0.15, 0.85]))
    assert (c["x"], c["y"], c["text"]) == ([5.0], pytest.approx([0.15]), ["**"])
    assert (b["marker"]["symbol"], b["text"]) == (["circle-open", "circle"], ["", "*"])
    assert (b["error_x"]["array"], b["error_x"]["arrayminus"]) == ([2.0, 0.5], [3.0, 1.0])
    assert json.loads(figure.json)["layout"]["yaxis"]["ticktext"] == ["quiz acc", "sums acc"]
    assert forest("shares", [], "points") is None


def samples(folder, verdicts):
    out = TaskOutput(folder, "scores", 0)
    with out.file("samples/quiz.jsonl") as path:
        rows = [
            {"name": f"f:{n}", "prompts": ["p"], "continuations": [" a"], "log_likelihoods": [-1.0], "greedy": [True],
             "gold": 0, "overlap": "too_short", "outcome": {"acc": value}}
            for n, value in enumerate(verdicts)
        ]  # fmt: skip
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out.done({})
    return finish(folder, {"stage": "scores"}, {"scores": 1})


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([1.0] * 100, range(24)),
        ([1.0] * 50 + [0.0] * 50, [*range(12), *range(50, 62)]),
        ([0.0] * 50 + [1.0] * 3, [*range(21), 50, 51, 52]),
        ([0.5, 1.0, 0.0], [0, 1, 2]),
    ],
)
def test_questions_are_half_right_and_half_wrong_if_possible(tmp_path, verdicts, expected):
    found = questions(samples(tmp_path / "s", verdicts), [named_after("quiz", "acc")])
    assert [question.name for question in found] == [f"f:{n}" for n in expected]
    assert len(found) <= PER_BENCHMARK
    names = {1.0: "right", 0.0: "wrong", 0.5: ""}
    assert [question.verdict for question in found] == [names[verdicts[n]] for n in expected]
    assert {question.overlap for question in found} == {"too short"}


def test_many_benchmarks_have_fewer_questions_each(tmp_path):
    entries = [named_after("quiz", "acc")] + [BenchmarkScores(f"no:{n}") for n in range(99)]
    assert len(questions(samples(tmp_path / "s", [1.0] * 100), entries)) == 4


def test_a_likelihood_is_neither_right_nor_wrong(tmp_path):
    entries = [named_after("quiz", "perplexity")]
    assert {question.verdict for question in questions(samples(tmp_path / "s", [1.0, 0.0]), entries)} == {""}


@pytest.mark.parametrize(("value", "verdict"), [(1.0, "right"), (0.0, "wrong")])
def test_a_written_answer_is_shown_with_the_right_answer(tmp_path, value, verdict):
    row = {
        "name": "f:1",
        "prompts": ["Q"],
        "continuations": [],
        "log_likelihoods": [],
        "greedy": [],
        "gold": 0,
        "written": [" Onion"],
        "right_answers": ["Onion", "Allium"],
        "outcome": {"exact_match (x)": value},
    }
    out = TaskOutput(tmp_path / "s", "scores", 0)
    with out.file("samples/trivia.jsonl") as path:
        path.write_text(json.dumps(row))
    out.done({})
    scores = finish(tmp_path / "s", {"stage": "scores"}, {"scores": 1})
    (question,) = questions(scores, [named_after("trivia", "exact_match (x)")])
    assert (question.prompt, question.verdict) == ("Q", verdict)
    shown = [(choice.text, choice.right, choice.chosen) for choice in question.choices]
    assert shown == [(" Onion", verdict == "right", True), ("Onion", True, False)]


def point(
    step: int, benchmark: str, value: float, metric: str = "acc", group: str = "", source: str = IN_LOOP
) -> Point:
    interval = (value - 0.1, value + 0.2)
    return Point(step, benchmark, source, Metric(metric, value, 0.05, interval, 0.25, 20, group))


POINTS = [
    point(8, "piqa", 0.6),
    point(4, "piqa", 0.5),
    point(4, "piqa", 0.4, metric="acc_norm"),
    point(4, "piqa", 0.9, group="hard"),
    point(6, "piqa", 0.55, source="watch 0a1b2c"),
    point(4, "validation", 1.5, metric="bits_per_byte"),
]


def test_main_metric_of_each_benchmark_by_source_and_step():
    found = main_metrics(POINTS)
    assert {
        name: {source: [p.metric.value for p in line] for source, line in of.items()} for name, of in found.items()
    } == {
        "piqa": {IN_LOOP: [0.5, 0.6], "watch 0a1b2c": [0.55]},
        "validation": {IN_LOOP: [1.5]},
    }


def test_a_panel_for_each_benchmark_with_intervals_and_guessing():
    figure = benchmark_curves(POINTS)
    chart = json.loads(figure.json)
    assert [title["text"] for title in chart["layout"]["annotations"]] == ["piqa acc", "validation bits per byte"]
    drawn = [trace for trace in chart["data"] if trace["x"] != [None]]
    guess, first, second, bits = drawn
    assert (guess["x"], guess["y"], guess["line"]["dash"]) == ([4, 6, 8], [0.25, 0.25, 0.25], "dot")
    assert (first["x"], first["y"]) == ([4, 8], [0.5, 0.6])
    assert [round(length, 6) for length in first["error_y"]["array"]] == [0.2, 0.2]
    assert [round(length, 6) for length in first["error_y"]["arrayminus"]] == [0.1, 0.1]
    assert second["line"]["color"] != first["line"]["color"] == bits["line"]["color"]
    legend = [trace["name"] for trace in chart["data"] if trace.get("showlegend")]
    assert legend == ["watch 0a1b2c", IN_LOOP]


def test_no_figure_without_scores():
    assert benchmark_curves([]) is None


def test_page_has_a_figure_when_a_checkpoint_is_scored(tmp_path: Path):
    inputs = full_run(tmp_path)
    assert 'id="figure-benchmarks"' not in write_report(inputs, tmp_path / "before").read_text()
    scored_checkpoint(tmp_path, inputs["weights"].folder.name, 100, 0.5)
    page = write_report(inputs, tmp_path / "after").read_text()
    assert 'id="figure-benchmarks"' in page
    assert "blimp acc" in page


def test_new_checkpoint_scores_change_the_address(tmp_path: Path):
    addresses = {"weights": "abc"}
    before = Report(root=str(tmp_path), cleaning=CLEANING, shown=("weights",)).address(addresses)
    assert before == Report(root=str(tmp_path / "elsewhere"), cleaning=CLEANING, shown=("weights",)).address(addresses)
    scored_checkpoint(tmp_path, "other", 100, 0.5)
    assert Report(root=str(tmp_path), cleaning=CLEANING, shown=("weights",)).address(addresses) == before
    scored_checkpoint(tmp_path, "abc", 100, 0.5)
    after = Report(root=str(tmp_path), cleaning=CLEANING, shown=("weights",)).address(addresses)
    assert after != before
    scored_checkpoint(tmp_path, "abc", 200, 0.5)
    assert Report(root=str(tmp_path), cleaning=CLEANING, shown=("weights",)).address(addresses) not in (before, after)
