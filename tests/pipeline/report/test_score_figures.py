"""Figures of scores: the entries of a curve, hollow points, named heads, the order of differences."""

import json
import math
import re

import pytest

from headrace.pipeline.core.artifact import TaskOutput, finish
from headrace.pipeline.report.questions import PER_BENCHMARK, questions
from headrace.pipeline.report.score_figures import (
    AccuracyMark,
    Interval,
    Shot,
    accuracies,
    few_shot_figure,
    forest,
    group_figures,
    panels_of,
)
from headrace.pipeline.report.score_history import Point
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.report.training_section import context_loss
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric
from headrace.train.inference.queries import Tally
from tests.pipeline.report.test_report import artifact, browse, full_run, write_report

__all__ = ["browse"]


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


def named(figure, name):
    """Returns the traces of this name, without those for the legend."""
    return [trace for trace in traces(figure) if trace["name"] == name and trace["x"] != [None]]


def test_scores_of_one_benchmark_are_a_curve_in_the_order_of_shots():
    (panel,) = panels_of({"a": [*QUIZ, entry("alone", 5, 0.1), BenchmarkScores("x")]})
    assert (panel.title, panel.random, panel.is_by_group) == ("quiz", 0.25, False)
    assert panel.curves == {
        "a": [
            Shot(0, 0.3, (0.3 - 0.1, 0.3 + 0.1), False),
            Shot(2, 0.4, (0.4 - 0.1, 0.4 + 0.1), False),
            Shot(16, 0.5, (0.5 - 0.1, 0.5 + 0.1), True),
        ]
    }


def test_models_share_a_panel_and_have_a_panel_each_for_groups():
    sums = [entry(f"sums_{k}shot", k, 0.2, [("plus", 0.3), ("minus", k / 10)]) for k in (0, 4)]
    found = panels_of({"a": [*QUIZ, *sums], "b": QUIZ[:2]})
    assert [(panel.title, list(panel.curves)) for panel in found] == [
        ("quiz", ["a", "b"]),
        ("sums", ["a"]),
        ("sums, a", ["plus", "minus"]),
    ]
    assert [shot.value for shot in found[2].curves["minus"]] == [0.0, 0.4]
    (alone,) = [panel for panel in panels_of({"a": sums}) if panel.is_by_group]
    assert alone.title == "sums"


def test_points_of_truncated_prompts_are_hollow_and_in_the_legend():
    figure = few_shot_figure(panels_of({"a": QUIZ}))
    (curve,) = named(figure, "a")
    assert (curve["x"], curve["y"]) == (["0", "2", "16"], [0.3, 0.4, 0.5])
    assert curve["marker"]["symbol"] == ["circle", "circle", "circle-open"]
    assert curve["error_y"]["array"] == pytest.approx([0.1, 0.1, 0.1])
    assert named(figure, "random guessing")[0]["y"] == [0.25] * 3
    legend = [trace["name"] for trace in traces(figure) if trace.get("showlegend", True)]
    assert legend == ["a", "some prompts did not fit the window", "random guessing"]
    assert "did not fit" not in few_shot_figure(panels_of({"a": [QUIZ[0], QUIZ[2]]})).json
    assert few_shot_figure([]) is None


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


def test_no_two_of_twenty_lines_look_alike():
    groups = [entry(f"sums_{k}shot", k, 0.2, [(f"set_{n}", 0.3) for n in range(20)]) for k in (0, 4)]
    (figure,) = group_figures([panel for panel in panels_of({"a": groups}) if panel.is_by_group])
    looks = [(one["line"]["color"], one["line"]["dash"]) for n in range(20) for one in named(figure, f"set {n}")]
    assert len(looks) == len(set(looks)) == 20


def point(step, metric, value, group="", source="while training"):
    return Point(step, "b", source, Metric(metric, value, 0.1, None, 0.0, 9, group))


def test_the_loss_by_index_has_curves_of_some_steps_and_derivatives_of_all():
    losses = {(1, 1): 6.0, (2, 3): 5.0, (4, 7): 4.5}
    found = [
        point(step, "loss_by_index", loss - 0.001 * step * first, f"tokens_{first}_{last}")
        for step in range(10, 130, 10)
        for (first, last), loss in losses.items()
    ]
    figure = context_loss([*found, point(10, "loss_by_index", 9.0, "tokens_1_1", source="watch 123456")])
    curves = [trace for trace in traces(figure) if trace["name"].startswith("step")]
    assert [trace["name"] for trace in curves] == [f"step {step}" for step in (10, 30, 40, 60, 70, 90, 100, 120)]
    assert curves[0]["x"] == pytest.approx([1, math.sqrt(6), math.sqrt(28)])
    assert curves[0]["y"] == pytest.approx([5.99, 4.98, 4.46])
    (second, fourth) = (named(figure, f"at token {index}")[0] for index in (2, 4))
    assert second["x"] == list(range(10, 130, 10))
    assert second["y"][0] == pytest.approx((4.98 - 5.99) / math.log(math.sqrt(6)))
    assert fourth["y"][-1] == pytest.approx((4.5 - 0.48 - 5.0 + 0.24) / math.log(math.sqrt(28 / 6)))
    assert context_loss([point(10, "acc", 0.5)]) is None
    assert context_loss([point(10, "loss_by_index", 0.5, "tokens_1_1")]) is None


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


@pytest.mark.slow
def test_a_browser_draws_curves_over_shots_and_over_steps(tmp_path, browse):
    sums = [entry(f"sums_{k}shot", k, 0.2, [("plus", 0.3), ("minus", k / 10)]) for k in (0, 4)]
    entries = [one.row() for one in sums]

    def scores(out):
        with out.file("scores.json") as path:
            path.write_text(json.dumps({"benchmarks": entries}))
        return {}

    def weights(out):
        losses = [
            {"name": "loss_by_index", "group": group, "value": 5.0, "standard_error": 0.1, "interval": None,
             "random": 6.0, "items": 9}
            for group in ("tokens_1_1", "tokens_2_3")
        ]  # fmt: skip
        with out.file("metrics.jsonl") as path:
            rows = [{"step": step, "evaluation": {"in_context": losses}} for step in (10, 20)]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {}

    made = {"scores": scores, "weights": weights}
    inputs = full_run(tmp_path / "a") | {name: artifact(tmp_path / "b", name, {}, fill) for name, fill in made.items()}
    tree, console = browse(write_report(inputs, tmp_path / "report"), "--dump-dom")
    assert console == []
    drawn = re.findall(r'id="figure-(\w+)"[^>]* data-drawn="yes"', tree)
    assert set(drawn) > {"context_loss", "few_shot", "few_shot_groups_0"}
    assert "sums: each group by the number of worked examples, without intervals." in tree


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
