"""Each formula against a case worked out by hand."""

import math

import numpy as np
import pytest

from headrace.train.evaluation.metrics import accuracy, exponential, mean_over_groups, perplexity, ratio


def test_accuracy_of_three_in_four():
    metric = accuracy("acc", [1, 1, 0, 1], 0.25)
    assert metric.value == 0.75
    assert metric.standard_error == pytest.approx(math.sqrt(0.75 * 0.25 / 3))  # 0.25
    assert metric.interval == pytest.approx((0.30064, 0.95441), abs=1e-5)  # Wilson for 3 of 4
    assert (metric.random, metric.items, metric.group) == (0.25, 4, "")


def test_standard_error_is_the_sample_deviation_over_root_n():
    right = [1.0] * 13 + [0.0] * 24
    expected = np.std(right, ddof=1) / math.sqrt(len(right))
    assert accuracy("acc", right, 0).standard_error == pytest.approx(expected)


def test_nothing_right_still_has_an_interval():
    metric = accuracy("acc", [0.0] * 10, 0)
    assert metric.interval == pytest.approx((0, 0.27753), abs=1e-5)  # Wilson for 0 of 10: z² / (n + z²)
    assert metric.standard_error == 0


def test_one_item_has_no_standard_error():
    assert accuracy("acc", [1.0], 0.5).standard_error is None
    assert perplexity("perplexity", [-1.0], None).interval is None
    assert ratio("loss", [2.0], [4], None).standard_error is None


def test_groups_weigh_the_same():
    whole, first, second = mean_over_groups("acc", {"b": [1, 0], "a": [1, 1, 1, 0]}, 0.5)
    assert (first.group, second.group, whole.group) == ("a", "b", "")
    assert whole.value == pytest.approx((0.75 + 0.5) / 2)
    assert whole.standard_error == pytest.approx(math.sqrt(0.75 * 0.25 / 3 + 0.5 * 0.5 / 1) / 2)
    assert whole.items == 6


def test_a_single_group_is_the_whole():
    (only,) = mean_over_groups("acc", {"": [1, 0, 1]}, 0.5)
    assert (only.value, only.items, only.group) == (2 / 3, 3, "")


def test_perplexity_of_two_words():
    metric = perplexity("perplexity", [-math.log(2), -math.log(8)], 100.0)
    assert metric.value == pytest.approx(4)
    error = math.log(4) / math.sqrt(2) / math.sqrt(2)  # deviation of (ln 2, ln 8) over root 2
    assert metric.standard_error == pytest.approx(4 * error)
    assert metric.interval == pytest.approx((4 * math.exp(-1.959964 * error), 4 * math.exp(1.959964 * error)))
    assert metric.random == 100


def test_ratio_weighs_documents_by_size():
    metric = ratio("loss", [2.0, 12.0], [1, 3], None)
    assert metric.value == 3.5
    assert metric.standard_error == pytest.approx(math.sqrt(2 * (1.5**2 + 1.5**2)) / 4)
    assert exponential(metric, "perplexity", 9.0).value == pytest.approx(math.exp(3.5))


def test_ratio_of_equal_sizes_is_a_mean():
    values = [1.0, 4.0, 2.5, 3.0]
    assert ratio("x", values, [1] * 4, None).standard_error == pytest.approx(np.std(values, ddof=1) / 2)


def test_a_hopeless_model_has_a_finite_perplexity():
    assert math.isfinite(perplexity("perplexity", [-5000.0, -6000.0], None).value)
