"""The JSON of SQuAD 1.1 (Rajpurkar et al. 2016) and 2.0 (Rajpurkar et al. 2018), as it is published.

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
from headrace.train.finetune.files.examples import AnswerSpan, Collection, Example, Examples


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
