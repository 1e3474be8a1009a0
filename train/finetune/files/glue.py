"""The TSV of GLUE (Wang et al. 2018), as gluebenchmark.com publishes it.

Quotes are ordinary characters, and a few lines of QQP have another number of columns. CoLA has a header only in its
test file. A pair of MNLI whose judges disagree has the class "-". Names of texts and classes, and the order of the
classes, are those of TensorFlow Datasets, which T5 uses.
"""

from pathlib import Path
from typing import Literal

from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.file_records import FieldValues
from headrace.train.finetune.files.examples import Examples, collect
from headrace.train.finetune.files.named_fields import NamedFields


def _same(*labels: str) -> dict[str, str]:
    return {label: label for label in labels}


def _numbered(*labels: str) -> dict[str, str]:
    return {str(number): label for number, label in enumerate(labels)}


ENTAILMENT = _same("entailment", "not_entailment")
NLI = _same("entailment", "neutral", "contradiction")
PAIR = ("sentence1", "sentence2")
GlueTask = Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte", "wnli"]
GLUE = {
    "cola": NamedFields(
        texts=("3",), names=("sentence",), label="1", labels=_numbered("unacceptable", "acceptable"), header=False
    ),
    "sst2": NamedFields(texts=("sentence",), label="label", labels=_numbered("negative", "positive")),
    "mrpc": NamedFields(
        texts=("#1 String", "#2 String"), names=PAIR, label="Quality", labels=_numbered("not_equivalent", "equivalent")
    ),
    "qqp": NamedFields(
        texts=("question1", "question2"), label="is_duplicate", labels=_numbered("not_duplicate", "duplicate")
    ),
    "stsb": NamedFields(texts=PAIR, value="score"),
    "mnli": NamedFields(texts=PAIR, names=("premise", "hypothesis"), label="gold_label", labels=NLI),
    "qnli": NamedFields(texts=("question", "sentence"), label="label", labels=ENTAILMENT),
    "rte": NamedFields(texts=PAIR, label="label", labels=ENTAILMENT),
    "wnli": NamedFields(texts=PAIR, label="label", labels=_numbered("not_entailment", "entailment")),
}
"""The fields of each task's files."""
DIAGNOSTIC = NamedFields(texts=("Premise", "Hypothesis"), names=("premise", "hypothesis"), label="Label", labels=NLI)
"""The fields of the diagnostic file with labels."""


@settings
class Glue:
    """The TSV files of a task of GLUE."""

    type: Literal["glue"] = "glue"
    task: GlueTask
    """The task of GLUE whose files these are."""

    @property
    def fields(self) -> NamedFields:
        """The fields of the task's files."""
        return GLUE[self.task]

    @property
    def classes(self) -> tuple[str, ...]:
        return self.fields.classes

    def read(self, path: Path, labelled: bool = True) -> Examples:
        """Returns the examples of ``path``. CoLA's test file alone has a header: index, sentence."""
        if self.task == "cola" and not labelled:
            return NamedFields(texts=("sentence",)).read(path, labelled)
        if self.task == "mnli":
            return collect(path, lambda name, record: _nli_fields(record).examples(name, record, labelled))
        return self.fields.read(path, labelled)


def _nli_fields(record: FieldValues) -> NamedFields:
    """Returns the fields of MNLI, or those of diagnostic-full.tsv, which a model of MNLI is tested on."""
    return DIAGNOSTIC if "Premise" in record else GLUE["mnli"]
