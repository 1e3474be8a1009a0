"""Base classes of all filters and of rules that judge one line, and functions that filters share.

    Filter         sees one document:   judge(document) -> Drop | None      (it may rewrite document.text)
                   as a column:         values(document) -> {name: number or text}, drops nothing
    GlobalFilter   sees all documents:  keys(document)  ->  one of equal keys wins  ->  trim(document, losers)
    LineFilter     judges each line:    line ── rule ──> line (perhaps rewritten) ── rule ──> … ──> kept, or removed

The constructor fields of a filter are its settings. ``headrace.datatrove.Clean`` puts a ``Filter`` into a datatrove
pipeline; ``DatatroveFilter`` (datatrove_filter.py) is the other direction. A global filter cannot be such a step,
because datatrove shows a filter one document at a time. ``headrace inspect`` and the report apply rules of lines again
to show which one removed a line. Files of the user (lists, models) are named by path and never downloaded.
"""

import abc
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from datatrove.data import Document
from pydantic import ConfigDict
from typing_extensions import Self, dataclass_transform

from headrace.data_prep.document import Drop
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import STRICT
from headrace.pipeline.core.stage import Inputs, RawFile, raw_file
from headrace.pipeline.core.text_files import plain_text

F = TypeVar("F")

Value = float | str
"""A number, or a short text such as a language or a topic."""
Values = Mapping[str, Value]
ValueKinds = Mapping[str, type[Value]]
"""The name of each value with its type, ``float`` or ``str``."""

Templates = tuple[str, str]
"""The sentence about a rule, and the meaning of a value that it stores (explanations.py)."""
Explanations = Mapping[str, Templates]
"""The templates of a filter's reasons, by their part after ``base_reason``; "" where they have none."""
AS_STORED = "{value}"
"""The meaning of a value that needs no words."""

FAILED = "failed"
"""The last part of the reason of a page at which code that is not ours failed. No rule of a user may have this name."""
ROUTE = "language_values"
"""Metadata of a page: the entry of the values of languages by which it was judged, such as ``de_Latn``."""
HARD_WRAPPED = "hard_wrapped"
"""Metadata of a hard-wrapped page: the rule that removed its lines, and how many of them go on in the next line."""
REMOVED_UNITS = ("lines", "sentences")
"""The units of text that filters remove from documents that are kept."""


@dataclass_transform(kw_only_default=True)
def filter_settings(cls: type[F]) -> type[F]:
    """Makes ``cls`` a settings class that is not frozen: a filter may keep what it prepared from its settings.

    A ``__pydantic_config__`` in its body adds to the one of all settings.
    """
    own: ConfigDict = vars(cls).get("__pydantic_config__", {})
    cls.__pydantic_config__ = {**STRICT, **own}  # type: ignore[attr-defined]
    return dataclasses.dataclass(kw_only=True)(cls)


class PageFailedError(Exception):
    """Code that is not ours failed at a page: that of the filter with ``base_reason``, with ``error`` as text."""

    def __init__(self, base_reason: str, error: str) -> None:
        super().__init__(base_reason, error)
        self.base_reason, self.error = base_reason, error

    @property
    def drop(self) -> Drop:
        """The reason to drop the page."""
        return Drop(f"{self.base_reason}.{FAILED}", self.error)


class Applied(abc.ABC):
    """A filter or a scorer: what a stage applies to documents, with what it reads besides them."""

    type: str
    """Its tag in the settings."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the stages that it needs the artifacts of, besides the documents."""
        return ()

    @property
    def run_labels(self) -> tuple[str, ...]:
        """The labels whose probability it reads from the classifier that the run trains."""
        return ()

    def ready(self, inputs: Inputs) -> Self:
        """Returns it with what it reads of the artifacts ``inputs``."""
        return self

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files outside the project whose content decides the result."""
        return ()

    def check(self) -> None:  # noqa: B027  (most have nothing to add)
        """Refuses, before a run starts, settings that need more than their own values to be checked."""


class Explained(Applied):
    """Drops documents, each for a named reason."""

    explanations: ClassVar[Explanations] = {}

    @property
    def base_reason(self) -> str:
        """The first part of all its reasons."""
        return self.type

    def english_rules(self, document: Document) -> tuple[str, ...]:
        """Returns the reasons of its rules that are for English and judge ``document``, whatever its language is."""
        return ()


class Filter(Explained):
    """Judges one document at a time. Subclasses are ``@filter_settings`` classes with a ``type`` tag."""

    type: str = ""
    """Its tag in the settings. A class of the user's, which ``PythonFilter`` runs, needs none."""
    identifies_language: ClassVar[bool] = False
    """Whether it stores the language of a document that it keeps in the metadata."""
    thresholds: ClassVar[tuple[str, ...]] = ()
    """The settings that decide which documents are dropped, and none of its values."""

    @abc.abstractmethod
    def judge(self, document: Document) -> Drop | None:
        """Returns why ``document`` is dropped, or None. Only a document that is kept may have a changed text."""

    @property
    def value_kinds(self) -> ValueKinds:
        """The names of the values that it measures, each with ``float`` or ``str``; none for most filters."""
        return {}

    def values(self, document: Document) -> Values:
        """Returns what it measures of ``document``, which may lack some of ``value_kinds``. No document is changed."""
        return {}

    def without_thresholds(self) -> "Filter":
        """Returns the filter with its thresholds at their defaults, 0 without one: its values are the same."""
        own = [field for field in dataclasses.fields(self) if field.name in self.thresholds]  # type: ignore[arg-type]
        defaults = {field.name: 0.0 if field.default is dataclasses.MISSING else field.default for field in own}
        return dataclasses.replace(self, **defaults) if own else self  # type: ignore[type-var]


class Routing(Filter):
    """A filter that judges each document by one of several lists of filters. A reason names the list after the type."""

    @abc.abstractmethod
    def route(self, name: str) -> "tuple[Filter, ...]":
        """Returns the filters of the list ``name``; none when there is no such list."""


class GlobalFilter(Explained):
    """Compares all documents. Every document yields keys; of equal keys the one of lowest rank wins, the others lose.

    Equal ranks are ordered by (shard, document, part). Subclasses are ``@settings`` classes with a ``type`` tag.
    """

    rank_words: ClassVar[int]
    """The width of a rank in uint64 words, compared from left to right."""

    @abc.abstractmethod
    def keys(self, document: Document) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        """Returns the keys of ``document``, uint64 (n, 2), its rank, uint64 (rank_words,), and the part that each key
        belongs to, uint32 (n,)."""

    @abc.abstractmethod
    def trim(self, document: Document, losers: "np.ndarray") -> Drop | None:
        """Removes the parts ``losers`` (uint32, ascending, may be empty) from ``document``; returns why it is dropped,
        or None. ``document`` is as it was when ``keys`` saw it."""


Reasoned = TypeVar("Reasoned", Filter, GlobalFilter, Filter | GlobalFilter)


def deciding(reason: str, filters: "Iterable[Reasoned]") -> "list[Reasoned]":
    """Returns the filters that write ``reason``: several when a preset lists the same filter with other settings."""
    return [candidate for candidate in filters if is_within(candidate.base_reason, reason)]


def routed(reason: str, filters: "Sequence[Filter | GlobalFilter]") -> "tuple[str, Sequence[Filter | GlobalFilter]]":
    """Returns the reason, and the filters, within the list of filters that ``reason`` names; else both as they are.

    ``by_language.de_Latn.gopher_quality.word_count`` is ``gopher_quality.word_count`` of the filters for German.
    """
    first, _, inner = reason.partition(".")
    name, _, inner = inner.partition(".")
    for candidate in filters:
        if isinstance(candidate, Routing) and candidate.type == first and (own := candidate.route(name)):
            return inner, own
    return reason, filters


def limits_in(holder: object) -> dict[str, float]:
    """Returns the thresholds of a filter or rule: its numbers ``min_…`` and ``max_…``; none if it does not measure."""
    numbers = ((name, value) for name, value in vars(holder).items() if isinstance(value, int | float))
    return {name: float(value) for name, value in numbers if name.startswith(("min_", "max_"))}


def is_within(base: str, reason: str) -> bool:
    """Whether ``reason`` is ``base``, or one of its parts: ``c4_lines.sentences`` is within ``c4_lines``."""
    return f"{reason}.".startswith(f"{base}.")


def count_removed(document: Document, rule: str, number: int, unit: str = "lines") -> None:
    """Adds ``number`` to ``metadata["removed_lines"][rule]`` (or ``removed_<unit>``)."""
    if number:
        removed = document.metadata.setdefault(f"removed_{unit}", {})
        removed[rule] = removed.get(rule, 0) + number


def removed_parts(document: Document) -> Iterator[tuple[str, str, int]]:
    """Yields (unit, rule, number) for each rule that removed parts of ``document``."""
    for unit in REMOVED_UNITS:
        for rule, number in document.metadata.get(f"removed_{unit}", {}).items():
            yield unit, rule, number


def check_lower_case(where: str, words: Iterable[str]) -> None:
    """Checks the ``words`` of the setting ``where``, which are compared with text in lower case.

    Raises:
        ConfigError: for the first that has another case: it would never be found.
    """
    for word in words:
        if word != word.lower():
            raise ConfigError(where, f"{word!r} is never found in text in lower case", f"write {word.lower()!r}")


def ratio(part: float, whole: float) -> float:
    """Returns ``part`` / ``whole``, or 0 when ``whole`` is 0."""
    return part / whole if whole else 0.0


class LineRule(abc.ABC):
    """Judges one line. Subclasses are ``@settings`` classes; their ``type`` tag is the reason of a removed line."""

    type: str
    meaning: ClassVar[str] = AS_STORED
    """The template of the value of a line that drops its page (explanations.py)."""

    @abc.abstractmethod
    def apply(self, line: str) -> str | None:
        """Returns what remains of ``line``, or None when the line fails."""


AnyLineRule = TypeVar("AnyLineRule", bound=LineRule)


class LineFilter(Filter):
    """A filter that judges each line by itself, with ``rules`` in their order."""

    type: str
    rules: tuple[LineRule, ...]

    def reason(self, rule: str) -> str:
        """Returns the reason of a line that fails the rule with the type ``rule``, as counts and metadata name it."""
        return f"{self.type}.{rule}"


def apply_rules(rules: Iterable[AnyLineRule], line: str) -> tuple[str, AnyLineRule | None]:
    """Applies ``rules`` in order. Returns the remaining line and the first rule that it fails, or None."""
    for rule in rules:
        remaining = rule.apply(line)
        if remaining is None:
            return line, rule
        line = remaining
    return line, None


def require_file(where: str, path: str, expected: str) -> None:
    """Checks that the file ``path`` exists.

    Raises:
        ConfigError: when it does not exist. The message names the setting ``where`` and the ``expected`` kind of file.
    """
    if not Path(path).is_file():
        raise ConfigError(where, f"there is no file {path}", f"name {expected}")


def user_file(path: str) -> RawFile:
    """Returns name, size and checksum of the file, which become part of the artifact's address."""
    return raw_file(Path(path).name, Path(path))


def read_text(path: str | Path) -> str:
    """Returns the text of the file, without the byte order mark that Windows writes.

    Raises:
        ArtifactError: when it is not UTF-8, or an archive.
    """
    try:
        return plain_text(Path(path), "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(str(path), f"is not UTF-8 (byte {error.start})", "convert it to UTF-8") from None
