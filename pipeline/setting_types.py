"""The types of the value that a setting may have, by its dotted name.

source.paths                          ──> {str, tuple}      of every type of source that has the field
cleaning.filters.2.rules.0.marks      ──> {str, tuple}      also with names instead of the numbers of entries
evaluation.benchmarks.quiz.limit      ──> {int, NoneType}
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.setting_defaults import hints_of, members

TEXT = frozenset({str, tuple, types.NoneType})
"""The types of a setting that takes texts alone."""


@functools.cache
def types_of(key: str) -> frozenset[Any]:
    """Returns the types of the values of the setting ``key``: plain types, ``tuple`` for a list, or settings classes.

    Nothing for an unknown key.
    """
    hints: list[Any] = [RunConfig]
    for part in key.split("."):
        hints = [inner for hint in hints for one in members(hint) for inner in _below(one, part)]
    return frozenset(kind for hint in hints for kind in _kinds(hint))


def takes_texts(key: str) -> bool:
    """Whether a value of the setting ``key`` is a text, or a list of texts, and nothing else but null."""
    return str in types_of(key) and types_of(key) <= TEXT


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
    for one in members(hint):
        if typing.get_origin(one) is tuple:
            yield tuple
            yield from _kinds(typing.get_args(one)[0])
        elif typing.get_origin(one) is Literal:
            yield from map(type, typing.get_args(one))
        else:
            yield typing.get_origin(one) or one
