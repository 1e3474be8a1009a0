"""Judges a classifier by held-out texts: accuracy, AUC with intervals, precision and recall by threshold, calibration.

    probabilities, labels ── judged ──> Judgement: a ClassJudgement for each class, accuracy, calibration error

The area under the ROC curve is the share of pairs of a text of the class and another one that the scores put in the
right order; half of the equal ones count. Its variance is that of DeLong et al. 1988 ("Comparing the areas under two or
more correlated ROC curves"), by the mid-ranks of Sun & Xu 2014. Shares have the interval of Wilson 1927.
"""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.intervals import Z95, Estimate, wilson

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Shares of the texts that the rows of a table keep."""
BINS = 10
"""Bins of equal width for the calibration error."""
ClassScores = NDArray[np.float64]
IsOfClass = NDArray[np.bool_]


@dataclass(frozen=True)
class ThresholdRow:
    """A threshold and the share of texts that it keeps: those with at least its score."""

    score: float
    share: float
    """The share of all held-out texts that is kept."""
    precision: float
    """The share of the class among the kept ones."""
    recall: float
    """The share of the class that is kept."""
    others: float
    """The share of the other texts that is kept."""


@dataclass(frozen=True)
class ClassJudgement:
    """One class against the rest."""

    name: str
    texts: int
    auc: Estimate
    average_precision: float
    thresholds: tuple[ThresholdRow, ...]


@dataclass(frozen=True)
class Judgement:
    """The result for held-out texts."""

    texts: int
    accuracy: Estimate
    """The share of texts whose most probable class is theirs."""
    calibration_error: float
    """ECE: the mean distance of the most probable class's probability from the share in which it is right."""
    classes: tuple[ClassJudgement, ...]

    def values(self) -> dict[str, object]:
        """Returns it as JSON values; NaN where a class has no text, or all of them."""
        return dataclasses.asdict(self)


def judged(probabilities: ClassScores, labels: NDArray[np.int64], names: tuple[str, ...]) -> Judgement:
    """Judges the ``probabilities`` of texts, (texts, classes), by the numbers of their true classes, (texts,)."""
    best = probabilities.argmax(axis=1) if len(labels) else labels
    is_right = best == labels
    return Judgement(
        len(labels),
        share_of(int(is_right.sum()), len(labels)),
        calibration_error(probabilities.max(axis=1, initial=0), is_right),
        tuple(_class(name, probabilities[:, number], labels == number) for number, name in enumerate(names)),
    )


def _class(name: str, scores: ClassScores, is_of_class: IsOfClass) -> ClassJudgement:
    curve = thresholds(scores, is_of_class)
    return ClassJudgement(
        name, int(is_of_class.sum()), auc(scores, is_of_class), average_precision(curve), at_shares(curve)
    )


def share_of(successes: int, number: int) -> Estimate:
    """Returns the share of ``successes``, with Wilson's interval; NaN of no texts."""
    if not number:
        return Estimate(math.nan, math.nan, math.nan)
    share = successes / number
    return Estimate(share, *wilson(share, number))


def placements(scores: ClassScores, is_of_class: IsOfClass) -> tuple[ClassScores, ClassScores]:
    """Returns for each text of the class the share of others below it, and for each other that of the class above."""
    own, others = scores[is_of_class], scores[~is_of_class]
    below = (np.searchsorted(np.sort(others), own, "left") + np.searchsorted(np.sort(others), own, "right")) / 2
    above = (
        own.size - (np.searchsorted(np.sort(own), others, "left") + np.searchsorted(np.sort(own), others, "right")) / 2
    )
    return below / max(others.size, 1), above / max(own.size, 1)


def auc(scores: ClassScores, is_of_class: IsOfClass) -> Estimate:
    """Returns the area under the ROC curve with DeLong's interval; NaN if all texts are of the class, or none."""
    own, others = placements(scores, is_of_class)
    if not own.size or not others.size:
        return Estimate(math.nan, math.nan, math.nan)
    area = float(own.mean())
    half = Z95 * math.sqrt(_mean_variance(own) + _mean_variance(others))
    return Estimate(area, max(area - half, 0.0), min(area + half, 1.0))


def _mean_variance(values: ClassScores) -> float:
    """Returns the variance of the mean of ``values``; 0 of a single one."""
    return float(values.var(ddof=1)) / values.size if values.size > 1 else 0.0


def auc_difference(scores: ClassScores, other: ClassScores, is_of_class: IsOfClass) -> Estimate:
    """Returns by how much the area of ``scores`` is above that of ``other``, with DeLong's interval."""
    pairs = list(zip(placements(scores, is_of_class), placements(other, is_of_class), strict=True))
    differences = [first - second for first, second in pairs]
    value = float(differences[0].mean())
    half = Z95 * math.sqrt(sum(map(_mean_variance, differences)))
    return Estimate(value, value - half, value + half)


def thresholds(scores: ClassScores, is_of_class: IsOfClass) -> tuple[ThresholdRow, ...]:
    """Returns what each score keeps as a threshold, the highest first. Equal scores are one threshold."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(is_of_class[order])
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True)) if scores.size else np.zeros(0, np.int64)
    own, others = int(is_of_class.sum()), int((~is_of_class).sum())
    return tuple(
        ThresholdRow(
            float(scores[order[index]]),
            (index + 1) / scores.size,
            hits[index] / (index + 1),
            hits[index] / own if own else math.nan,
            (index + 1 - hits[index]) / others if others else math.nan,
        )
        for index in last.tolist()
    )


def average_precision(curve: tuple[ThresholdRow, ...]) -> float:
    """Returns the sum of the precisions at each threshold, weighted by what the recall gains there."""
    recalls = [0.0, *(threshold.recall for threshold in curve)]
    return float(sum((row.recall - before) * row.precision for row, before in zip(curve, recalls, strict=False)))


def at_shares(curve: tuple[ThresholdRow, ...]) -> tuple[ThresholdRow, ...]:
    """Returns of each of SHARES the lowest threshold that keeps no more than it; none where each keeps more."""
    fitting = ([row for row in curve if row.share <= share] for share in SHARES)
    return tuple(dict.fromkeys(rows[-1] for rows in fitting if rows))


def calibration_error(confidences: ClassScores, is_right: IsOfClass) -> float:
    """Returns the expected calibration error of Guo et al. 2017, by BINS bins of equal width; NaN of no texts."""
    if not confidences.size:
        return math.nan
    bins = np.minimum((confidences * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, is_right - confidences, minlength=BINS)
    return float(np.abs(gaps).sum() / confidences.size)
