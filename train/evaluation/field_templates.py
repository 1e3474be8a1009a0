"""Texts by templates over the fields of records: prompts, and their right answers.

    {"en": "Good morning.", "de": "Guten Morgen."}

    prompt "translate English to German: {en}", answer "{de}"
        ──> "translate English to German: Good morning.", ("Guten Morgen.",)

``{a.b}`` is a field of an object in a field; ``{a:capitalize}`` and ``{a:strip}`` are methods of its text. A field
of the answer may hold a list: each of its texts is a right one. ``{{`` and ``}}`` are braces. Chat templates are in
Jinja (inference/chat_template.py); these are not, because their text is in the address of what is made with them.
"""

import dataclasses
import functools
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation.question_files import FieldValues, RecordError, object_of, utf8, value_of

FORMS: Mapping[str, Callable[[str], str]] = {"capitalize": str.capitalize, "strip": str.strip}
"""Methods that a template can call on the text of a field."""


TemplatePart = tuple[str, str | None, str]
"""A text, the field after it (None: the end of the template), and one of ``FORMS`` or empty: the field as it is."""


@dataclasses.dataclass(frozen=True)
class Template:
    """A text with fields."""

    parts: tuple[TemplatePart, ...]

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
        fields = [field for _, field, _ in parts if field is not None]
        if not all(fields) or len(fields) < least:
            raise ConfigError(setting, f"{text!r} names no field" + " in braces" * bool(fields), remedy)
        return cls(parts)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(field for _, field, _ in self.parts if field is not None))

    def text(self, record: FieldValues, may_be_blank: bool = False) -> str:
        """Returns the text with the fields of ``record``.

        Raises:
            RecordError: when a field is absent or no text, or all are blank and the text may not be.
        """
        return self._filled({field: _field(record, field) for field in self.fields}, may_be_blank)

    def texts(self, record: FieldValues) -> tuple[str, ...]:
        """Returns the text for each entry of the field with a list; without one, the one text.

        Raises:
            RecordError: see ``text``; also when two fields have lists, or a list is empty.
        """
        values = {field: _field(record, field) for field in self.fields}
        listed = [field for field, value in values.items() if isinstance(value, list)]
        if not listed:
            return (self._filled(values),)
        if len(listed) > 1 or not values[listed[0]]:
            raise RecordError("two_lists" if len(listed) > 1 else "no_answer")
        (field,) = listed
        return tuple(self._filled(values | {field: entry}) for entry in values[field])

    def _filled(self, values: FieldValues, may_be_blank: bool = False) -> str:
        texts = {field: _shown(value) for field, value in values.items()}
        if texts and not may_be_blank and not any(text.strip() for text in texts.values()):
            raise RecordError("blank_text")
        filled = (FORMS.get(form, str)(texts[field]) if field else "" for _, field, form in self.parts)
        return "".join(literal + text for (literal, _, _), text in zip(self.parts, filled, strict=True))


def _parsed(text: str) -> Iterator[TemplatePart]:
    """Yields each text with the field after it. Formats of numbers are no part of a template.

    Raises:
        ValueError: when ``text`` is no template.
    """
    for literal, field, form, conversion in string.Formatter().parse(text):
        if conversion or (form and form not in FORMS):
            raise ValueError(f"{{{field}}} has a format other than {' and '.join(FORMS)}")
        yield literal, field, form or ""


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
