"""The stage ``classifier``: a classifier of texts, trained on labelled examples, for filters and columns of the run.

    set of examples ── examples ──> counted n-grams ── classifier ──> classifier.model, judgement.json
      a task for each shard of a set       scratch         one task

The model has the same bytes as that of ``headrace train-classifier`` for the same texts in the same order. A filter
``linear_classifier`` without a path, in ``cleaning.filters`` or in a column, uses it.

Counts: texts, trained, held_out, label:<label>, left_out:<reason>, and not_converged if the training did not.
"""

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from headrace.data_prep.classifiers.labelled_texts import SETTING, AnyExampleSet
from headrace.data_prep.classifiers.linear_classifier import MODEL_FILE, STAGE
from headrace.data_prep.classifiers.linear_training import (
    CountedSample,
    LabelledText,
    LinearTraining,
    TrainedClassifier,
)
from headrace.pipeline.core.artifact import Balance, TaskOutput, handed
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.extras import require
from headrace.pipeline.core.json_files import without_nan, write_json
from headrace.pipeline.core.settings import settings
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage, counted

EXAMPLES, SAMPLE = "examples", "sample"
"""The phase that counts n-grams, and the kind of its files."""
JUDGEMENT = "judgement.json"
"""The training, the judgement on held-out texts, and the n-grams that tell most."""


@settings
class ClassifierTraining:
    """The classifier that a run trains, and its examples."""

    examples: tuple[AnyExampleSet, ...] = ()
    """The sets of labelled texts; empty: the run trains no classifier."""
    training: LinearTraining = LinearTraining()
    """The n-grams, the cost of errors and the share of the texts that judges."""

    def __post_init__(self) -> None:
        if len(labels := self._labels) == 1:
            problem = f"all texts have the label {labels[0]!r}"
            raise ConfigError(SETTING, problem, "give a set with another label")

    @property
    def _labels(self) -> list[str]:
        """The labels, sorted; none if texts have labels of their own."""
        labels = {own.label for own in self.examples}
        return [] if "" in labels else sorted(labels)

    def check_label(self, label: str) -> None:
        """Checks that the classifier can give the probability of ``label``, which a filter or column reads.

        Raises:
            ConfigError: when no classifier is trained, or no example has the label.
        """
        if not self.examples:
            remedy = "give the file of a model, or examples to train one in the run"
            raise ConfigError("linear_classifier.path", f"is null, and {SETTING} is empty", remedy)
        if self._labels and label not in self._labels:
            problem = f"{SETTING} has no label {label!r}"
            raise ConfigError("linear_classifier.label", problem, suggestion(label, self._labels))


SetPart = tuple[AnyExampleSet, Sequence[str]]
"""A set of examples, and the names of the files or shards of it that a task reads."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classifier(Stage):
    """Trains a classifier."""

    name: ClassVar[str] = STAGE
    version: ClassVar[int] = 2
    headline: ClassVar[tuple[str, ...]] = ("trained", "held_out")

    settings: ClassifierTraining

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for own in self.settings.examples for name in own.inputs))

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files of each set, with the number of the set before their names."""
        return tuple(
            RawFile(f"{number}/{file.name}", file.bytes, file.sha256)
            for number, own in enumerate(self.settings.examples)
            for file in own.files()
        )

    def without_raw_files(self, addresses: Mapping[str, str]) -> dict[str, Any]:
        """Leaves out the paths of sources: the names and contents of their files decide the result."""
        described: dict[str, Any] = super().without_raw_files(addresses)
        for values in (described["settings"], described["hashed"]):
            for own in values["settings"]["examples"]:
                own.get("source", {}).pop("paths", None)
        return described

    def check_start(self) -> None:
        """Refuses sets of which most of the first records cannot be read, or the first text has no label."""
        require(SETTING, "sklearn")
        for number, own in enumerate(self.settings.examples):
            files = [file.name for file in self._files(number)]
            try:
                own.check(files)
            except ConfigError as error:
                raise ConfigError(f"{SETTING}.{number}.{error.where}", error.problem, error.remedy) from None
            if not own.label:
                next(own.examples(files[:1], {}, Counter()), None)

    def _files(self, number: int) -> list[RawFile]:
        """Returns the planned files of the set ``number``."""
        planned = self.raw_files() if self.planned is None else self.planned
        mark = f"{number}/"
        own = (file for file in planned if file.name.startswith(mark))
        return [RawFile(file.name.removeprefix(mark), file.bytes, file.sha256) for file in own]

    def _parts(self, shards: Mapping[str, int]) -> list[SetPart]:
        """Returns what each task of ``examples`` reads. It follows from the planned files: none is looked at."""
        return [
            (own, names)
            for number, own in enumerate(self.settings.examples)
            for names in own.tasks(self._files(number), shards)
        ]

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        parts = self._parts(shards)
        read = sum(file.bytes for number in range(len(self.settings.examples)) for file in self._files(number))
        counting = Phase(EXAMPLES, len(parts), functools.partial(self._count, parts), read)
        return (counting, Phase(self.name, 1, functools.partial(self._train, parts)))

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        yield "texts = trained + held_out", counts["texts"], counts["trained"] + counts["held_out"]
        yield "texts = those of all labels", counts["texts"], counted(counts, "label:")

    def _count(self, parts: Sequence[SetPart], task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Counts the n-grams of the texts of a part."""
        left_out: Counter[str] = Counter()
        sample = CountedSample.of(_texts(parts[task : task + 1], inputs, left_out), self.settings.training.ngrams, 1)
        with out.scratch(SAMPLE, "npz") as path:
            sample.save(path)
        labels = Counter(f"label:{label}" for label in sample.labels)
        reasons = {f"left_out:{reason}": number for reason, number in left_out.items()}
        return Counter(texts=len(sample.labels), **labels, **reasons)

    def _train(self, parts: Sequence[SetPart], task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Trains on all parts, and judges the classifier."""
        sample = CountedSample.read(handed(out, f"{EXAMPLES}/{SAMPLE}", part, "npz") for part in range(len(parts)))
        training, texts = self.settings.training, _texts(parts, inputs, Counter())
        made = TrainedClassifier.of(sample, training, texts)
        with out.file(MODEL_FILE) as path:
            path.write_bytes(made.model.to_bytes())
        with out.file(JUDGEMENT) as path:
            write_json(path, without_nan(made.values()))
        trained = sum(made.model.about["texts"].values())
        counts = Counter(trained=trained, held_out=len(sample.labels) - trained)
        return counts if made.model.about["has_converged"] else counts + Counter(not_converged=1)


def _texts(parts: Sequence[SetPart], inputs: Inputs, left_out: "Counter[str]") -> Iterator[LabelledText]:
    """Yields the texts of ``parts``, in their order."""
    return itertools.chain.from_iterable(own.examples(names, inputs, left_out) for own, names in parts)
