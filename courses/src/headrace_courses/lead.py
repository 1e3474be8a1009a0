"""The lead of a document as its summary: a baseline that few models surpass (See et al. 2017). No model is asked."""

import dataclasses
from typing import ClassVar, Literal

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, settings
from headrace.train.evaluation.benchmarks.base import Item, Sources
from headrace.train.evaluation.benchmarks.written_answers import WHERE, WrittenAnswers, first_sentences


@settings
class Lead(WrittenAnswers):
    """The first sentences of a document, compared with its summary."""

    type: Literal["lead"] = "lead"  # type: ignore[assignment]  # a tag of its own
    sentence: ClassVar[str] = "The first sentences of a document as its summary."
    sentences: Positive = 3
    """The number of sentences."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.document:
            raise ConfigError(WHERE, "type lead has no document", "name its field: document")

    def items(self, sources: Sources) -> list[Item]:
        items = super().items(sources)
        documents = [str(asked.record[self.document]) for _, asked in self.read(sources.data)]
        leads = (first_sentences(document, self.sentences) for document in documents)
        return [
            dataclasses.replace(item, queries=(), written=(lead,)) for item, lead in zip(items, leads, strict=False)
        ]
