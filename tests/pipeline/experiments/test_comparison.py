"""The differences of the scores of two and three runs, from scores made by hand."""

import json
import math
from types import MappingProxyType

import pytest

from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.statistics import mcnemar, paired_bootstrap
from headrace.pipeline.experiments import comparison
from headrace.pipeline.experiments.comparison import Contestant, cells, compared_metrics, header, intervals
from headrace.pipeline.report.score_figures import Interval
from headrace.pipeline.report.score_table import ScoreTable
from headrace.train.evaluation.metrics import accuracy, perplexity

FIRST = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
SECOND = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
NATS = [-1.0, -2.0, -3.0]


def artifact(folder, benchmarks, shots=MappingProxyType({}), inputs=MappingProxyType({})) -> Artifact:
    """Returns scores: by benchmark, the given metrics and the outcomes of its items, with 5 shots by default."""
    out, entries = TaskOutput(folder, "scores", 0), []
    for name, (metrics, outcomes) in benchmarks.items():
        rows = [
            {"name": f"f:{line}", "group": "", "continuations": [], "outcome": outcome}
            for line, outcome in enumerate(outcomes)
        ]
        with out.file(f"samples/{name}.jsonl") as path:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        values = [vars(one) | {"interval": one.interval and list(one.interval)} for one in metrics]
        entries.append({"name": name, "shots": shots.get(name, 5), "metrics": values})
    with out.file("scores.json") as path:
        path.write_text(json.dumps({"benchmarks": entries}))
    out.done({})
    return finish(folder, {"stage": "scores", "inputs": dict(inputs)}, {"scores": 1})


def run_of(folder, right, nats, inputs=MappingProxyType({})) -> Artifact:
    quiz = [accuracy("acc", right, 0.5), accuracy("acc", right[:2], 0.5, "half")]
    words = [perplexity("perplexity", nats, None)]
    return artifact(
        folder,
        {"quiz": (quiz, [{"acc": float(one)} for one in right]),
         "words": (words, [{"log_likelihood": one} for one in nats])},
        inputs=inputs,
    )  # fmt: skip


@pytest.fixture
def runs(tmp_path):
    one, other = run_of(tmp_path / "a", FIRST, NATS), run_of(tmp_path / "b", SECOND, [-0.5, -1.5, -2.5])
    return [Contestant.of("a", one), Contestant.of("b", other)]


def test_a_table_by_hand(runs):
    accuracy_row, words_row = compared_metrics(runs)
    (found,) = accuracy_row.differences
    assert (found.value, found.p) == (pytest.approx(8 / 12), mcnemar(1, 9))
    (found,) = words_row.differences
    assert (found.value, found.interval) == (-0.5, (-0.5, -0.5))  # the logarithm of perplexity falls by half a nat
    assert header(runs) == ["benchmark", "shots", "metric", "items", "a", "b", "b − a", "p"]
    low, high = (f"{100 * end:+.2f}" for end in paired_bootstrap(FIRST, SECOND).interval)
    quiz, words = cells([accuracy_row, words_row])
    assert quiz == [
        "quiz", "5", "acc %", "12", "25.00 [8.89, 53.23]", "91.67 [64.61, 98.51]", f"+66.67 [{low}, {high}]", "0.021 *"
    ]  # fmt: skip
    assert words[:4] == ["words", "5", "perplexity", "3"]
    assert words[4].startswith("7.389 [")
    assert words[6:] == ["-0.5 [-0.5, -0.5]", "0.0001 ***"]


def test_stars_stand_after_holms_correction(runs, monkeypatch):
    rows = list(compared_metrics(runs))
    monkeypatch.setattr(comparison, "holm", lambda p_values: [0.2 for _ in p_values])
    assert [line[-1] for line in cells(rows)] == ["0.021", "0.0001"]


def test_only_shared_items_are_compared(tmp_path):
    words = {"acc": 1.0}
    one = artifact(tmp_path / "a", {"quiz": ([accuracy("acc", [1, 1], 0.5)], [words, {"acc": 1.0}])})
    other = artifact(tmp_path / "b", {"quiz": ([accuracy("acc", [0, 1, 0], 0.5)], [{"acc": 0.0}, words, {"acc": 0.0}])})
    (row,) = compared_metrics([Contestant.of("a", one), Contestant.of("b", other)])
    assert row.differences[0].value == -0.5


def test_what_cannot_be_told_is_left_open(tmp_path, runs):
    other = artifact(tmp_path / "c", {"quiz": ([accuracy("acc", [0, 1], 0.5)], [{"f1": 0.5}] * 2)})
    rows = list(compared_metrics([*runs, Contestant.of("c", other)]))
    quiz, words = cells(rows)
    assert quiz[8:] == ["50.00 [9.45, 90.55]", "–", "–"]
    assert words[8:] == ["–", "–", "–"]
    assert [row.differences[0].p for row in rows] == [row.differences[0].p for row in compared_metrics(runs)]


def test_bits_per_byte_need_the_same_bytes(tmp_path):
    def of(name, nats, sizes):
        outcomes = [{"nats": a, "bytes": b, "tokens": b} for a, b in zip(nats, sizes, strict=True)]
        metric = accuracy("bits_per_byte", [1, 1], 0.5)
        return Contestant.of(name, artifact(tmp_path / name, {"validation": ([metric], outcomes)}))

    (same,) = compared_metrics([of("a", [2.0, 2.0], [2, 2]), of("b", [4.0, 4.0], [2, 2])])
    assert same.differences[0].value == pytest.approx(1 / math.log(2))
    (other,) = compared_metrics([of("c", [2.0, 2.0], [2, 2]), of("d", [4.0, 4.0], [3, 3])])
    assert other.differences == [None]
    (single,) = compared_metrics([of("e", [2.0], [2]), of("f", [4.0], [2])])
    assert single.differences == [None], "one item shows nothing about others"


def test_benchmarks_come_in_the_order_of_their_shots(tmp_path):
    names = {"quiz_16shot": 16, "quiz_2shot": 2, "quiz": 0, "other": 5}
    run = artifact(
        tmp_path / "a", {name: ([accuracy("acc", [1, 0], 0.5)], [{"acc": 1.0}] * 2) for name in names}, names
    )
    rows = compared_metrics([Contestant.of("a", run), Contestant.of("b", run)])
    assert [row.benchmark for row in rows] == ["other", "quiz", "quiz_2shot", "quiz_16shot"]


def test_differences_for_the_figures(runs):
    rows = list(compared_metrics(runs))
    (share,), (other,) = intervals(runs, rows, True), intervals(runs, rows, False)
    low, high = (100 * end for end in paired_bootstrap(FIRST, SECOND).interval)
    assert share == Interval("quiz acc", "b", pytest.approx(800 / 12), low, high, "*")
    assert other == Interval("words perplexity", "b", -0.5, -0.5, -0.5, "***")
    assert len(intervals([runs[0]] * 2, list(compared_metrics([runs[0]] * 2)), True)) == 1


def test_a_metric_of_the_harness_with_a_filter_is_compared_over_the_lines_of_its_filter(tmp_path):
    """The harness has a line for each filter of an item; its outcome has the bare name."""

    def of(name, strict, flexible):
        folder = tmp_path / name
        out, lines = TaskOutput(folder, "scores", 0), []
        for group, right in (("strict-match", strict), ("flexible-extract", flexible)):
            lines += [
                {"name": f"gsm:{n}", "group": group, "outcome": {"exact_match": one}} for n, one in enumerate(right)
            ]
        with out.file("samples/gsm8k.jsonl") as path:
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        metrics = [
            accuracy("exact_match (strict-match)", strict, 0.0),
            accuracy("exact_match (flexible-extract)", flexible, 0.0),
        ]
        values = [vars(one) | {"interval": one.interval and list(one.interval)} for one in metrics]
        with out.file("scores.json") as path:
            path.write_text(json.dumps({"benchmarks": [{"name": "gsm8k", "type": "lm_eval", "metrics": values}]}))
        out.done({})
        return Contestant.of(name, finish(folder, {"stage": "scores"}, {"scores": 1}))

    rows = list(compared_metrics([of("a", [0.0] * 4, [1.0] * 4), of("b", [1.0] * 4, [1.0, 1.0, 1.0, 0.0])]))
    assert [(row.kind.name, row.differences[0].value) for row in rows] == [
        ("exact_match (strict-match)", 1.0), ("exact_match (flexible-extract)", -0.25),
    ]  # fmt: skip


def test_a_perplexity_has_an_interval_and_no_error_of_both_sides_alike(tmp_path):
    quiz, words = ScoreTable.of(run_of(tmp_path / "a", FIRST, NATS)).rows
    assert quiz.cells["standard error"].startswith("± ")
    assert (words.cells["standard error"], words.cells["95 % interval"].count(" to ")) == ("", 1)
