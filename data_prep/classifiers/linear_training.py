"""Trains a linear classifier on labelled texts, and judges it on texts that it did not see.

    examples ── features, in threads ──> CountedSample ── part by the hash of the id ──> training | held out
    training ── descend, each class against the rest ─────────────────> weights
             └─ FOLDS trainings without a fold ── margins of the fold ─> logistic functions

The bytes of the model depend on the examples, in their order, and on the settings alone.
"""

import itertools
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from headrace.data_prep.classifiers.coordinate_descent import TOLERANCE, WEIGHT_BITS, CountedTexts, check_cost, descend
from headrace.data_prep.classifiers.counted_ngrams import NgramSettings, TextFeatures, features
from headrace.data_prep.classifiers.linear_classifier import LARGEST_WEIGHT, LinearClassifier, columns_of
from headrace.data_prep.classifiers.probability import SCALE as WEIGHT_SCALE
from headrace.data_prep.classifiers.probability import Logistic, fitted
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Fraction, PositiveNumber, Seed, plain, settings

FOLDS = 3
"""Parts of the training texts for the logistic functions."""
BATCH = 256
"""Texts whose n-grams a thread counts at a time."""
SPARED = WEIGHT_BITS - WEIGHT_SCALE.bit_length() + 1


@settings
class LinearTraining:
    """The settings of a training."""

    ngrams: NgramSettings = NgramSettings()
    """The n-grams that are features of a text."""
    cost: PositiveNumber = 1.0
    """The weight of an error on a training text against that of large weights."""
    held_out: Fraction = 0.2
    """The share of the texts, by the hash of their ids, that judge the classifier and train nothing."""
    seed: Seed = 0
    """Seed of the parts and of the order of training."""


@dataclass(frozen=True)
class LabelledText:
    """A labelled text."""

    identity: str
    text: str
    label: str


@dataclass(frozen=True)
class CountedSample:
    """The features of labelled texts."""

    identities: tuple[str, ...]
    labels: tuple[str, ...]
    documents: CountedTexts

    @classmethod
    def of(cls, examples: Iterable[LabelledText], ngrams: NgramSettings, workers: int) -> "CountedSample":
        """Counts the n-grams of ``examples`` in ``workers`` threads; texts are not kept."""
        identities, labels, rows = list[str](), list[str](), list[TextFeatures]()
        remaining = iter(examples)
        with ThreadPoolExecutor(workers) as pool:
            while batch := list(itertools.islice(remaining, BATCH * workers)):
                identities += (example.identity for example in batch)
                labels += (example.label for example in batch)
                rows += pool.map(partial(features, counted=ngrams), (example.text for example in batch))
        return cls(tuple(identities), tuple(labels), CountedTexts.of(rows))

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "CountedSample":
        """Reads the files that ``save`` wrote, one after the other."""
        identities, labels, rows = list[str](), list[str](), list[TextFeatures]()
        for path in paths:
            with np.load(path) as arrays:
                identities += arrays["identities"].tolist()
                labels += arrays["labels"].tolist()
                documents = CountedTexts(arrays["starts"], arrays["buckets"], arrays["values"])
            rows += map(documents.row, range(len(documents)))
        return cls(tuple(identities), tuple(labels), CountedTexts.of(rows))

    def save(self, path: Path) -> None:
        """Writes the sample to ``path``."""
        own = self.documents
        names, labels = np.array(self.identities, "U"), np.array(self.labels, "U")
        with path.open("wb") as file:
            np.savez(file, identities=names, labels=labels, starts=own.starts, buckets=own.buckets, values=own.values)

    def chosen(self, is_chosen: NDArray[np.bool_]) -> "CountedSample":
        """Returns the part of the sample for which ``is_chosen``."""
        rows = np.flatnonzero(is_chosen)
        names = [tuple(values[row] for row in rows.tolist()) for values in (self.identities, self.labels)]
        return CountedSample(names[0], names[1], self.documents.chosen(rows))

    def parts(self, seed: int, salt: str) -> NDArray[np.float64]:
        """Returns a number from 0 to 1 for each text, by the hash of its id: (texts,)."""
        hashes = [xxhash.xxh64_intdigest(f"{salt}:{seed}:{identity}") for identity in self.identities]
        return np.array(hashes, np.uint64) / 2.0**64


def divided(sample: CountedSample, training: LinearTraining) -> tuple[CountedSample, CountedSample]:
    """Returns the texts to train on and those that are held out."""
    is_held_out = sample.parts(training.seed, "held out") < training.held_out
    return sample.chosen(~is_held_out), sample.chosen(is_held_out)


def trained(sample: CountedSample, training: LinearTraining, workers: int) -> LinearClassifier:
    """Returns the classifier of the texts of ``sample``.

    Raises:
        ConfigError: when they are of fewer than two classes, or a setting is out of its range.
    """
    counts = Counter(sample.labels)
    classes = tuple(sorted(counts))
    if len(classes) < 2:
        problem = f"{len(sample.labels):,} texts to train on are of the classes {list(classes)}"
        raise ConfigError("classifier.examples", problem, "give texts of two classes or more, or hold fewer out")
    check_cost(training.cost, len(sample.labels))
    folds = (sample.parts(training.seed, "fold") * FOLDS).astype(np.int64)
    wanted = [np.array([label == name for label in sample.labels]) for name in classes[-columns_of(classes) :]]
    work = partial(_class, sample.documents, folds, training)
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(work, wanted))
    about = {
        "texts": dict(sorted(counts.items())),
        "training": plain(training),
        "epochs": [row.epochs for row in results],
        "has_converged": all(row.gradient <= TOLERANCE for row in results),
    }
    weights = np.stack([row.weights for row in results], axis=1)
    return LinearClassifier(classes, training.ngrams, weights, tuple(row.logistic for row in results), about)


@dataclass(frozen=True)
class _ClassWeights:
    weights: NDArray[np.int32]
    logistic: Logistic
    epochs: int
    gradient: int


def _class(
    documents: CountedTexts, folds: NDArray[np.int64], training: LinearTraining, is_of_class: NDArray[np.bool_]
) -> _ClassWeights:
    """Trains the weights of a class, and its logistic function on the margins of texts that were left out."""
    signs, bits = np.where(is_of_class, 1, -1).astype(np.int8), training.ngrams.bucket_bits
    own = np.zeros(len(documents), np.int64)
    for fold in range(FOLDS):
        others, rows = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        without = descend(documents.chosen(others), signs[others], bits, training.cost, training.seed)
        row = LinearClassifier(("", ""), training.ngrams, short(without.weights)[:, None], (Logistic(),), {})
        own[rows] = row.margins(documents.chosen(rows))[:, 0]
    whole = descend(documents, signs, bits, training.cost, training.seed)
    return _ClassWeights(short(whole.weights), fitted(own, is_of_class), whole.epochs, whole.gradient)


def short(weights: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns weights in parts of 2^16, to the nearest; the bounds of ``coordinate_descent`` keep them in 32 bits."""
    rounded = (weights + (1 << (SPARED - 1))) >> SPARED
    return np.asarray(np.clip(rounded, -LARGEST_WEIGHT, LARGEST_WEIGHT), np.int32)
