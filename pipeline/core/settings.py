"""Typed settings: plain dicts (from YAML) are decoded strictly into frozen dataclasses, which can be hashed.

    dict ── decode ──> frozen dataclasses ── plain ──────> JSON values, for readers
                                          └─ canonical ──> JSON values ── digest ──> 12 hex digits

An unknown key is refused with the nearest known name, and every message carries the dotted path of the value. The type
of a field gives the bounds of its value. Numbers are finite, and texts are not empty unless the type allows it.

A hash covers only the values that differ from their default. So a new field with a default changes no hash.
"""

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import dataclass_transform

from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.secrets import secret_places

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, str_min_length=1)
LARGEST = 2**63 - 1
"""The largest whole number that numpy, torch and file systems take."""

Positive = Annotated[int, Field(ge=1, le=LARGEST)]
Natural = Annotated[int, Field(ge=0, le=LARGEST)]
Seed = Annotated[int, Field(ge=0, le=LARGEST)]
PositiveNumber = Annotated[float, Field(gt=0, le=1e9)]
"""Also a time in seconds: no clock waits longer."""
NaturalNumber = Annotated[float, Field(ge=0, le=1e9)]
Fraction = Annotated[float, Field(ge=0, le=1)]
"""A share, both ends included."""
Buckets = Annotated[int, Field(ge=1, le=65536)]
"""A number of tasks that records are dealt to by a hash."""
AnyText = Annotated[str, Field(min_length=0)]
"""A text that may be empty; the field says what that means."""

TAG = "type"
"""The field that tells the members of a union apart."""

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
}
"""What is said of a value beyond its bounds, by pydantic's name of the error."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def settings(cls: type[T]) -> type[T]:
    """Make ``cls`` a settings class: a frozen, keyword-only dataclass that decodes strictly."""
    cls.__pydantic_config__ = STRICT  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def unhashed(default: Any) -> Any:
    """A field that says how a result is computed, not which: it stays out of the artifact's address."""
    return dataclasses.field(default=default, metadata={"hashed": False})


def decode(cls: type[T], values: Mapping[str, Any], where: str = "config") -> T:
    """Build ``cls`` from plain ``values``.

    Raises:
        ConfigError: naming the dotted path of the first value that does not fit, the value, and what would; or that
            of one that holds a secret, without the value.
    """
    refuse_secrets(values)
    try:
        return TypeAdapter(cls).validate_python(values)
    except ValidationError as error:
        raise _config_error(cls, error, where) from None


def value_of(kind: Any, word: str, where: str) -> Any:
    """``word``, which the command line gave as ``where``, as a value of ``kind``, one of the types above.

    Raises:
        ConfigError: naming ``where``, the word, and what would fit.
    """
    try:
        return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False)).validate_python(word)
    except ValidationError as error:
        raise ConfigError(where, *_fault(error.errors()[0])) from None


def refuse_secrets(values: Any, where: str = "") -> None:
    """Refuse plain ``values``, found at the dotted path ``where``, that would put a secret where others read it.

    Raises:
        ConfigError: naming the path, not the value.
    """
    for place in secret_places(values, where):
        remedy = "leave it out and give it by the environment, ~/.aws or fsspec's configuration (FSSPEC_S3_KEY=…)"
        raise ConfigError(place, "holds a password, key or signature, which would be written to the root", remedy)


def plain(value: Any) -> Any:
    """Returns ``value`` as JSON values, without the fields marked ``unhashed``."""
    return _json_values(value, lambda field, item: True)


def canonical(value: Any) -> Any:
    """Returns ``value`` as JSON values that identify it: ``plain`` without the fields that have their default.

    A field is left out when its canonical value equals that of its default, at any depth. The tag ``type`` of a union
    stays, because another member may have the same default values.
    """
    return _json_values(value, lambda field, item: field.name == TAG or not _is_default(field, item))


def _json_values(value: Any, keeps: Callable[["dataclasses.Field[Any]", Any], bool]) -> Any:
    """Returns ``value`` as JSON values. Of a dataclass, the hashed fields that ``keeps`` accepts with their value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(field, getattr(value, field.name)) for field in hashed_fields(type(value))]
        return {field.name: _json_values(item, keeps) for field, item in items if keeps(field, item)}
    if isinstance(value, Mapping):
        return {str(key): _json_values(item, keeps) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_values(item, keeps) for item in value]
    return value


def hashed_fields(cls: Any) -> "list[dataclasses.Field[Any]]":
    """Returns the fields of a dataclass that its hash covers."""
    return [field for field in dataclasses.fields(cls) if field.metadata.get("hashed", True)]


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """Returns the default of a field; ``dataclasses.MISSING`` when it has none."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_default(field: "dataclasses.Field[Any]", value: Any) -> bool:
    default = default_of(field)
    return default is not dataclasses.MISSING and bool(canonical(value) == canonical(default))


def digest(value: Any) -> str:
    """Returns the first 12 hex digits of SHA-256 over the canonical JSON of ``value``."""
    text = json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _config_error(cls: type, error: ValidationError, where: str) -> ConfigError:
    errors = error.errors()  # what is missing is often there, under a wrong name
    first = next((one for one in errors if one["type"] == "unexpected_keyword_argument"), errors[0])
    location = first["loc"]
    parent, tags = _settings_at(cls, location)
    path = ".".join(str(part) for i, part in enumerate(location) if i not in tags)
    if first["type"] == "unexpected_keyword_argument":
        known = [f.name for f in dataclasses.fields(parent)]
        return ConfigError(path, f"unknown key {location[-1]!r}", suggestion(str(location[-1]), known))
    if first["type"] == "missing":
        return ConfigError(path, "is missing", "give it a value")
    if first["type"] == "union_tag_not_found":
        return ConfigError(f"{path}.{first['ctx']['discriminator'].strip(chr(39))}", "is missing", "give it a value")
    if first["type"] == "union_tag_invalid":
        known = [tag.strip(" '") for tag in first["ctx"]["expected_tags"].split(",")]
        return ConfigError(path, f"unknown type {first['ctx']['tag']!r}", suggestion(str(first["ctx"]["tag"]), known))
    return ConfigError(path or where, *_fault(first))


def _fault(details: ErrorDetails) -> tuple[str, str]:
    """What is wrong with a value, and what to do."""
    limit = LIMITS.get(details["type"])
    bounds = {
        name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in details.get("ctx", {}).items()
    }
    reason = limit.format(**bounds) if limit else details["msg"].removeprefix("Value error, ")
    return f"{reason} (got {details['input']!r})", "correct the value"


def _settings_at(cls: Any, location: tuple[int | str, ...]) -> tuple[Any, set[int]]:
    """The settings class that holds the last part of ``location``, and which parts of it are union tags."""
    tags: set[int] = set()
    here: list[Any] = [cls]
    for i, part in enumerate(location):
        holders = [c for c in here if dataclasses.is_dataclass(c) and part in {f.name for f in dataclasses.fields(c)}]
        tagged = [c for c in here if dataclasses.is_dataclass(c) and getattr(c, TAG, None) == part]
        if tagged and (len(here) > 1 or not holders):
            tags.add(i)
            here = tagged
        elif holders and i < len(location) - 1:
            here = _classes(typing.get_type_hints(holders[0], include_extras=True)[str(part)])
    found = [c for c in here if dataclasses.is_dataclass(c)]
    return (found[0] if found else cls), tags


def _classes(hint: Any) -> list[Any]:
    """The classes a type hint may hold, through Annotated, unions and tuples."""
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return [hint]
    return [found for argument in typing.get_args(hint) for found in _classes(argument)]
