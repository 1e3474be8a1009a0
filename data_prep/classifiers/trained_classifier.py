"""A classifier with what is known about it: its judgement on held-out texts, and the n-grams that tell most.

    sample ── divided ──> training ── trained ──> model ── distinctive ──> n-grams of each class
                     └──> held out ──────────────> judged

The distinctive n-grams of a class are those that move its mean margin furthest from that of the others: the sum of
weight · (mean value in the class - mean value in the others) over all buckets is the distance of these means. A bucket
holds several n-grams; the one that most training texts have is named.
"""

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.classifiers.counted_ngrams import ONE, features, margins, ngrams
from headrace.data_prep.classifiers.judgement import Judgement, judged
from headrace.data_prep.classifiers.linear_classifier import SCALE, LinearClassifier
from headrace.data_prep.classifiers.linear_training import CountedSample, LabelledText, LinearTraining, divided, trained

SHOWN = 20
"""N-grams of a class."""
TEXTS = 2_000
"""Texts in which the n-grams of the buckets are looked for."""


@dataclass(frozen=True)
class TrainedClassifier:
    """A classifier, judged."""

    model: LinearClassifier
    judgement: Judgement
    ngrams: dict[str, list[dict[str, Any]]]
    """The most distinctive n-grams of each class: ``ngram``, and ``distance`` of its bucket."""

    @classmethod
    def of(cls, sample: CountedSample, training: LinearTraining, texts: Iterable[LabelledText]) -> "TrainedClassifier":
        """Trains on a part of ``sample``, and judges by the rest. ``texts`` are those of the sample again.

        Raises:
            ConfigError: when they are of fewer than two classes.
        """
        own, held = divided(sample, training)
        model, known = trained(own, training), set(own.identities)
        told = distinctive(model, own, (example.text for example in texts if example.identity in known))
        return cls(model, judgement_of(model, held), told)

    def values(self) -> dict[str, Any]:
        """Returns the training, the judgement and the n-grams as JSON values; NaN where nothing is there to count."""
        return {"model": dict(self.model.about), "held_out": self.judgement.values(), "distinctive": self.ngrams}


def judgement_of(model: LinearClassifier, held: CountedSample) -> Judgement:
    """Judges ``model`` by the held-out texts; those of classes that it does not know count for none."""
    known = held.chosen(np.array([label in model.classes for label in held.labels], np.bool_))
    labels = np.array([model.classes.index(label) for label in known.labels], np.int64)
    own = known.features
    scores = model.probabilities(margins(own.indptr.astype(np.int64), own.indices, own.data, model.weights))
    return judged(scores, labels, model.classes)


def distinctive(
    model: LinearClassifier, sample: CountedSample, texts: Iterable[str]
) -> dict[str, list[dict[str, Any]]]:
    """Returns the most distinctive n-grams of each class in the training ``sample``, named by its ``texts``."""
    best: dict[str, dict[int, float]] = {}
    for name, row in _rows(model).items():
        is_own = sample.is_of(name)
        means = [sample.features[part].sum(axis=0) / ONE / max(part.sum(), 1) for part in (is_own, ~is_own)]
        distances = np.maximum(row[:-1], 0) * (means[0] - means[1])
        order = np.argsort(-distances, kind="stable")[:SHOWN].tolist()
        best[name] = {bucket: float(distances[bucket]) for bucket in order if distances[bucket] > 0}
    counts: dict[int, Counter[bytes]] = {bucket: Counter() for own in best.values() for bucket in own}
    for text in itertools.islice(texts, TEXTS):
        for ngram, bucket in set(ngrams(text, model.ngrams)):
            if bucket in counts:
                counts[bucket][ngram] += 1
    names = {bucket: min(own, key=lambda ngram: (-own[ngram], ngram)) for bucket, own in counts.items() if own}
    return {
        name: [
            {"ngram": names[bucket].decode("utf-8", "replace"), "distance": distance}
            for bucket, distance in own.items()
            if bucket in names
        ]
        for name, own in best.items()
    }


def reasons(model: LinearClassifier, text: str, name: str, number: int) -> list[tuple[str, float]]:
    """Returns the ``number`` n-grams of ``text`` that move its margin of the class ``name`` most, and by how much.

    They are weight · value; an n-gram stands for its bucket.
    """
    buckets, values = features(text, model.ngrams)
    parts = _rows(model)[name][buckets] * values / ONE
    ngrams_of = {bucket: ngram.decode("utf-8", "replace") for ngram, bucket in ngrams(text, model.ngrams)}
    order = np.argsort(-np.abs(parts), kind="stable")[:number].tolist()
    return [(ngrams_of[int(buckets[place])], float(parts[place])) for place in order]


def _rows(model: LinearClassifier) -> dict[str, NDArray[np.float64]]:
    """Returns the weights of each class: (buckets + 1,)."""
    rows = list(model.weights.T / SCALE)
    return dict(zip(model.classes, [-rows[0], rows[0]] if len(model.classes) == 2 else rows, strict=True))
