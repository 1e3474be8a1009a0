"""A classifier with what is known about it: its judgement on held-out texts, and the n-grams that tell most.

sample ── divided ──> training ── trained ──> model ── distinctive ──> n-grams of each class
                 └──> held out ──────────────> judged
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from headrace.data_prep.classifiers.distinctive_ngrams import DistinctiveNgram, distinctive
from headrace.data_prep.classifiers.judgement import Judgement, judged
from headrace.data_prep.classifiers.linear_classifier import LinearClassifier
from headrace.data_prep.classifiers.linear_training import CountedSample, LabelledText, LinearTraining, divided, trained


@dataclasses.dataclass(frozen=True)
class TrainedClassifier:
    """A classifier, judged."""

    model: LinearClassifier
    judgement: Judgement
    ngrams: dict[str, tuple[DistinctiveNgram, ...]]
    """The most distinctive n-grams of each class."""

    @classmethod
    def of(
        cls, sample: CountedSample, training: LinearTraining, texts: Iterable[LabelledText], threads: int
    ) -> "TrainedClassifier":
        """Trains on a part of ``sample``, and judges by the rest. ``texts`` are those of the sample again.

        Raises:
            ConfigError: when they are of fewer than two classes, or a setting is out of its range.
        """
        own, held = divided(sample, training)
        model, known = trained(own, training, threads), set(own.identities)
        ngrams = distinctive(
            model, own.documents, own.labels, (example.text for example in texts if example.identity in known)
        )
        return cls(model, judgement_of(model, held), ngrams)

    def values(self) -> dict[str, Any]:
        """Returns the training, the judgement and the n-grams as JSON values; NaN where nothing is there to count."""
        ngrams = {name: [dataclasses.asdict(entry) for entry in entries] for name, entries in self.ngrams.items()}
        return {"model": dict(self.model.about), "held_out": self.judgement.values(), "distinctive": ngrams}


def judgement_of(model: LinearClassifier, held: CountedSample) -> Judgement:
    """Judges ``model`` by the held-out texts; those of classes that it does not know count for none."""
    known = held.chosen(np.array([label in model.classes for label in held.labels], np.bool_))
    labels = np.array([model.classes.index(label) for label in known.labels], np.int64)
    return judged(model.probabilities(model.margins(known.documents)), labels, model.classes)
