"""Tagged words in JSON lines: ``{"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}``; tags may be numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from headrace.pipeline.core.settings import TextList, settings
from headrace.train.evaluation.file_records import FieldValues, RecordError, value_of
from headrace.train.finetune.files.examples import Example, Examples, collect
from headrace_courses.conll import tagged_example


@settings
class TaggedWords:
    """JSON lines with a list of words and a list of their tags."""

    type: Literal["tagged_words"] = "tagged_words"
    words: str = "tokens"
    """The field with the words."""
    tags: str = "tags"
    """The field with the tag of each word: texts, or numbers from 0."""
    names: TextList = ()
    """The names of the tags, in the order of their numbers and of the model's outputs; empty: those of training."""

    @property
    def classes(self) -> tuple[str, ...]:
        return self.names

    def read(self, path: Path, labelled: bool = True) -> Examples:
        """Returns one example a line. One without a tag for each word is dropped: ``wrong_lengths``."""
        return collect(path, lambda name, record: self._examples(name, record, labelled))

    def _examples(self, name: str, record: FieldValues, labelled: bool) -> Iterator[Example]:
        words = _list_of(record, self.words)
        if not all(isinstance(word, str) for word in words):
            raise RecordError("no_text")
        tags = [self._tag(tag) for tag in _list_of(record, self.tags)] if labelled else None
        if tags is not None and len(tags) != len(words):
            raise RecordError("wrong_lengths")
        yield tagged_example(name, words, tags)

    def _tag(self, value: Any) -> str:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise RecordError("no_label")
        if isinstance(value, int) and self.names:
            if not 0 <= value < len(self.names):
                raise RecordError("unknown_label")
            return self.names[value]
        if self.names and value not in self.names:
            raise RecordError("unknown_label")
        return str(value)


def _list_of(record: FieldValues, field: str) -> list[Any]:
    values = value_of(record, field)
    if not isinstance(values, list):
        raise RecordError("no_list")
    return values
