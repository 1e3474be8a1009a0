"""Metrics of predictions, as the benchmarks define them.

    accuracy, F1, Matthews     classes, as texts in the order of the examples
    Pearson, Spearman          numbers
    exact match, F1 of words   texts, the best over the right answers (SQuAD, ReCoRD)
    F1a, exact match           classes in groups (MultiRC)

All are shares or correlations: 1 is the best. A prediction that is no class at all counts as wrong: it equals no truth.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.train.evaluation.text_metrics import best_match


def accuracy(truth: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns the share of ``predicted`` that equals ``truth``."""
    return float(np.mean([label == other for label, other in zip(truth, predicted, strict=True)]))


def f1_binary(truth: Sequence[str], predicted: Sequence[str], positive: str) -> float:
    """Returns F1 of the class ``positive``: 2 TP / (2 TP + FP + FN), and 0 where this is 0 / 0."""
    both = sum(label == other == positive for label, other in zip(truth, predicted, strict=True))
    total = sum(label == positive for label in truth) + sum(label == positive for label in predicted)
    return 2 * both / total if total else 0.0


def f1_macro(truth: Sequence[str], predicted: Sequence[str], classes: Sequence[str] = ()) -> float:
    """Returns the mean of F1 over ``classes``; without them, over those that occur."""
    return float(np.mean([f1_binary(truth, predicted, name) for name in classes or sorted({*truth, *predicted})]))


def f1_with_invalid(truth: Sequence[str], predicted: Sequence[str], classes: tuple[str, str]) -> float:
    """Returns F1 of the second one of two ``classes``. What is neither of them counts as the class that is wrong
    (google-research/text-to-text-transfer-transformer, evaluation/metrics.py, ``f1_score_with_invalid``)."""
    negative, positive = classes
    other = {negative: positive, positive: negative}
    valid = [label if label in classes else other[right] for right, label in zip(truth, predicted, strict=True)]
    return f1_binary(truth, valid, positive)


def matthews(truth: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns the correlation of any number of classes (Gorodkin 2004, eq. 8), of two that of Matthews (1975).

    Its value is 0 where one side has a single class.
    """
    names = {name: number for number, name in enumerate(sorted({*truth, *predicted}))}
    table = np.zeros((len(names), len(names)))
    for label, other in zip(truth, predicted, strict=True):
        table[names[label], names[other]] += 1
    rows, columns, total = table.sum(1), table.sum(0), table.sum()
    covariance = np.trace(table) * total - rows @ columns
    scale = np.sqrt(total**2 - rows @ rows) * np.sqrt(total**2 - columns @ columns)
    return float(covariance / scale) if scale else 0.0


def pearson(truth: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns Pearson's correlation; 0 where one side is constant, which has none."""
    x, y = (np.asarray(values, np.float64) for values in (truth, predicted))
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(x @ x) * math.sqrt(y @ y)
    return float(np.clip(x @ y / scale, -1, 1)) if scale else 0.0


def spearman(truth: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns Spearman's correlation: Pearson's of the ranks, equal values sharing the mean of theirs."""
    return pearson(*(mean_ranks(values).tolist() for values in (truth, predicted)))


def mean_ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """Returns the rank of each of ``values``, from 1; equal ones have the mean of their ranks."""
    _, index, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[index], np.float64)


def exact_groups(truth: Sequence[str], predicted: Sequence[str], groups: Sequence[str]) -> float:
    """Returns the share of ``groups`` all of whose predictions are right: exact match of MultiRC (Khashabi et al.
    2018)."""
    right: dict[str, bool] = defaultdict(lambda: True)
    for label, other, group in zip(truth, predicted, groups, strict=True):
        right[group] &= label == other
    return float(np.mean(list(right.values())))


def equal_groups(predicted: Sequence[str], groups: Sequence[str]) -> float:
    """Returns the share of ``groups`` all of whose predictions are equal: the gender parity of AX-g (Wang et al. 2019,
    SuperGLUE, section 3)."""
    given = defaultdict[str, set[str]](set)
    for label, group in zip(predicted, groups, strict=True):
        given[group].add(label)
    return float(np.mean([len(labels) == 1 for labels in given.values()]))


def squad_scores(answers: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, float]:
    """Returns the means of ``exact_match`` and ``f1`` over questions, each the best over its right ``answers``.

    See ``best_match``.
    """
    pairs = [best_match(right, text) for right, text in zip(answers, predicted, strict=True)]
    return {
        "exact_match": float(np.mean([exact for exact, _ in pairs])),
        "f1": float(np.mean([f1 for _, f1 in pairs])),
    }
