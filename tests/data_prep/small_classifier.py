"""A small classifier with two classes: texts about the mill, and others."""

from pathlib import Path

from headrace.data_prep.classifiers.counted_ngrams import NgramSettings
from headrace.data_prep.classifiers.linear_classifier import LinearClassifier
from headrace.data_prep.classifiers.linear_training import CountedSample, LabelledText, LinearTraining, trained

MILL = ("The river turned the wheel of the old mill.", "The wheel of the mill stood still.", "A mill at the river.")
OTHER = ("Der Fluss treibt das Rad an.", "Home and about and home.", "Nobody should read this page of two lines.")
TRAINING = LinearTraining(ngrams=NgramSettings(bucket_bits=12))


def examples() -> list[LabelledText]:
    """Eight copies of each text: the logistic function of few texts is nearly flat."""
    labelled = [(text, "mill") for text in MILL * 8] + [(text, "other") for text in OTHER * 8]
    return [LabelledText(f"a:{number}", text, label) for number, (text, label) in enumerate(labelled)]


def small_classifier(workers: int = 1) -> LinearClassifier:
    return trained(CountedSample.of(examples(), TRAINING.ngrams, workers), TRAINING)


def write_classifier(path: Path) -> Path:
    """Writes it, and returns the path."""
    path.write_bytes(small_classifier().to_bytes())
    return path
