"""Examples in fields that a user names."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyText, SomeTexts, TextList, settings
from headrace.train.evaluation.file_records import (
    FieldValues,
    RecordError,
    index_of,
    number_of,
    records,
    text_of,
    utf8,
    value_of,
)
from headrace.train.finetune.files.examples import AnswerSpan, Example, Examples, collect


@settings
class NamedFields:
    """Files of named fields: TSV, CSV or JSON lines."""

    type: Literal["fields"] = "fields"
    texts: SomeTexts = ("text",)
    """The fields with the texts, in the order in which a model reads them."""
    names: TextList = ()
    """Other names of these texts, for text-to-text; empty: those of the fields."""
    label: AnyText = ""
    """The field with the class; empty: none."""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    """A class as the files write it → its name, in the order of the classes; empty: as the files have them, sorted."""
    value: AnyText = ""
    """The field with the number to predict; empty: none."""
    choices: TextList = ()
    """The fields with the choices, or the one with a list of them."""
    choice_start: AnyText = ""
    """The field with the text with which every choice begins; empty: none."""
    gold: AnyText = ""
    """The field with the index of the right choice, from 0; empty: none."""
    answer: AnyText = ""
    """The field with the text to write (text_to_text), or with a part of the second text (span); empty: none."""
    id: AnyText = ""
    """The field with the id of an example of finetune.test, for its prediction; empty: file and line."""
    header: bool = True
    """Whether the first line of TSV and CSV names the fields; without it they are "0", "1", …."""

    def __post_init__(self) -> None:
        if self.names and len(self.names) != len(self.texts):
            problem = f"there are {len(self.names)} names and {len(self.texts)} texts"
            raise ConfigError("finetune.names", problem, "give one name for each text")

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.labels.values()))

    def check_named(self, result: str, path: Path) -> None:
        """Checks that the setting ``result`` names the field with the results of ``path``.

        Raises:
            ConfigError: with the fields of the file.
        """
        if not getattr(self, result):
            fields = next((record for _, record in records(path, self.header) if isinstance(record, Mapping)), {})
            others = [field for field in fields if field not in self.texts]
            likely = result if result in others else next(iter(others), "NAME")
            setting = f"finetune.task.format.{result}"
            remedy = f"write {setting}={likely} (fields in {path.name}: {', '.join(fields) or 'none'})"
            raise ConfigError(setting, "is missing: it names the field with the results", remedy)

    def read(self, path: Path, labelled: bool = True) -> Examples:
        return collect(path, lambda name, record: self.examples(name, record, labelled), self.header)

    def examples(self, name: str, record: FieldValues, labelled: bool) -> Iterator[Example]:
        """Yields the example of ``record``."""
        texts = dict(zip(self.names or self.texts, (text_of(record, field) for field in self.texts), strict=True))
        if not any(text.strip() for text in texts.values()):
            raise RecordError("blank_text")
        choices = self._choices(record)
        gold = index_of(record, self.gold) if labelled and self.gold else None
        if gold is not None and gold >= len(choices):
            raise RecordError("unknown_choice")
        yield Example(
            id=text_of(record, self.id) if self.id and not labelled else name,
            texts=texts,
            label=self._label(record) if labelled and self.label else None,
            value=number_of(record, self.value) if labelled and self.value else None,
            choices=choices,
            gold=gold,
            answers=(AnswerSpan(text_of(record, self.answer)),) if labelled and self.answer else None,
        )

    def _choices(self, record: FieldValues) -> tuple[str, ...]:
        if len(self.choices) == 1 and isinstance(listed := value_of(record, self.choices[0]), list):
            choices = tuple(text_of({"": text}, "") for text in listed)
        else:
            choices = tuple(text_of(record, field) for field in self.choices)
        if self.choices and len(choices) < 2:
            raise RecordError("too_few_choices")
        start = text_of(record, self.choice_start) + " " if self.choice_start else ""
        return tuple(start + choice for choice in choices)

    def _label(self, record: FieldValues) -> str:
        label = value_of(record, self.label)
        if not isinstance(label, str | int) or not (name := utf8(str(label)).strip()):
            raise RecordError("no_label")
        if self.labels and name not in self.labels:
            raise RecordError("unknown_label")
        return self.labels.get(name, name)
