"""The most distinctive n-grams of a class: those that move its mean margin furthest from that of the others.

    weight · (mean value in the class - mean value in the others) ──> buckets ── n-grams that fall into them ──> names

The sum over all buckets is the distance between the mean margins. A bucket holds several n-grams; the one that most
training texts have is named, with their number.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.classifiers.coordinate_descent import CountedTexts
from headrace.data_prep.classifiers.counted_ngrams import ONE, features, ngrams
from headrace.data_prep.classifiers.linear_classifier import LinearClassifier
from headrace.data_prep.classifiers.probability import SCALE

SHOWN = 20
"""N-grams of a class."""
TEXTS = 2_000
"""Texts in which the n-grams of the buckets are looked for."""


@dataclass(frozen=True)
class DistinctiveNgram:
    """An n-gram that speaks for a class."""

    ngram: str
    distance: float
    """The part of its bucket in the distance between the mean margins of the class and of the others."""
    weight: float
    texts: int
    """The texts that have it, of those that were looked at."""


def distinctive(
    model: LinearClassifier, documents: CountedTexts, labels: Sequence[str], texts: Iterable[str]
) -> dict[str, tuple[DistinctiveNgram, ...]]:
    """Returns the most distinctive n-grams of each class in the training ``documents``, named by their ``texts``."""
    rows = _rows(model)
    differences = (_difference(documents, np.array(labels) == name, rows[0].size) for name in model.classes)
    distances = [row * difference for row, difference in zip(rows, differences, strict=True)]
    chosen = [_largest(row, distance) for row, distance in zip(rows, distances, strict=True)]
    names = _names(model, {bucket for buckets in chosen for bucket in buckets.tolist()}, texts)
    named: dict[str, tuple[DistinctiveNgram, ...]] = {}
    for name, row, distance, buckets in zip(model.classes, rows, distances, chosen, strict=True):
        known = [(bucket, *names[bucket]) for bucket in buckets.tolist() if bucket in names]
        named[name] = tuple(
            DistinctiveNgram(ngram, float(distance[bucket]), float(row[bucket]), number)
            for bucket, ngram, number in known
        )
    return named


def reasons(model: LinearClassifier, text: str, name: str, number: int) -> list[tuple[str, float]]:
    """Returns the ``number`` n-grams of ``text`` that move its margin of the class ``name`` most, and by how much.

    They are weight · value; an n-gram stands for its bucket.
    """
    buckets, values = features(text, model.ngrams)
    parts = _rows(model)[model.classes.index(name)][buckets] * values / ONE
    ngrams_of = {bucket: ngram.decode("utf-8", "replace") for ngram, bucket in ngrams(text, model.ngrams)}
    order = np.argsort(-np.abs(parts), kind="stable")[:number].tolist()
    return [(ngrams_of[int(buckets[place])], float(parts[place])) for place in order]


def _rows(model: LinearClassifier) -> list[NDArray[np.float64]]:
    """Returns the weights of each class: (buckets + 1,)."""
    rows = list(model.weights.T.astype(np.float64) / SCALE)
    return [-rows[0], rows[0]] if len(model.classes) == 2 else rows


def _difference(documents: CountedTexts, is_own: NDArray[np.bool_], size: int) -> NDArray[np.float64]:
    """Returns the mean value of each bucket in the texts of a class less that in the others: (buckets + 1,)."""
    is_inside = np.repeat(is_own, np.diff(documents.starts))
    sums = [np.bincount(documents.buckets[part], documents.values[part], size) for part in (is_inside, ~is_inside)]
    return np.asarray((sums[0] / max(is_own.sum(), 1) - sums[1] / max((~is_own).sum(), 1)) / ONE)


def _largest(weights: NDArray[np.float64], distances: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the buckets of the SHOWN largest distances whose weight is positive, too, the largest first."""
    positive = np.where(weights > 0, distances, 0)
    order = np.argsort(-positive, kind="stable")[:SHOWN]
    return np.asarray(order[positive[order] > 0])


def _names(model: LinearClassifier, buckets: "set[int]", texts: Iterable[str]) -> dict[int, tuple[str, int]]:
    """Returns the most frequent n-gram of each of ``buckets`` that the first TEXTS texts have, and its texts."""
    counts: dict[int, Counter[bytes]] = {bucket: Counter() for bucket in buckets}
    for text in itertools.islice(texts, TEXTS):
        for ngram, bucket in set(ngrams(text, model.ngrams)):
            if bucket in counts:
                counts[bucket][ngram] += 1
    best = {bucket: min(own.items(), key=lambda item: (-item[1], item[0])) for bucket, own in counts.items() if own}
    return {bucket: (ngram.decode("utf-8", "replace"), number) for bucket, (ngram, number) in best.items()}
