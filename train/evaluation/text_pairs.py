"""Pairs of a prompt and right answers, by templates over the fields of records.

    {"en": "Good morning.", "de": "Guten Morgen."}                          TSV, CSV or JSON lines, by names of fields
    train.en, train.de       one sentence a line, in any compression        aligned plain files, named by ``lines``

    prompt "translate English to German: {en}", answer "{de}"
        ──> "translate English to German: Good morning.", ("Guten Morgen.",)

``{a.b}`` is a field of an object in a field; ``{a:capitalize}`` and ``{a:strip}`` are methods of its text. A field
of the answer may hold a list: each of its texts is a right one. ``{{`` and ``}}`` are braces.
"""

import dataclasses
import functools
import itertools
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.text_files import read_lines
from headrace.train.evaluation.benchmark_files import BenchmarkRecord
from headrace.train.evaluation.field_records import FieldValues, RecordError, object_of, records, utf8, value_of

FORMS: Mapping[str, Callable[[str], str]] = {"capitalize": str.capitalize, "strip": str.strip}
"""Methods that a template can call on the text of a field."""


@dataclasses.dataclass(frozen=True)
class TemplatePart:
    """A text and the field after it."""

    literal: str
    field: str | None
    """None: the end of the template."""
    form: str
    """One of ``FORMS``; empty: the text of the field as it is."""

    def filled(self, texts: Mapping[str, str]) -> str:
        """Returns the text, then that of the field in ``texts``."""
        if self.field is None:
            return self.literal
        return self.literal + FORMS.get(self.form, str)(texts[self.field])


@dataclasses.dataclass(frozen=True)
class Template:
    """A text with fields."""

    parts: tuple["TemplatePart", ...]

    @classmethod
    @functools.cache
    def parsed(cls, text: str, setting: str, least: int = 1) -> "Template":
        """Returns the template that ``text`` is.

        Raises:
            ConfigError: naming the ``setting``, when it has fewer than ``least`` fields, or braces that enclose none.
        """
        remedy = "write names of fields in braces, as {en}, and {{ for a brace"
        try:
            parts = tuple(_parsed(text))
        except ValueError as error:
            raise ConfigError(setting, f"{text!r} is no template ({error})", remedy) from None
        fields = [part.field for part in parts if part.field is not None]
        if not all(fields) or len(fields) < least:
            raise ConfigError(setting, f"{text!r} names no field" + " in braces" * bool(fields), remedy)
        return cls(parts)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.field for part in self.parts if part.field is not None))

    def text(self, record: FieldValues, may_be_blank: bool = False) -> str:
        """Returns the text with the fields of ``record``.

        Raises:
            RecordError: when a field is absent or no text, or all are blank and the text may not be.
        """
        (text,) = self._texts({field: _field(record, field) for field in self.fields}, may_be_blank)
        return text

    def texts(self, record: FieldValues) -> tuple[str, ...]:
        """Returns the text for each entry of the field with a list; without one, the one text.

        Raises:
            RecordError: see ``text``; also when two fields have lists, or a list is empty.
        """
        values = {field: _field(record, field) for field in self.fields}
        listed = [field for field, value in values.items() if isinstance(value, list)]
        if not listed:
            return self._texts(values)
        if len(listed) > 1 or not values[listed[0]]:
            raise RecordError("two_lists" if len(listed) > 1 else "no_answer")
        (field,) = listed
        return tuple(itertools.chain.from_iterable(self._texts(values | {field: entry}) for entry in values[field]))

    def _texts(self, values: FieldValues, may_be_blank: bool = False) -> tuple[str]:
        texts = {field: _shown(value) for field, value in values.items()}
        whole = "".join(part.filled(texts) for part in self.parts)
        if texts and not may_be_blank and not any(text.strip() for text in texts.values()):
            raise RecordError("blank_text")
        return (whole,)


def _parsed(text: str) -> Iterator[TemplatePart]:
    """Yields each text with the field after it. Formats of numbers are no part of a template.

    Raises:
        ValueError: when ``text`` is no template.
    """
    for literal, field, form, conversion in string.Formatter().parse(text):
        if conversion or (form and form not in FORMS):
            raise ValueError(f"{{{field}}} has a format other than {' and '.join(FORMS)}")
        yield TemplatePart(literal, field, form or "")


def _field(record: FieldValues, field: str) -> Any:
    """Returns the value of ``field``: of that name, or of the objects that a name with dots leads through."""
    first, dot, rest = field.partition(".")
    if not dot or field in record:
        return value_of(record, field)
    return _field(object_of(record, first), rest)


def _shown(value: Any) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise RecordError("no_text")
    return utf8(str(value))


def pair_records(
    paths: Sequence[Path], lines: Sequence[str], header: bool = True
) -> Iterator[tuple[str, FieldValues | RecordError]]:
    """Yields ``<file>:<line>`` of each record with its values, or with the reason that it has none.

    Args:
        paths: the files.
        lines: the names of the lines of aligned files, of which each set has one for each name; empty: each file has
            records of its own.
        header: whether the first line of TSV and CSV names the fields.

    Raises:
        ArtifactError: when aligned files are not as many as ``lines``, or do not have one number of lines.
    """
    if not lines:
        for path in paths:
            yield from records(path, header)
        return
    if not paths or len(paths) % len(lines):
        problem = f"there are {len(paths)} files, and each set of aligned ones has {len(lines)} ({', '.join(lines)})"
        raise ArtifactError(", ".join(map(str, paths)), problem, "give the files of each set one after the other")
    for start in range(0, len(paths), len(lines)):
        yield from _aligned(paths[start : start + len(lines)], lines)


def benchmark_records(paths: Sequence[Path], lines: Sequence[str], header: bool = True) -> Iterator[BenchmarkRecord]:
    """Yields the records of a benchmark; see ``pair_records``.

    Raises:
        ArtifactError: naming file and line of a broken record: no question is left out.
    """
    by_name = {path.name: path for path in paths}
    for name, values in pair_records(paths, lines, header):
        file, _, line = name.rpartition(":")
        if isinstance(values, RecordError):
            broken = BenchmarkRecord(file, int(line), by_name[file], {})
            raise broken.error(f"is no record ({values.reason})", "correct the line, or remove it")
        yield BenchmarkRecord(file, int(line), by_name[file], dict(values))


def _aligned(paths: Sequence[Path], names: Sequence[str]) -> Iterator[tuple[str, FieldValues | RecordError]]:
    """Yields the lines of a set of files side by side."""
    counts = [0] * len(paths)
    for number, row in enumerate(itertools.zip_longest(*map(read_lines, paths)), 1):
        counts = [count + (line is not None) for count, line in zip(counts, row, strict=True)]
        if min(counts) == number:
            texts = [line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape") for line in row]
            bare = [text.removesuffix("\r") for text in texts]
            is_whole = all(text.strip() for text in bare)
            values = dict(zip(names, bare, strict=True))
            yield f"{paths[0].name}:{number}", values if is_whole else RecordError("blank_text")
    if min(counts) < max(counts):
        of_files = " and ".join(f"{path.name} {count:,}" for path, count in zip(paths, counts, strict=True))
        problem = f"the numbers of lines differ: {of_files}"
        raise ArtifactError(str(paths[0].parent), problem, "give files in which lines of one number belong together")
