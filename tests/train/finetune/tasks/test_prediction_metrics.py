"""Metrics against SciPy, against their definitions written out, and against the rules of SQuAD's own script."""

import collections
import itertools
import math
import re
import string
import warnings

import numpy as np
import pytest
from scipy import stats

from headrace.train.evaluation.text_metrics import normalized_answer
from headrace.train.finetune.tasks.prediction_metrics import (
    accuracy,
    exact_groups,
    f1_binary,
    f1_macro,
    f1_with_invalid,
    matthews,
    mean_ranks,
    pearson,
    spearman,
    squad_scores,
)

CASES = range(60)


def classes_of(case: int) -> tuple[list[str], list[str]]:
    """Random truth and predictions of 2 to 4 classes; some cases lack a class on one side."""
    random = np.random.default_rng(case)
    names = np.array(["no", "yes", "maybe", "never"])
    size, kinds = int(random.integers(1, 40)), int(random.integers(2, 5))
    truth, found = (names[random.integers(0, kinds, size)] for _ in range(2))
    agree = random.random(size) < 0.5
    return truth.tolist(), np.where(agree, truth, found).tolist()


def slow_f1(truth: list[str], found: list[str], positive: str) -> float:
    """F1 from precision and recall, with 0 for 0 / 0, as scikit-learn's ``zero_division=0``."""
    hits = [one == positive for one, other in zip(truth, found, strict=True) if other == positive]
    wanted = [other == positive for one, other in zip(truth, found, strict=True) if one == positive]
    precision, recall = (sum(of) / len(of) if of else 0.0 for of in (hits, wanted))
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def slow_matthews(truth: list[str], found: list[str]) -> float:
    """Gorodkin's R_K as the correlation of indicator vectors, summed over the classes."""
    names = sorted({*truth, *found})
    one, other = (np.array([[value == name for name in names] for value in side], float) for side in (truth, found))
    one, other = one - one.mean(0), other - other.mean(0)
    scale = math.sqrt((one * one).sum() * (other * other).sum())
    return (one * other).sum() / scale if scale > 1e-12 else 0.0


@pytest.mark.parametrize("case", CASES)
def test_metrics_of_classes(case):
    truth, found = classes_of(case)
    names = sorted({*truth, *found})
    assert accuracy(truth, found) == pytest.approx(np.mean(np.array(truth) == np.array(found)))
    for name in names:
        assert f1_binary(truth, found, name) == pytest.approx(slow_f1(truth, found, name), abs=1e-12)
    assert f1_macro(truth, found) == pytest.approx(np.mean([slow_f1(truth, found, name) for name in names]))
    of_four = ["no", "yes", "maybe", "never"]
    assert f1_macro(truth, found, of_four) == pytest.approx(np.mean([slow_f1(truth, found, name) for name in of_four]))
    assert matthews(truth, found) == pytest.approx(slow_matthews(truth, found), abs=1e-12)


def test_matthews_of_two_classes_is_the_published_formula():
    """Matthews 1975, from the four counts."""
    for tp, fn, fp, tn in itertools.product((1, 3, 6), repeat=4):
        truth = ["1"] * (tp + fn) + ["0"] * (fp + tn)
        found = ["1"] * tp + ["0"] * fn + ["1"] * fp + ["0"] * tn
        wanted = (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        assert matthews(truth, found) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_correlations_are_those_of_scipy(case):
    random = np.random.default_rng(case)
    truth, found = random.normal(size=(2, int(random.integers(2, 30))))
    if case % 2:
        truth, found = np.round(truth), np.round(found)
    assert mean_ranks(truth) == pytest.approx(stats.rankdata(truth))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        wanted = stats.pearsonr(truth, found).statistic, stats.spearmanr(truth, found).statistic
    wanted = [0.0 if math.isnan(value) else value for value in wanted]
    assert [pearson(truth, found), spearman(truth, found)] == pytest.approx(wanted, abs=1e-12)


def test_a_prediction_that_is_no_class_is_wrong():
    truth, found = ["no", "yes", "yes", "no"], ["no", "", "yes", "perhaps"]
    assert accuracy(truth, found) == 0.5
    assert f1_with_invalid(truth, found, ("no", "yes")) == slow_f1(truth, ["no", "no", "yes", "yes"], "yes") == 0.5


def test_a_question_of_multirc_is_right_when_all_its_answers_are():
    truth, found = ["True", "False", "True", "False"], ["True", "False", "True", "True"]
    assert exact_groups(truth, found, ["q1", "q1", "q2", "q2"]) == 0.5


def slow_normalized(text: str) -> str:
    """The steps of SQuAD's evaluation one by one: lower case, punctuation, articles, spaces."""
    kept = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def slow_squad(right: list[str], text: str) -> tuple[float, float]:
    """Exact match and F1 of one question by the rules of evaluate-v2.0.py."""
    golds = [gold for gold in right if slow_normalized(gold)] or [""]
    exacts, f1s = [], []
    for gold in golds:
        exacts.append(float(slow_normalized(gold) == slow_normalized(text)))
        wanted, given = slow_normalized(gold).split(), slow_normalized(text).split()
        common = sum(min(wanted.count(word), given.count(word)) for word in collections.OrderedDict.fromkeys(wanted))
        if not wanted or not given:
            f1s.append(float(wanted == given))
        elif not common:
            f1s.append(0.0)
        else:
            precision, recall = common / len(given), common / len(wanted)
            f1s.append(2 * precision * recall / (precision + recall))
    return max(exacts), max(f1s)


def test_scores_of_answers_are_those_of_squad():
    random = np.random.default_rng(0)
    words = ["The", "mill", "an", "river's", "A", "old", "—", "U.S.", "mill,", "\n", "Anne", "the\u00a0"]

    def text() -> str:
        return " ".join(random.choice(words, int(random.integers(0, 5))))

    questions = [([text() for _ in range(random.integers(0, 4))], text()) for _ in range(400)]
    wanted = [slow_squad(right, found) for right, found in questions]
    assert {exact for exact, _ in wanted} == {0.0, 1.0}
    for (right, found), (exact, f1) in zip(questions, wanted, strict=True):
        assert squad_scores([right], [found]) == pytest.approx({"exact_match": exact, "f1": f1})
        assert normalized_answer(found) == slow_normalized(found)
    means = dict(zip(("exact_match", "f1"), np.mean(wanted, axis=0), strict=True))
    assert squad_scores(*zip(*questions, strict=True)) == pytest.approx(means)
