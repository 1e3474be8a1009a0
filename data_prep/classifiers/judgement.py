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

from headrace.pipeline.core.statistics import Z95, Estimate, wilson

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Shares of the texts that the rows of a table keep."""
BINS = 10
"""Bins of equal width for the calibration error."""
ClassScores = NDArray[np.float64]
IsOfClass = NDArray[np.bool_]


@dataclass(frozen=True)
class ThresholdRow:
    """A threshold and the share of texts that it keeps: those with at least its score. NaN where there are none."""

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
    """The sum of the precisions at each threshold, weighted by what the recall gains there."""
    thresholds: tuple[ThresholdRow, ...]
    """The lowest threshold that keeps no more than each of SHARES."""


@dataclass(frozen=True)
class Judgement:
    """The result for held-out texts."""

    texts: int
    accuracy: Estimate
    """The share of texts whose most probable class is theirs."""
    baseline: float
    """The accuracy of the answer that is right most often: the share of the most frequent class."""
    calibration_error: float
    """ECE (Guo et al. 2017): the mean distance of the most probable class's probability from the share in which it is
    right, by BINS bins of equal width."""
    classes: tuple[ClassJudgement, ...]

    def values(self) -> dict[str, object]:
        """Returns it as JSON values; NaN where a class has no text, or all of them."""
        return dataclasses.asdict(self)


def judged(probabilities: ClassScores, labels: NDArray[np.int64], names: tuple[str, ...]) -> Judgement:
    """Judges the ``probabilities`` of texts, (texts, classes), by the numbers of their true classes, (texts,)."""
    number, confidences = len(labels), probabilities.max(axis=1, initial=0)
    is_right = probabilities.argmax(axis=1) == labels
    gaps = np.bincount(np.minimum((confidences * BINS).astype(int), BINS - 1), is_right - confidences)
    return Judgement(
        number,
        share_of(int(is_right.sum()), number),
        float(np.bincount(labels).max() / number) if number else math.nan,
        float(np.abs(gaps).sum() / number) if number else math.nan,
        tuple(_class(name, probabilities[:, column], labels == column) for column, name in enumerate(names)),
    )


def share_of(successes: int, number: int) -> Estimate:
    """Returns the share of ``successes``, with Wilson's interval; NaN of no texts."""
    if not number:
        return Estimate(math.nan, math.nan, math.nan)
    return Estimate(successes / number, *wilson(successes / number, number))


def placements(scores: ClassScores, is_of_class: IsOfClass) -> tuple[ClassScores, ClassScores]:
    """Returns for each text of the class the share of others below it, and for each other that of the class above."""
    own, others = scores[is_of_class], scores[~is_of_class]
    return _shares_below(own, others), 1 - _shares_below(others, own)


def _shares_below(values: ClassScores, others: ClassScores) -> ClassScores:
    ordered = np.sort(others)
    below = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return np.asarray(below / (2 * max(others.size, 1)))


def auc(scores: ClassScores, is_of_class: IsOfClass) -> Estimate:
    """Returns the area under the ROC curve with DeLong's interval; NaN if all texts are of the class, or none."""
    own, others = placements(scores, is_of_class)
    if not own.size or not others.size:
        return Estimate(math.nan, math.nan, math.nan)
    area = float(own.mean())
    half = Z95 * math.sqrt(sum(float(part.var(ddof=1)) / part.size for part in (own, others) if part.size > 1))
    return Estimate(area, max(area - half, 0.0), min(area + half, 1.0))


def _class(name: str, scores: ClassScores, is_of_class: IsOfClass) -> ClassJudgement:
    """Judges a class by what each score keeps as a threshold, the highest first. Equal scores are one threshold."""
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.diff(scores[order], append=np.nan) != 0) if scores.size else np.zeros(0, int)
    kept, hits = last + 1, np.cumsum(is_of_class[order])[last]
    texts = int(is_of_class.sum())
    shares, precisions = kept / max(scores.size, 1), hits / kept
    recalls = hits / (texts or math.nan)
    others = (kept - hits) / (scores.size - texts or math.nan)
    columns = (scores[order][last], shares, precisions, recalls, others)
    places = np.unique(np.searchsorted(shares, SHARES, "right"))
    rows = (ThresholdRow(*(float(column[place - 1]) for column in columns)) for place in places if place)
    average = float(np.sum(np.diff(recalls, prepend=0) * precisions))
    return ClassJudgement(name, texts, auc(scores, is_of_class), average, tuple(rows))
