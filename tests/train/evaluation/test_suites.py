"""Suites: the mean of several benchmarks, with its error and with items that compare runs."""

import math
import random

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.metrics import accuracy, ratio
from headrace.train.evaluation.score_rows import BenchmarkScores, difference_of, kind_of
from headrace.train.evaluation.settings import Evaluation
from headrace.train.evaluation.suites import Member, suite_scores

BENCHMARKS = {name: {"type": "multiple_choice", "paths": [f"{name}.jsonl"]} for name in ("piqa", "copa")}


def member(name: str, right: list[float], chance: float) -> Member:
    bits = ratio("bits_per_byte", [2.0] * len(right), [1.0] * len(right), None)
    scores = BenchmarkScores(name, items=len(right), metrics=(accuracy("acc", right, chance), bits))
    samples = [{"name": f"{number}", "group": "", "outcome": {"acc": own}} for number, own in enumerate(right)]
    return Member(scores, samples)


def rows_of(*members: Member) -> dict[tuple[str, str], dict[str, float]]:
    _, rows = suite_scores("core", members)
    return {(row["name"], row["group"]): row["outcome"] for row in rows}


def test_each_benchmark_counts_the_same():
    scores, rows = suite_scores("core", [member("a", [1, 1, 1, 0], 0.25), member("b", [1, 0], 0.5)])
    acc, centered, bits = scores.metrics
    assert (acc.name, acc.value, acc.random, acc.items) == ("acc", (0.75 + 0.5) / 2, 0.375, 6)
    assert acc.standard_error == pytest.approx(math.sqrt(0.75 * 0.25 / 3 + 0.5 * 0.5 / 1) / 2)
    assert centered.value == pytest.approx(((0.75 - 0.25) / 0.75 + 0) / 2)
    assert centered.random == 0
    assert bits.value == 2
    for metric in (acc, centered):
        assert math.fsum(row["outcome"][metric.name] for row in rows) / len(rows) == pytest.approx(metric.value)


def test_a_difference_of_suites_is_tested_over_their_items():
    worse = rows_of(member("a", [1, 0] * 50, 0.5), member("b", [0, 1] * 10, 0.5))
    better = rows_of(member("a", [1, 1] * 50, 0.5), member("b", [0, 1] * 10, 0.5))
    difference = difference_of(kind_of("acc"), worse, better)
    assert difference is not None
    assert difference.value == pytest.approx((0.5 + 0) / 2)
    assert difference.p < 0.001


def test_benchmarks_without_an_accuracy_are_named():
    text = BenchmarkScores("text", items=3, metrics=(ratio("loss", [1.0] * 3, [1.0] * 3, None),))
    scores, _ = suite_scores("core", [member("a", [1, 0], 0.5), Member(text, [])])
    assert [metric.name for metric in scores.metrics] == ["acc", "centered_acc"]
    assert scores.notes == ("without text: no accuracy",)


def test_a_suite_is_scored_for_each_number_of_shots():
    values = {"benchmarks": BENCHMARKS | {"pairs": {"type": "agreement"}}, "suites": {"core": ["piqa", "pairs"]}}
    written = decode(Evaluation, values | {"shots": [0, 5]}).expanded()
    assert written.suites == {"core_0shot": ("piqa_0shot", "pairs"), "core_5shot": ("piqa_5shot", "pairs")}
    assert decode(Evaluation, values).expanded().suites == {"core": ("piqa", "pairs")}
    assert decode(Evaluation, values).only({"piqa"}).suites == {}
    assert decode(Evaluation, values).only({"piqa", "pairs"}).suites == {"core": ("piqa", "pairs")}


@pytest.mark.parametrize(
    ("suites", "message"),
    [
        ({"core": ["piqa", "cop"]}, "evaluation.suites.core: no benchmark or task of evaluation is named 'cop'; did"),
        ({"piqa": ["copa"]}, "evaluation.suites.piqa: is the name of a benchmark, too; rename one"),
        ({"a/b": ["copa"]}, "evaluation.suites: 'a/b' names a file; use letters, digits, _ . and -"),
        ({"core": []}, "suites.core: must not be empty (got [])"),
    ],
)
def test_a_suite_that_makes_no_sense_is_refused(suites, message):
    with pytest.raises(ConfigError) as error:
        decode(Evaluation, {"benchmarks": BENCHMARKS, "suites": suites}, "evaluation")
    assert message in str(error.value)


def test_a_suite_is_a_group_of_the_harness_that_weighs_its_tasks_alike():
    harness = pytest.importorskip("lm_eval.api.metrics", reason="the optional extra 'evaluation' is not installed")
    chance = random.Random(7)
    for _ in range(20):
        sizes = [chance.randrange(2, 40) for _ in range(chance.randrange(2, 6))]
        members = [
            member(str(number), [chance.randrange(2) for _ in range(size)], 0.25) for number, size in enumerate(sizes)
        ]
        acc, *_ = suite_scores("core", members)[0].metrics
        parts = [own.scores.metrics[0] for own in members]
        values = [part.value for part in parts]
        errors = [part.standard_error for part in parts]
        assert acc.value == pytest.approx(harness.aggregate_subtask_metrics(values, sizes, weight_by_size=False))
        assert acc.standard_error == pytest.approx(harness.unweighted_mean_stderr(errors))
