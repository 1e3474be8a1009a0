"""The JSON lines of SuperGLUE (Wang et al. 2019), as super.gluebenchmark.com publishes them.

A line is one example; of MultiRC and ReCoRD it is a passage with questions, of which each answer or question is one.
Names of texts and the order of classes are those of TensorFlow Datasets, which T5 uses.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.file_records import (
    FieldValues,
    RecordError,
    index_of,
    object_of,
    objects_of,
    offset_of,
    text_of,
    value_of,
)
from headrace.train.finetune.files.examples import AnswerSpan, Example, Examples, NamedFields, collect
from headrace.train.finetune.files.published import ENTAILMENT

SuperGlueTask = Literal["boolq", "cb", "copa", "multirc", "record", "rte", "wic", "wsc"]
TRUTH = ("False", "True")
CB = ("entailment", "contradiction", "neutral")
FLAT = {
    "boolq": NamedFields(texts=("question", "passage"), label="label", labels={name: name for name in TRUTH}),
    "cb": NamedFields(texts=("premise", "hypothesis"), label="label", labels={name: name for name in CB}),
    "copa": NamedFields(texts=("premise", "question"), choices=("choice1", "choice2"), gold="label"),
    "rte": NamedFields(texts=("premise", "hypothesis"), label="label", labels=ENTAILMENT),
}
"""The tasks whose lines hold one example in named fields."""
BROAD = NamedFields(texts=("sentence1", "sentence2"), names=("premise", "hypothesis"), label="label", labels=ENTAILMENT)
"""The fields of AX-b, which a model of RTE is tested on."""


@settings
class SuperGlue:
    """The JSON lines of a task of SuperGLUE."""

    type: Literal["superglue"] = "superglue"
    task: SuperGlueTask
    """The task of SuperGLUE whose files these are."""

    @property
    def classes(self) -> tuple[str, ...]:
        if self.task in FLAT:
            return FLAT[self.task].classes
        return () if self.task == "record" else TRUTH

    def read(self, path: Path, labelled: bool = True) -> Examples:
        examples_of = READERS.get(self.task) or FLAT[self.task].examples
        return collect(path, lambda name, record: examples_of(name, record, labelled))


def _truth(record: FieldValues, labelled: bool) -> str | None:
    """Returns the class of a line: true, false, 1 or 0 in its field ``label``."""
    if not labelled:
        return None
    label = value_of(record, "label")
    if label not in (0, 1):
        raise RecordError("unknown_label")
    return TRUTH[int(label)]


def _rte(name: str, record: FieldValues, labelled: bool) -> Iterator[Example]:
    """Yields the example of a line of RTE, AX-b or AX-g. A pair of AX-g, two texts that differ in a gender, is a
    group."""
    fields = BROAD if "sentence1" in record else FLAT["rte"]
    for example in fields.examples(name, record, labelled):
        yield dataclasses.replace(example, group=str(record.get("pair_id", "")))


def _multirc(name: str, record: FieldValues, labelled: bool) -> Iterator[Example]:
    passage = object_of(record, "passage")
    paragraph = text_of(passage, "text")
    for number, question in enumerate(objects_of(passage, "questions")):
        for index, answer in enumerate(objects_of(question, "answers")):
            yield Example(
                id=f"{name}:{number}:{index}",
                texts={
                    "question": text_of(question, "question"),
                    "answer": text_of(answer, "text"),
                    "paragraph": paragraph,
                },
                label=_truth(answer, labelled),
                group=f"{name}:{number}",
            )


def _record(name: str, record: FieldValues, labelled: bool) -> Iterator[Example]:
    """Yields one example a query. Its entities are in the order of the passage, each once; ``end`` is the index of the
    last character."""
    passage = object_of(record, "passage")
    text = text_of(passage, "text")
    spans = [(index_of(entity, "start"), index_of(entity, "end") + 1) for entity in objects_of(passage, "entities")]
    entities = tuple(dict.fromkeys(text[start:end] for start, end in sorted(spans)))
    for number, query in enumerate(objects_of(record, "qas")):
        yield Example(
            id=f"{name}:{number}",
            texts={"query": text_of(query, "query"), "passage": text},
            choices=entities,
            answers=tuple(_answer(answer) for answer in objects_of(query, "answers")) if labelled else None,
        )


def _answer(record: FieldValues) -> AnswerSpan:
    return AnswerSpan(text_of(record, "text"), offset_of(record, "start"))


def _wic(name: str, record: FieldValues, labelled: bool) -> Iterator[Example]:
    yield Example(
        id=name,
        texts={field: text_of(record, field) for field in ("sentence1", "sentence2", "word")},
        label=_truth(record, labelled),
        numbers={field: index_of(record, field) for field in ("start1", "end1", "start2", "end2")},
    )


def _wsc(name: str, record: FieldValues, labelled: bool) -> Iterator[Example]:
    target = object_of(record, "target")
    yield Example(
        id=name,
        texts={
            "text": text_of(record, "text"),
            "span1": text_of(target, "span1_text"),
            "span2": text_of(target, "span2_text"),
        },
        label=_truth(record, labelled),
        numbers={"span1": index_of(target, "span1_index"), "span2": index_of(target, "span2_index")},
    )


READERS: Mapping[str, Callable[[str, FieldValues, bool], Iterator[Example]]] = {
    "multirc": _multirc,
    "record": _record,
    "rte": _rte,
    "wic": _wic,
    "wsc": _wsc,
}
