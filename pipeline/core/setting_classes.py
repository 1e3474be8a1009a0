"""The classes of settings in type hints, the one that holds a value, the defaults of its fields, and errors about them.

Filter = Annotated[Length | Language, Field(discriminator="type")] ── classes_of ──> [Length, Language]
RunConfig, ("cleaning", "filters", 0, "length", "least") ── settings_at ──> Length; "length" is a tag
{"steps": 400} of Training ── with_defaults ──> {"steps": 400, "seed": 0, "unique_rows": None, …}

Defaults are filled in without decoding: so saved settings can be compared with those of another version, and those of
another user are not trusted to decode.

pydantic's errors become messages about settings:

("optimizer", "adamw", "learning_rate"), greater_than 0, -1
    ──> optimizer.learning_rate: must be above 0 (got -1); correct the value
"""

import dataclasses
import functools
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.kinds import TAG, kinds_in


def classes_of(hint: Any) -> list[Any]:
    """Returns the classes in a type hint, through Annotated, unions and tuples; those of a table are imported."""
    if kinds := kinds_in(hint):
        return kinds.classes
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return [hint]
    return [cls for argument in typing.get_args(hint) for cls in classes_of(argument)]


def settings_at(cls: Any, location: tuple[int | str, ...]) -> tuple[Any, set[int]]:
    """Returns the settings class with the last part of ``location``, and the indices of its parts that are tags."""
    tags: set[int] = set()
    candidates: list[Any] = [cls]
    is_entry = False  # a number in a list or a name in a mapping
    for i, part in enumerate(location):
        if is_entry:
            is_entry = False
            continue
        holders = [
            c for c in candidates if dataclasses.is_dataclass(c) and part in {f.name for f in dataclasses.fields(c)}
        ]
        tagged = [c for c in candidates if dataclasses.is_dataclass(c) and getattr(c, TAG, None) == part]
        if tagged and (len(candidates) > 1 or not holders):
            tags.add(i)
            candidates = tagged
        elif holders and i < len(location) - 1:
            hint = hints_of(typing.cast(type, holders[0]))[str(part)]
            candidates = classes_of(hint)
            is_entry = any(typing.get_origin(member) in (tuple, dict, Mapping) for member in members(hint))
    settings = [c for c in candidates if dataclasses.is_dataclass(c)]
    return (settings[0] if settings else cls), tags


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """Returns the default of a field; ``dataclasses.MISSING`` when it has none."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def with_defaults(hint: Any, value: Any) -> Any:
    """Returns plain ``value``, a setting of the type ``hint``, with the defaults of all fields below it.

    What no class of ``hint`` knows stays as it is.
    """
    kinds = list(members(hint))
    if isinstance(value, Mapping):
        if cls := _class_of(kinds, value):
            hints = hints_of(cls)
            inner = {name: with_defaults(hints.get(name, Any), item) for name, item in value.items()}
            return inner | {name: default for name, default in _defaults(cls).items() if name not in inner}
        of_values = next(
            (typing.get_args(kind)[1] for kind in kinds if typing.get_origin(kind) in (dict, Mapping)), Any
        )
        return {name: with_defaults(of_values, item) for name, item in value.items()}
    if isinstance(value, list):
        of_entries = next((typing.get_args(kind)[0] for kind in kinds if typing.get_origin(kind) is tuple), Any)
        return [with_defaults(of_entries, item) for item in value]
    return value


def members(hint: Any) -> Iterator[Any]:
    """Yields the types that ``hint`` joins, without annotations."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if kinds := kinds_in(hint):
        yield from kinds.classes
    elif origin is Annotated:
        yield from members(arguments[0])
    elif origin in (typing.Union, types.UnionType):
        for argument in arguments:
            yield from members(argument)
    else:
        yield hint


def _class_of(hints: list[Any], value: Mapping[str, Any]) -> type | None:
    """Returns the settings class among ``hints`` that has the ``type`` of ``value``, or is the only one."""
    classes = [kind for kind in hints if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    own = [kind for kind in classes if len(classes) == 1 or getattr(kind, TAG, None) == value.get(TAG)]
    return own[0] if own else None


@functools.cache
def hints_of(cls: type) -> dict[str, Any]:
    """Returns the types of the fields of a settings class, by their names."""
    return typing.get_type_hints(cls, include_extras=True)


@functools.cache
def _defaults(cls: Any) -> dict[str, Any]:
    """Returns the defaults of the fields of ``cls`` that have one, as plain values."""
    defaults = {field.name: default_of(field) for field in dataclasses.fields(cls)}
    known = {name: default for name, default in defaults.items() if default is not dataclasses.MISSING}
    values: dict[str, Any] = json.loads(json.dumps(known, default=dataclasses.asdict))
    return values


LIMITS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of at most 64 bits",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "string_type": "must be a text",
    "string_pattern_mismatch": "must match {pattern}",
    "literal_error": "must be {expected}",
    "finite_number": "must be a finite number",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping {{name: value}}",
    "mapping_type": "must be a mapping {{name: value}}",
    "dataclass_type": "must be settings {{name: value, …}}",
    "model_attributes_type": "must be settings {{type: name, …}}",
}
"""pydantic's name of an error → the message about a value out of bounds."""

TEXTS = "must be a text, or a list of texts"
"""Said of a number in a file, whose characters are not known any more."""

KeyRemedy = Callable[[str, Sequence[str]], str]
"""Returns the remedy for an unknown key: its dotted path and the names of the fields in its place are given."""


def nearest_field(path: str, fields: Sequence[str]) -> str:
    """Returns the nearest of ``fields`` as the remedy for the unknown key ``path``."""
    return suggestion(path.rpartition(".")[2], fields, path)


def config_error(cls: type, error: ValidationError, where: str, key_remedy: KeyRemedy) -> ConfigError:
    """Returns the first ``error`` of pydantic about settings of ``cls``; an unknown key comes before all others."""
    errors = error.errors()  # a missing value is often present, but with a misspelled name
    first = next((detail for detail in errors if detail["type"] == "unexpected_keyword_argument"), errors[0])
    location = first["loc"]
    parent, tags = settings_at(cls, location)
    path = ".".join(str(part) for i, part in enumerate(location) if i not in tags)
    if first["type"] == "unexpected_keyword_argument":
        known = [f.name for f in dataclasses.fields(parent)]
        return ConfigError(path, f"unknown key {location[-1]!r}", key_remedy(path, known))
    if first["type"] == "missing":
        return ConfigError(path, "is missing", "give it a value")
    if first["type"] == "union_tag_not_found":
        return ConfigError(f"{path}.{first['ctx']['discriminator'].strip(chr(39))}", "is missing", "give it a value")
    if first["type"] == "union_tag_invalid":
        known = [tag.strip(" '") for tag in first["ctx"]["expected_tags"].split(",")]
        return _unknown_type(path, str(first["ctx"]["tag"]), known)
    if first["type"] == "model_attributes_type" and isinstance(given := first["input"], str) and given:
        types = [getattr(kind, TAG, None) for kind in classes_of(hints_of(parent).get(str(location[-1]), Any))]
        if known := [str(name) for name in types if name is not None]:
            return _unknown_type(path, given, known)
    return ConfigError(path or where, *problem(first))


def _unknown_type(path: str, given: str, known: Sequence[str]) -> ConfigError:
    once = f"{path.partition('.')[0]}={given}"
    return ConfigError(path, f"unknown type {given!r}", suggestion(given, known, once))


def problem(details: ErrorDetails) -> tuple[str, str]:
    """Returns what is wrong with a value, and what to do."""
    limit = LIMITS.get(details["type"])
    bounds = {
        name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in details.get("ctx", {}).items()
    }
    reason = limit.format(**bounds) if limit else details["msg"].removeprefix("Value error, ")
    is_number = isinstance(details["input"], int | float) and (details["type"] == "string_type" or reason == TEXTS)
    remedy = f"put it in quotes: \"'{shown(details['input'])}'\"" if is_number else "correct the value"
    unit = str(details["loc"][-1] if details["loc"] else "").rpartition("_")[2]
    if unit in DIVISORS and (size := in_bytes(str(details["input"]))):
        remedy = f"write it without a unit: {size / DIVISORS[unit]:.12g}"
    if is_number and isinstance(details["input"], bool):
        remedy = "put it in quotes: in YAML, no and off are false, yes and on are true"
    return f"{reason} (got {shown(details['input'])})", remedy


DIVISORS = {"bytes": 1, "gb": 1e9}
"""Ends of the names of settings that are sizes → the bytes of their unit."""


def in_bytes(text: str) -> float:
    """Returns a size with a unit (``200KB``, ``1.5 GiB``) in bytes; 0 for any other text."""
    size = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgtp]?)(i?)b?", text.strip().lower())
    return float(size[1]) * (1024 if size[3] else 1000) ** " kmgtp".index(size[2] or " ") if size else 0.0


def shown(value: Any) -> str:
    """Returns ``value`` as in YAML when it is null, true or false, else as Python prints it."""
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
