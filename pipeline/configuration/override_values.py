"""Values of overrides as a shell hands them over, in the form that Hydra's grammar reads.

    source.paths=données/x#1.jsonl  ──> source.paths='données/x#1.jsonl'    no number, list or mapping: a text
    source.paths=2024               ──> source.paths='2024'                 the setting takes texts
    source.paths=a,b                ──> source.paths='a,b'                  a comma separates values after -m alone
    source.paths=[a#1, b]           ──> source.paths=['a#1','b']
    source.paths=[x                 refused: a text, or a list that is not closed? The error has the form to type
    finetune.task=regression        ──> finetune.task.type=regression       settings of this type: the short form

The types of a setting are those of its class: of source.paths {str, tuple}, from every type of source that has it.

Of a setting that takes texts, quotes around the whole, [lists] and ${…} are read as Hydra reads them, and nothing else:
a backslash is a backslash. Values of other settings that Hydra reads stay as they are: numbers, true, null, mappings.
"""

import dataclasses
import functools
import re
import shlex
import types
import typing
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException

from headrace.pipeline.config import RunConfig
from headrace.pipeline.configuration.options import groups
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import TAG, kinds_in
from headrace.pipeline.core.setting_classes import hints_of, members

PLAIN = re.compile(r"(?!(?i:true|false|null|nan|inf)$)[A-Za-z_][\w./-]*", re.ASCII)
"""A text that Hydra reads as a text without quotes, also as the option of a group."""
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?|true|false|null", re.ASCII | re.IGNORECASE)
KEY = re.compile(r"[+~]*[\w./@:-]+", re.ASCII)
FUNCTION = re.compile(r"\w+\(.*\)", re.ASCII | re.DOTALL)
"""A call in Hydra's grammar: ``range(1,3)``."""
INTERPOLATION = re.compile(r"\$\{[^}]+\}")
CLOSING = {"[": "]", "{": "}", "(": ")"}
QUOTES = ("'", '"')
STRUCTURED = ("[", "{", *QUOTES)
"""Beginnings of values that are no plain texts."""
TEXT = frozenset({str, tuple, types.NoneType})
"""The types of a setting that takes texts alone."""


def quoted(text: str, quote: Quote = Quote.single) -> str:
    """Returns ``text`` in quotes, as Hydra reads it: ${…} in it is no interpolation."""
    escaped = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return str(QuotedString(escaped, quote).with_quotes())


def form_to_type(key: str, text: str) -> str:
    """Returns the shortest form in which a shell and Hydra take ``text`` as the value of ``key``."""
    return min((shlex.quote(f"{key}={quoted(text, quote)}") for quote in Quote), key=len)


class OverrideReader:
    """Reads overrides by the types of the settings that they set."""

    def __init__(self, tags: Mapping[str, str] = MappingProxyType({})) -> None:
        """``tags``: group → the type of the settings of its chosen option, as far as it is known. Classes of other
        types are not imported."""
        self._tags = tags

    def readable(self, override: str, is_sweep: bool = False) -> str:
        """Returns ``override`` in the form that Hydra reads; one without a value as it is.

        Args:
            override: as a shell hands it over.
            is_sweep: whether commas separate values.

        Raises:
            ConfigError: when the key is none, several values are given without a sweep, or the value may be a text or a
                mistake in a list; with the form to type.
        """
        key, equals, value = override.partition("=")
        if equals and value in self._types_below(key.lstrip("+")):
            return f"{key}.{TAG}={value}"
        if not equals or not key.strip("+~") or PLAIN.fullmatch(value):
            return override
        if not KEY.fullmatch(key):
            raise ConfigError(
                "command line", f"{override!r} is not an override", "write KEY=VALUE, KEY in ASCII letters"
            )
        setting = key.lstrip("+~").partition("@")[0]
        if not is_sweep:
            self._refuse_several(setting, value)
        if is_sweep and FUNCTION.fullmatch(value) and _parsed(value):
            return override
        parts = [part.strip() for part in _split(value)] if is_sweep else [value]
        forms = [self._form(setting, part) for part in parts]
        if None in forms:
            remedy = (
                "write KEY=VALUE: VALUE begins like a list, a mapping or a text in quotes; as a text of these "
                f"characters it is {form_to_type(key, value)}"
            )
            raise ConfigError("command line", f"{override!r} is not an override", remedy)
        return f"{key}={','.join(map(str, forms))}"

    def types_of(self, key: str) -> frozenset[Any]:
        """Returns the types of the values of the setting ``key``: plain types, ``tuple`` for a list, or settings
        classes. Nothing for an unknown key.
        """
        return _types_of(key, self._tags.get(key.partition(".")[0], ""))

    def _types_below(self, key: str) -> list[str]:
        """Returns the types that settings at ``key`` may have; none of a group, whose options are chosen, and of a
        list."""
        if key in groups():
            return []
        kinds = self.types_of(key) - {types.NoneType}
        tags = [getattr(kind, TAG, None) for kind in kinds if dataclasses.is_dataclass(kind)]
        return sorted(map(str, tags)) if len(tags) == len(kinds) and None not in tags else []

    def _takes_texts(self, key: str) -> bool:
        """Whether a value of the setting ``key`` is a text, or a list of texts, and nothing else but null."""
        return str in self.types_of(key) and self.types_of(key) <= TEXT

    def _refuse_several(self, key: str, text: str) -> None:
        """Refuses several values of a setting that takes no texts, or a range: they are those of a sweep.

        Raises:
            ConfigError: naming the ways to give several.
        """
        if key in groups() or NUMBER.fullmatch(text) or not (kinds := self.types_of(key)) or {str, Any} & kinds:
            return
        if (value := _parsed(text)) and value.is_sweep_override():
            as_list = f", a list ({key}=[{text}])" if tuple in kinds and not FUNCTION.fullmatch(text) else ""
            remedy = f"give one value{as_list}, or a sweep: headrace -m {key}={text}"
            raise ConfigError(key, f"{text!r} are several values", remedy)

    def _form(self, key: str, text: str) -> str | None:
        """Returns one value of the setting ``key`` as Hydra reads it; None when it may be a text or a mistake."""
        is_closed = text.startswith(("[", "{")) and _pairs(text).get(0) == len(text) - 1
        if is_closed and (container := self._container(key, text)):
            return container
        if self._takes_texts(key) and not text.startswith(STRUCTURED) and not INTERPOLATION.search(text):
            is_null = text == "null" and types.NoneType in self.types_of(key)
            return text if is_null or _is_read_so(text) else quoted(text)
        if NUMBER.fullmatch(text) or ((value := _parsed(text)) and (key in groups() or not value.is_sweep_override())):
            return text
        if text.startswith(STRUCTURED) and (text[0] in QUOTES or _pairs(text).get(0) in (None, len(text) - 1)):
            return None
        return str(QuotedString(text, Quote.single).with_quotes()) if INTERPOLATION.search(text) else quoted(text)

    def _container(self, key: str, text: str) -> str | None:
        """Returns the list or mapping ``text`` with entries that Hydra reads; None when it is none."""
        is_list = text[0] == "["
        if not text[1:-1].strip():
            return text
        entries = list[str]()
        for entry in _split(text[1:-1]):
            name, colon, value = ("", "", entry) if is_list else entry.partition(":")
            below = key if is_list and self._takes_texts(key) else f"{key}.{name.strip() or 0}"
            inner = self._form(below, value.strip()) if value.strip() else None
            if inner is None:
                return None
            entries.append(f"{name}{colon}{inner}")
        result = f"{text[0]}{','.join(entries)}{text[-1]}"
        return result if _parsed(result) else None


def _is_read_so(text: str) -> bool:
    """Whether Hydra reads ``text`` without quotes as this text, also before a comma."""
    if PLAIN.fullmatch(text):
        return True
    value = None if "\\" in text else _parsed(text)
    return value is not None and value.value() == text


def _split(text: str) -> list[str]:
    """Splits ``text`` at the commas that stand in no brackets and no quotes."""
    closing, pieces, start, index = _pairs(text), list[str](), 0, 0
    while index < len(text):
        if text[index] == ",":
            pieces.append(text[start:index])
            start = index + 1
        index = closing.get(index, index) + 1
    return [*pieces, text[start:]]


def _pairs(text: str) -> Mapping[int, int]:
    """Returns the index of each bracket in ``text`` that is closed, and of each quote at the beginning of a value, with
    the index of what closes it."""
    ends, open_ones, index, begins = dict[int, int](), list[int](), 0, True
    while index < len(text):
        character = text[index]
        if begins and character in QUOTES and (closed := re.compile(QUOTED[character]).match(text, index)):
            ends[index] = index = closed.end() - 1
        elif character in CLOSING:
            open_ones.append(index)
        elif character in CLOSING.values():
            depths = (
                depth for depth in reversed(range(len(open_ones))) if CLOSING[text[open_ones[depth]]] == character
            )
            if (depth := next(depths, None)) is not None:
                ends[open_ones[depth]] = index
                del open_ones[depth:]
        begins = character in ",:([{" or (begins and character.isspace())
        index += 1
    return ends


QUOTED = {quote: rf"(?s){quote}(?:\\.|[^\\{quote}])*{quote}" for quote in QUOTES}
"""A text in quotes: a backslash stands before a quote in it."""


def _parsed(text: str) -> Override | None:
    """Returns the override with the value ``text``; None when Hydra's grammar does not read it."""
    try:
        return _parser().parse_override(f"key={text}")
    except HydraException:
        return None


@functools.cache
def _parser() -> OverridesParser:
    return OverridesParser.create()


@functools.cache
def _types_of(key: str, tag: str) -> frozenset[Any]:
    """Returns the types of ``key``; of a group with kinds, those of the class of ``tag`` alone, if it is given."""
    hints: list[Any] = [RunConfig]
    for number, part in enumerate(key.split(".")):
        classes = (member for hint in hints for member in (_chosen(hint, tag) if number == 1 else members(hint)))
        hints = [inner for cls in classes for inner in _below(cls, part)]
    return frozenset(kind for hint in hints for kind in _kinds(hint))


def _chosen(hint: Any, tag: str) -> Iterator[Any]:
    """Yields the class of ``tag`` in ``hint``, if it has a table of kinds with it; else all members."""
    kinds = kinds_in(hint)
    yield from [kinds[tag]] if kinds and tag in kinds else members(hint)


def _below(hint: Any, part: str) -> Iterator[Any]:
    """Yields the types of what ``part`` names in a value of the type ``hint``."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield from [hints_of(hint)[part]] if part in hints_of(hint) else []
    elif origin is tuple:
        yield arguments[0]
    elif origin in (dict, Mapping):
        yield arguments[1]
    elif hint is Any:
        yield Any


def _kinds(hint: Any) -> Iterator[Any]:
    for member in members(hint):
        if typing.get_origin(member) is tuple:
            yield tuple
            yield from _kinds(typing.get_args(member)[0])
        elif typing.get_origin(member) is Literal:
            yield from map(type, typing.get_args(member))
        else:
            yield typing.get_origin(member) or member
