"""Examples of a task, and the lines of its files that are none.

    file ── a format's rules (files/) ──> Example, ...        one for each line, question or answer
                                        └─> dropped: {reason: number}

A broken line is dropped with a reason and counted. A file most of whose lines are broken is an error: it is probably in
another format.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from headrace.pipeline.core.errors import ArtifactError, suggestion
from headrace.train.evaluation.file_records import FieldValues, RecordError, records


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
