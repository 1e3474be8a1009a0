"""Examples of a task, and the lines of its files that are none.

    file ── a format's rules (files/) ──> Example, ...        one for each line, question or answer
                                        └─> dropped: {reason: number}

A broken line is dropped with a reason and counted. A file most of whose lines are broken is an error: it is probably in
another format.

**Fields** that a user names (``NamedFields``), and **templates** over fields (``TemplatePairs``, evaluation/prompt.py):

{type: fields, texts: [question, passage], label: answer}                                         TSV, CSV, JSON lines
{type: templates, prompt: "translate English to German: {en}", answer: "{de}"}                    the same
{type: templates, lines: [en, de], prompt: "translate English to German: {en}", answer: "{de}"}   train.en, train.de
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.settings import AnyText, SomeTexts, TextList, settings
from headrace.train.evaluation.file_records import (
    FieldValues,
    RecordError,
    index_of,
    number_of,
    pair_records,
    records,
    text_of,
    utf8,
    value_of,
)
from headrace.train.evaluation.prompt import Template


@dataclasses.dataclass(frozen=True)
class AnswerSpan:
    """An answer that occurs in a text."""

    text: str
    start: int | None = None
    """The index of its first character in the text, as the file gives it; None: not known."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """One example of a task. The format decides which of the results it has; an unlabelled example has none."""

    id: str
    """``<file>:<line>``, lines from 1, then the numbers of question and answer from 0; for SQuAD its own id."""
    texts: Mapping[str, str]
    """The texts by their names, in the order in which a model reads them."""
    label: str | None = None
    """The class."""
    value: float | None = None
    """The number to predict."""
    choices: tuple[str, ...] = ()
    """The texts to choose from; the entities of ReCoRD."""
    gold: int | None = None
    """The index of the right choice."""
    answers: tuple[AnswerSpan, ...] | None = None
    """The right answers; empty: the text does not answer the question. None: not known, or no task with answers."""
    group: str = ""
    """Examples of one group are scored together: the answers of a question of MultiRC."""
    words: tuple[str, ...] = ()
    """The words to tag; ``texts`` has them with a space between them."""
    tags: tuple[str, ...] | None = None
    """The tag of each word; None: not known, or no task with tags."""
    numbers: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Places of marked words: indices of words in WSC (``span1``, ``span2``), of characters in WiC (``start1``)."""


@dataclasses.dataclass(frozen=True)
class Examples:
    """The examples of a file."""

    examples: tuple[Example, ...]
    dropped: Mapping[str, int]
    """The number of lines, or of questions, that hold no example, by reason."""


class Collection:
    """Collects the examples of ``path`` and the reasons of what is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._examples: list[Example] = []
        self._dropped, self._missing = Counter[str](), Counter[str]()
        self._fields: dict[str, None] = {}

    def add(self, examples: Iterable[Example], fields: Iterable[str]) -> None:
        """Adds the examples of one record, whose ``fields`` an error names; all of them or, if one is broken, none."""
        try:
            self._examples += list(examples)
        except RecordError as broken:
            self.drop(broken)
            self._missing[broken.field] += bool(broken.field)
            self._fields |= dict.fromkeys(fields)

    def drop(self, broken: RecordError) -> None:
        """Counts a record that holds no example."""
        self._dropped[broken.reason] += 1

    def close(self) -> Examples:
        """Returns what was collected.

        Raises:
            ArtifactError: when more was dropped than found, or nothing was found.
        """
        dropped, n_examples = self._dropped.total(), len(self._examples)
        if not n_examples and not dropped:
            raise ArtifactError(str(self._path), "holds no examples", "give a file with one example a line")
        if dropped > n_examples:
            reasons = ", ".join(f"{reason}: {number}" for reason, number in self._dropped.most_common())
            problem = f"{dropped} records hold no example ({reasons}), {n_examples} do"
            raise ArtifactError(str(self._path), problem, self._remedy())
        return Examples(tuple(self._examples), dict(self._dropped))

    def _remedy(self) -> str:
        missing = next((field for field, number in self._missing.most_common() if number), None)
        if missing is None or not self._fields:
            return "check the format and the names of the fields"
        return f"field {missing!r} is missing, {suggestion(missing, self._fields)} (fields: {', '.join(self._fields)})"


def collect(path: Path, examples_of: Callable[[str, FieldValues], Iterable[Example]], header: bool = True) -> Examples:
    """Returns the examples that ``examples_of`` makes of the records of ``path``; see ``records``.

    Raises:
        ArtifactError: when most records hold no example.
    """
    collection = Collection(path)
    for name, record in records(path, header):
        if isinstance(record, RecordError):
            collection.drop(record)
        else:
            collection.add(examples_of(name, record), record)
    return collection.close()


class Format(Protocol):
    """The way that examples are written to a file."""

    @property
    def type(self) -> str:
        """The tag in settings."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Returns the classes, in the order of their numbers; none where only the files know them."""

    def read(self, path: Path, labelled: bool = True) -> Examples:
        """Returns the examples of ``path``; without ``labelled`` the results in it are not looked at.

        Raises:
            ArtifactError: when most of it holds no example, or it cannot be read.
        """


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


PROMPT = ""
"""The name of the only text of these examples, which no field has."""


@settings
class TemplatePairs:
    """Files of texts to read and to write: by names of fields, or aligned line by line."""

    type: Literal["templates"] = "templates"
    prompt: str
    """The text that the model reads, with names of fields in braces: "summarize: {article}"."""
    answer: str
    """The text that it writes: "{highlights}". If the field holds a list, each of its texts is right, and the first one
    is trained on."""
    lines: TextList = ()
    """The names of the lines of plain files that are read together, one sentence a line: [en, de] for train.en and
    train.de; empty: files of fields (TSV, CSV, JSON lines)."""
    header: bool = True
    """Whether the first line of TSV and CSV names the fields; without it they are "0", "1", …."""

    def __post_init__(self) -> None:
        for setting, template in (("prompt", self.prompt_template), ("answer", self.answer_template)):
            unknown = [field for field in template.fields if self.lines and field not in self.lines]
            if unknown:
                problem = f"names {unknown[0]!r}, and the lines are {', '.join(self.lines)}"
                raise ConfigError(f"finetune.task.format.{setting}", problem, "name some of these")

    @property
    def prompt_template(self) -> Template:
        return Template.parsed(self.prompt, "finetune.task.format.prompt")

    @property
    def answer_template(self) -> Template:
        return Template.parsed(self.answer, "finetune.task.format.answer")

    @property
    def classes(self) -> tuple[str, ...]:
        return ()

    @property
    def files_together(self) -> int:
        """The number of files that one set of examples is in."""
        return len(self.lines) or 1

    def sets(self, paths: Sequence[Path]) -> list[Sequence[Path]]:
        """Returns ``paths`` in sets of files that are read together; a set that lacks files is refused when read."""
        return [paths[start : start + self.files_together] for start in range(0, len(paths), self.files_together)]

    def read(self, path: Path, labelled: bool = True) -> Examples:
        return self.read_together([path], labelled)

    def read_together(self, paths: Sequence[Path], labelled: bool = True) -> Examples:
        """Returns the examples of one set of files; see ``Format.read``."""
        collection = Collection(paths[0])
        prompt, answer = self.prompt_template, self.answer_template

        def examples_of(name: str, record: FieldValues) -> Iterator[Example]:
            answers = tuple(map(AnswerSpan, answer.texts(record))) if labelled else None
            yield Example(id=name, texts={PROMPT: prompt.text(record)}, answers=answers)

        for name, record in pair_records(paths, self.lines, self.header):
            if isinstance(record, RecordError):
                collection.drop(record)
            else:
                collection.add(examples_of(name, record), record)
        return collection.close()
