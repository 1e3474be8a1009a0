"""Figures of benchmarks over steps: their points, and their place on the page."""

import json
from pathlib import Path

from headrace.pipeline.report.report import Report
from headrace.pipeline.report.score_figures import benchmark_curves, main_metrics
from headrace.pipeline.report.score_history import IN_LOOP, Point
from headrace.train.evaluation.score_rows import Metric
from tests.pipeline.report.test_report import CLEANING, full_run, write_report
from tests.pipeline.report.test_score_history import scored_checkpoint


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
