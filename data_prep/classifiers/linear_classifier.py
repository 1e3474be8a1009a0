"""A trained linear classifier, its file, and the probabilities of a text.

    text ── features ──> w·x of each class ── logistic ──> probabilities          two classes: one w, p and 1 - p
                                                           more: each against the rest, divided by their sum

    headrace linear classifier 1⏎      the format and its version
    {"classes": ["cc", "hq"], …}⏎      JSON: classes, n-grams, logistic functions, size, about
    buckets, weights                   int32, little-endian: the buckets with a weight, ascending, and their weights
    SHA-256                            of all bytes before it

Scores are computed in whole numbers, but for the division of probabilities by their sum, which is exact in IEEE 754, so
a file gives the same ones on any machine. Exponentials are those of the module ``decimal``, which rounds correctly.
"""

import dataclasses
import decimal
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.data_prep.classifiers.counted_ngrams import NgramSettings, features, margins
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import Natural, decode, plain, settings

STAGE, MODEL_FILE = "classifier", "classifier.model"
"""The stage of a run that trains one, and the file of its artifact."""
FORMAT = b"headrace linear classifier"
VERSION = b"1"
HEAD = FORMAT + b" " + VERSION + b"\n"
CHECKSUM_BYTES = 32
STEP_BITS = 6
"""The table of a logistic function has an entry each 1 / 2^6 of the margin."""
REACH = 8
"""Margins beyond 8 and -8 count as these."""
STEPS = 2 * REACH << STEP_BITS
MARGIN_BITS = 31
"""Margins are in parts of 2^31."""
FRACTION_BITS = MARGIN_BITS - STEP_BITS
CERTAIN = 1 << 30
"""The probability of 1."""
SCALE = 1 << 16
"""Weights, steepness and offset are in parts of it."""
LARGEST = 1000 * SCALE
REMEDY = "give a file that headrace train-classifier wrote"


@dataclass(frozen=True)
class Logistic:
    """The probability of a margin: 1 / (1 + exp(-(steepness · margin + offset)))."""

    steepness: Annotated[int, Field(ge=1, le=LARGEST)] = SCALE
    """In parts of SCALE, as the offset."""
    offset: Annotated[int, Field(ge=-LARGEST, le=LARGEST)] = 0

    @functools.cached_property
    def table(self) -> NDArray[np.int64]:
        """The probability at each step, in parts of CERTAIN: (STEPS + 1,)."""
        with decimal.localcontext(decimal.Context(prec=28)):
            steepness, offset = Decimal(self.steepness) / SCALE, Decimal(self.offset) / SCALE
            log_odds = [steepness * (Decimal(step) / (1 << STEP_BITS) - REACH) + offset for step in range(STEPS + 1)]
            small = [(-abs(odds)).exp() for odds in log_odds]
            pairs = zip(log_odds, small, strict=True)
            values = [CERTAIN * ((1 if odds >= 0 else own) / (1 + own)) for odds, own in pairs]
            return np.array([int(value.to_integral_value()) for value in values], np.int64)

    def of(self, margins: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the probabilities of ``margins``, in parts of CERTAIN, between two entries of the table in a line."""
        place = np.clip(margins + (REACH << MARGIN_BITS), 0, (2 * REACH << MARGIN_BITS) - 1)
        step, fraction = place >> FRACTION_BITS, place & ((1 << FRACTION_BITS) - 1)
        low, high = self.table[step], self.table[step + 1]
        return np.asarray(low + ((high - low) * fraction >> FRACTION_BITS), np.int64)


@dataclass(frozen=True)
class LinearClassifier:
    """A trained classifier."""

    classes: tuple[str, ...]
    """Two or more, sorted. Of two, the weights are those of the last."""
    ngrams: NgramSettings
    weights: NDArray[np.int32]
    """(buckets + 1, 1 or classes), in parts of 2^16; the last row is that of a feature that all texts have."""
    logistics: tuple[Logistic, ...]
    """One for each column of ``weights``."""
    about: Mapping[str, Any]
    """Its training, for people: whole numbers and texts."""

    def probabilities(self, own: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the probability of each class for the ``margins``: (documents, classes)."""
        columns = zip(self.logistics, own.T, strict=True)
        parts = np.stack([logistic.of(column) for logistic, column in columns], axis=1)
        if len(self.classes) == 2:
            return np.concatenate([CERTAIN - parts, parts], axis=1) / CERTAIN
        totals = parts.sum(axis=1, keepdims=True)
        return np.asarray(np.where(totals > 0, parts / np.maximum(totals, 1), 1 / len(self.classes)))

    def scores(self, text: str) -> dict[str, float]:
        """Returns the probability of each class. A text without words has those of its constant feature alone."""
        buckets, values = features(text, self.ngrams)
        own = margins(np.array([0, buckets.size]), buckets, values, self.weights)
        return dict(zip(self.classes, self.probabilities(own)[0].tolist(), strict=True))

    def to_bytes(self) -> bytes:
        """Returns the content of its file."""
        buckets = np.flatnonzero(self.weights.any(axis=1)).astype("<i4")
        values = {
            "classes": list(self.classes),
            "ngrams": plain(self.ngrams),
            "logistics": [dataclasses.asdict(logistic) for logistic in self.logistics],
            "buckets": buckets.size,
            "about": dict(self.about),
        }
        header = json.dumps(values, sort_keys=True, ensure_ascii=False).encode() + b"\n"
        content: bytes = HEAD + header + buckets.tobytes() + self.weights[buckets].astype("<i4").tobytes()
        return content + hashlib.sha256(content).digest()


@settings
class _ModelHeader:
    """The JSON line of a file."""

    classes: tuple[str, ...]
    ngrams: NgramSettings
    logistics: tuple[Logistic, ...]
    buckets: Natural
    about: None
    """Checked apart: it is free."""


@functools.cache
def load(path: str) -> LinearClassifier:
    """Returns the classifier in the file ``path``, which a process reads once.

    Raises:
        ArtifactError: when it is none, is damaged, or is of another version.
    """
    try:
        return parsed(Path(path).read_bytes(), path)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read ({error.strerror})", REMEDY) from None


def parsed(content: bytes, where: str) -> LinearClassifier:
    """Returns the classifier with the ``content`` of the file ``where``.

    Raises:
        ArtifactError: when it is none, is damaged, or is of another version.
    """
    body = content[:-CHECKSUM_BYTES]
    first, _, rest = body.partition(b"\n")
    if not first.startswith(FORMAT):
        raise ArtifactError(where, f"is no linear classifier (it begins with {content[:20]!r})", REMEDY)
    if first + b"\n" != HEAD:
        raise ArtifactError(where, f"is of another version ({first.decode('utf-8', 'replace')!r})", "train it again")
    if hashlib.sha256(body).digest() != content[-CHECKSUM_BYTES:]:
        raise ArtifactError(where, "is damaged (its checksum differs)", "copy it again, or train it again")
    try:
        header, _, arrays = rest.partition(b"\n")
        return _classifier(json.loads(header), np.frombuffer(arrays, "<i4"))
    except (ValueError, KeyError, TypeError, RecursionError, ConfigError) as error:
        raise ArtifactError(where, f"has values that do not fit ({error})", "train it again") from None


def _classifier(values: Mapping[str, Any], numbers: NDArray[np.int32]) -> LinearClassifier:
    """Returns the classifier of the header's ``values`` and the arrays after it.

    Raises:
        ValueError, KeyError, TypeError, RecursionError, ConfigError: for values that training does not give, with
            which compiled functions would read outside, or scores would not be probabilities.
    """
    header, about = decode(_ModelHeader, {**values, "about": None}), values["about"]
    ngrams, classes, logistics, size = header.ngrams, header.classes, header.logistics, header.buckets
    if len(classes) < 2 or list(classes) != sorted({*classes}) or not isinstance(about, dict):
        raise ValueError(f"classes {', '.join(classes)}, or about")
    if len(logistics) != columns_of(classes) or size > numbers.size:
        raise ValueError(f"{len(classes)} classes, {len(logistics)} functions, {size} buckets")
    buckets, weights = numbers[:size], np.zeros(((1 << ngrams.bucket_bits) + 1, columns_of(classes)), np.int32)
    if size and (buckets[0] < 0 or buckets[-1] >= weights.shape[0] or np.any(np.diff(buckets) <= 0)):
        raise ValueError("buckets that are not ascending")
    weights[buckets] = numbers[size:].reshape(size, len(logistics))
    return LinearClassifier(classes, ngrams, weights, logistics, about)


def columns_of(classes: "tuple[str, ...]") -> int:
    """Returns the number of columns of weights."""
    return 1 if len(classes) == 2 else len(classes)
