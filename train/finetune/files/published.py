"""Files of examples as they are published.

**GLUE**: the TSV of gluebenchmark.com (Wang et al. 2018). Quotes are ordinary characters, and a few lines of QQP have
another number of columns. CoLA has a header only in its test file. A pair of MNLI whose judges disagree has the class
"-". Names of texts and classes, and the order of the classes, are those of TensorFlow Datasets, which T5 uses.

**SQuAD**: the JSON of 1.1 (Rajpurkar et al. 2016) and 2.0 (Rajpurkar et al. 2018).

    {"data": [{"paragraphs": [{"context": "…", "qas": [{"id": "…", "question": "…", "answers": [{"text": "…",
     "answer_start": 177}], "is_impossible": false}]}]}]}

In 2.0 a question may have no answer: ``is_impossible`` is true and ``answers`` is empty. The official evaluation reads
the texts of answers alone; where they are is for training (train/finetune/tasks/span.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import object_in
from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.file_records import FieldValues, RecordError, objects_of, offset_of, read_text, text_of
from headrace.train.finetune.files.examples import AnswerSpan, Collection, Example, Examples, NamedFields, collect


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


@settings
class Squad:
    """The JSON of SQuAD, or of data in its format."""

    type: Literal["squad"] = "squad"

    @property
    def classes(self) -> tuple[str, ...]:
        return ()

    def read(self, path: Path, labelled: bool = True) -> Examples:
        """Returns one example a question. It is dropped without an answer that ``is_impossible`` explains:
        ``no_answer``."""
        collection = Collection(path)
        for number, article in enumerate(_articles(path)):
            try:
                paragraphs = objects_of(article, "paragraphs")
                questions = [
                    (text_of(paragraph, "context"), qa)
                    for paragraph in paragraphs
                    for qa in objects_of(paragraph, "qas")
                ]
            except RecordError as broken:
                raise ArtifactError(f"{path}: data[{number}]", f"is no article ({broken.reason})", REMEDY) from None
            for context, question in questions:
                collection.add(_examples(context, question, labelled), question)
        return collection.close()


REMEDY = 'give a file of SQuAD: {"data": [{"paragraphs": [{"context": …, "qas": […]}]}]}'


def _articles(path: Path) -> list[Any]:
    try:
        articles = object_in(read_text(path).removeprefix("\ufeff").encode()).get("data")
    except ValueError as error:
        raise ArtifactError(str(path), str(error), REMEDY) from None
    if not isinstance(articles, list) or not all(isinstance(article, dict) for article in articles):
        raise ArtifactError(str(path), "has no list of articles in a field 'data'", REMEDY)
    return articles


def _examples(context: str, question: FieldValues, labelled: bool) -> Iterator[Example]:
    answers = None
    if labelled:
        listed = [] if question.get("is_impossible") else objects_of(question, "answers")
        answers = tuple(AnswerSpan(text_of(answer, "text"), offset_of(answer, "answer_start")) for answer in listed)
        if not answers and not question.get("is_impossible"):
            raise RecordError("no_answer")
    texts = {"question": text_of(question, "question"), "context": context}
    yield Example(id=text_of(question, "id"), texts=texts, answers=answers)
