"""Trains a linear classifier on labelled texts, by scikit-learn's LIBLINEAR, and judges it by held-out texts.

    examples ── features, in threads ──> CountedSample ── part by the hash of the id ──> training | held out
    training ── LinearSVC, each class against the rest ──────────────────> weights, rounded to parts of 2^16
             └─ FOLDS trainings without a fold ── margins of the fold ──> logistic functions (Platt 1999)
    model    ── judged by what is held out; distinctive n-grams of each class

LIBLINEAR descends on the dual of the squared hinge loss (Hsieh et al. 2008) with one thread. The bytes of the model
depend on the examples, in their order, and the settings, and not on the number of workers; another processor, or
another version of scikit-learn or scipy, may round a weight otherwise.

The distinctive n-grams of a class are those that move its mean margin furthest from that of the others: the sum of
weight · (mean value in the class - mean value in the others) over all buckets is the distance of these means. A bucket
holds several n-grams; the one that most training texts have is named.
"""

import itertools
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import xxhash
from numpy.typing import NDArray
from pydantic import Field

from headrace.data_prep.classifiers.counted_ngrams import ONE, NgramSettings, TextFeatures, features, margins, ngrams
from headrace.data_prep.classifiers.judgement import Judgement, judged
from headrace.data_prep.classifiers.linear_classifier import LARGEST, SCALE, LinearClassifier, Logistic, columns_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.extras import require
from headrace.pipeline.core.settings import Fraction, Seed, plain, settings

FOLDS = 3
"""Parts of the training texts for the logistic functions."""
BATCH = 256
"""Texts whose n-grams a thread counts at a time."""
TOLERANCE, MOST_EPOCHS = 0.01, 1000
"""The training ends when the gradients of an epoch differ by no more than TOLERANCE, or after MOST_EPOCHS."""
MOST_FEATURES = 2**31
"""LIBLINEAR counts the values of all texts in 32 bits."""
LARGEST_WEIGHT = 2**31 - 1


@settings
class LinearTraining:
    """The settings of a training."""

    ngrams: NgramSettings = NgramSettings()
    """The n-grams that are features of a text."""
    cost: Annotated[float, Field(ge=2.0**-10, le=2.0**10)] = 1.0
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
    features: Any
    """The values in parts of ONE, a sparse ``csr_array`` of uint16: (texts, buckets)."""

    @classmethod
    def of(cls, examples: Iterable[LabelledText], ngrams: NgramSettings, workers: int) -> "CountedSample":
        """Counts the n-grams of ``examples`` in ``workers`` threads; texts are not kept."""
        from scipy.sparse import csr_array

        identities, labels, rows = list[str](), list[str](), list[TextFeatures]()
        remaining = iter(examples)
        with ThreadPoolExecutor(workers) as pool:
            while batch := list(itertools.islice(remaining, BATCH * workers)):
                identities += (example.identity for example in batch)
                labels += (example.label for example in batch)
                rows += pool.map(partial(features, counted=ngrams), (example.text for example in batch))
        starts = np.cumsum([0, *(buckets.size for buckets, _ in rows)], dtype=np.int64)
        buckets = np.concatenate([np.zeros(0, np.int32), *(row[0] for row in rows)])
        values = np.concatenate([np.zeros(0, np.uint16), *(row[1] for row in rows)])
        starts = starts.astype(np.int32 if starts[-1] < MOST_FEATURES else np.int64)
        matrix = csr_array((values, buckets, starts), (len(rows), 1 << ngrams.bucket_bits))
        return cls(tuple(identities), tuple(labels), matrix)

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "CountedSample":
        """Reads the files that ``save`` wrote, one after the other."""
        from scipy.sparse import csr_array, vstack

        identities, labels, parts = list[str](), list[str](), []
        for path in paths:
            with np.load(path) as file:
                identities += file["identities"].tolist()
                labels += file["labels"].tolist()
                parts.append(csr_array((file["values"], file["buckets"], file["starts"]), file["shape"]))
        return cls(tuple(identities), tuple(labels), vstack(parts, "csr") if parts else csr_array((0, 1)))

    def save(self, path: Path) -> None:
        """Writes the sample to ``path``."""
        names, labels, own = np.array(self.identities, "U"), np.array(self.labels, "U"), self.features
        arrays: dict[str, Any] = {"starts": own.indptr, "buckets": own.indices, "values": own.data}
        with path.open("wb") as file:
            np.savez(file, identities=names, labels=labels, shape=np.array(own.shape), **arrays)

    def chosen(self, is_chosen: NDArray[np.bool_]) -> "CountedSample":
        """Returns the part of the sample for which ``is_chosen``."""
        identities, labels = (itertools.compress(values, is_chosen) for values in (self.identities, self.labels))
        return CountedSample(tuple(identities), tuple(labels), self.features[is_chosen])

    def is_of(self, label: str) -> NDArray[np.bool_]:
        """Returns whether each text has ``label``: (texts,)."""
        return np.array([own == label for own in self.labels], np.bool_)

    def parts(self, seed: int, salt: str) -> NDArray[np.float64]:
        """Returns a number from 0 to 1 for each text, by the hash of its id: (texts,)."""
        hashes = [xxhash.xxh64_intdigest(f"{salt}:{seed}:{identity}") for identity in self.identities]
        return np.array(hashes, np.uint64) / 2.0**64


def divided(sample: CountedSample, training: LinearTraining) -> tuple[CountedSample, CountedSample]:
    """Returns the texts to train on and those that are held out."""
    is_held_out = sample.parts(training.seed, "held out") < training.held_out
    return sample.chosen(~is_held_out), sample.chosen(is_held_out)


def trained(sample: CountedSample, training: LinearTraining) -> LinearClassifier:
    """Returns the classifier of the texts of ``sample``.

    Raises:
        ConfigError: when they are of fewer than two classes or too many, or scikit-learn is not installed.
    """
    require("classifier.examples", "sklearn")
    counts = Counter(sample.labels)
    classes = tuple(sorted(counts))
    if len(classes) < 2:
        problem = f"{len(sample.labels):,} texts to train on are of the classes {list(classes)}"
        raise ConfigError("classifier.examples", problem, "give texts of two classes or more, or hold fewer out")
    if sample.features.nnz >= MOST_FEATURES:
        problem = f"{len(sample.labels):,} texts have {sample.features.nnz:,} distinct n-grams; 2^31 are too many"
        raise ConfigError("classifier.examples", problem, "take fewer texts (share), or no n-grams of characters")
    matrix, folds = sample.features / ONE, sample.parts(training.seed, "fold") * FOLDS // 1
    weights, logistics, epochs = list[NDArray[np.int32]](), list[Logistic](), list[int]()
    for name in classes[-columns_of(classes) :]:
        is_of_class = sample.is_of(name)
        logistics.append(_likeliest(_margins_of_others(matrix, is_of_class, folds, training), is_of_class))
        svc = _separating(matrix, is_of_class, training)
        exact = np.append(svc.coef_[0], svc.intercept_[0]) * SCALE
        weights.append(np.clip(np.rint(exact), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int32))
        epochs.append(int(svc.n_iter_))
    about = {
        "texts": dict(sorted(counts.items())),
        "training": plain(training),
        "epochs": epochs,
        "has_converged": max(epochs) < MOST_EPOCHS,
    }
    return LinearClassifier(classes, training.ngrams, np.stack(weights, axis=1), tuple(logistics), about)


def _separating(matrix: Any, is_of_class: NDArray[np.bool_], training: LinearTraining) -> Any:
    """Returns a fitted LinearSVC that separates a class from the others."""
    from sklearn.svm import LinearSVC

    seed = training.seed % 2**32
    svc = LinearSVC(C=training.cost, dual=True, tol=TOLERANCE, max_iter=MOST_EPOCHS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge: ``has_converged`` says so
        return svc.fit(matrix, is_of_class)


def _margins_of_others(
    matrix: Any, is_of_class: NDArray[np.bool_], folds: NDArray[np.float64], training: LinearTraining
) -> NDArray[np.float64]:
    """Returns the margin of each text by a training without its fold; NaN where the rest is of one class: (texts,)."""
    margins = np.full(is_of_class.size, np.nan)
    for fold in np.unique(folds):
        others = folds != fold
        if np.unique(is_of_class[others]).size == 2:
            margins[~others] = _separating(matrix[others], is_of_class[others], training).decision_function(
                matrix[~others]
            )
    return margins


def _likeliest(margins: NDArray[np.float64], is_of_class: NDArray[np.bool_]) -> Logistic:
    """Returns the likeliest logistic function of ``margins``, with the targets (n₊ + 1) / (n₊ + 2) and 1 / (n₋ + 2) of
    Platt, with which a perfect separation gives no certainty.

    Without texts of both kinds, or if larger margins are no likelier, it is that of the margin itself.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    is_known = ~np.isnan(margins)
    margins, is_positive = margins[is_known], is_of_class[is_known]
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    if not positives or not negatives:
        return Logistic()
    targets = np.where(is_positive, (positives + 1) / (positives + 2), 1 / (negatives + 2))

    def loss(line: NDArray[np.float64]) -> tuple[float, list[float]]:
        log_odds = line[0] * margins + line[1]
        error = expit(log_odds) - targets
        return float(np.mean(np.logaddexp(0, log_odds) - targets * log_odds)), [np.mean(error * margins), error.mean()]

    first = [0.0, np.log((positives + 1) / (negatives + 1))]
    best = minimize(loss, first, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    steepness, offset = (int(np.clip(np.rint(value * SCALE), -LARGEST, LARGEST)) for value in best.x)
    return Logistic(steepness, offset) if steepness > 0 else Logistic()


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
