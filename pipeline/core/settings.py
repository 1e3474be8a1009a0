"""Typed settings: plain dicts (from YAML) are decoded strictly into frozen dataclasses, which can be hashed.

    dict ── decode ──> frozen dataclasses ── plain ──────> JSON values, for readers
                                          └─ canonical ──> JSON values ── digest ──> 12 hex digits

An unknown key is refused with the nearest known name, and every message carries the dotted path of the value. The type
of a field gives the bounds of its value. Numbers are finite, and texts are not empty unless the type allows it.

A hash covers only the values that differ from their default. So a new field with a default changes no hash. A class
whose code changed gives its values a ``revision`` above 0, which their hash covers: those of other classes stay.
"""

import dataclasses
import functools
import hashlib
import json
import os
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo
from typing_extensions import dataclass_transform

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import TAG
from headrace.pipeline.core.secrets import secret_paths
from headrace.pipeline.core.setting_classes import (
    TEXTS,
    KeyRemedy,
    config_error,
    default_of,
    nearest_field,
    problem,
    shown,
)

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, str_min_length=1)
LARGEST = 2**63 - 1
"""The largest integer that numpy, torch and file systems accept."""

Positive = Annotated[int, Field(ge=1, le=LARGEST)]
Natural = Annotated[int, Field(ge=0, le=LARGEST)]
Seed = Annotated[int, Field(ge=0, le=LARGEST)]
PositiveNumber = Annotated[float, Field(gt=0, le=1e9)]
"""A number above 0. Its upper bound is also the longest time in seconds that the system waits."""
NaturalNumber = Annotated[float, Field(ge=0, le=1e9)]
Fraction = Annotated[float, Field(ge=0, le=1)]
"""A fraction from 0 to 1, both included."""
Buckets = Annotated[int, Field(ge=1, le=65536)]
"""The number of tasks that records are distributed over by a hash."""
AnyText = Annotated[str, Field(min_length=0)]
"""A text that may be empty. The docstring of the field explains an empty value."""


def _listed(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError(TEXTS)
    return [value] if isinstance(value, str) else value


TextList = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""Texts in a list. A single text is read as a list of one: ``source.paths=crawl``."""
SomeTexts = Annotated[TextList, Field(min_length=1)]
"""``TextList`` of which there is at least one."""


LONGEST_NAME = 255
"""Bytes of the longest name of a file or folder on Linux."""


def anchored(path: str, info: ValidationInfo) -> str:
    if any(len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME for name in path.split("/")):
        raise ValueError(f"must have names of at most {LONGEST_NAME} bytes between slashes")
    folder = (info.context or {}).get("folder")
    return path if "://" in path else os.path.join(folder or "", os.path.expanduser(path))


FilePath = Annotated[str, AfterValidator(anchored)]
"""The path of a file or folder, or a URL. A relative path is joined to the ``folder`` that ``decode`` receives."""
FilePaths = Annotated[tuple[FilePath, ...], BeforeValidator(_listed)]
"""Paths in a list. A single one is read as a list of one."""
SomePaths = Annotated[FilePaths, Field(min_length=1)]
"""``FilePaths`` of which there is at least one."""
AnyPath = Annotated[AnyText, AfterValidator(anchored)]
"""A ``FilePath`` that may be empty, which means the folder itself."""


def _local(path: str) -> str:
    if "://" in path:
        raise ValueError("must be a folder of a mounted file system, not a URL")
    return path


Folder = Annotated[str, AfterValidator(_local)]
"""The path of a folder that files are written to: the system renames them there, which object stores cannot."""

REVISION = "revision"
"""The class variable, or property, of settings whose code makes other bytes than before: a number above 0."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def settings(cls: type[T]) -> type[T]:
    """Makes ``cls`` a settings class: a frozen, keyword-only dataclass that decodes strictly."""
    cls.__pydantic_config__ = STRICT  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def unhashed(default: Any) -> Any:
    """Declares a field that changes how a result is computed, but not the result. Addresses leave it out."""
    return dataclasses.field(default=default, metadata={"hashed": False})


def by_content(default: Any = dataclasses.MISSING) -> Any:
    """Declares a path of a file whose content decides a result. Addresses have the checksum of the file and leave the
    path out; the id of a run has the path, so that runs of different files are different runs."""
    return dataclasses.field(default=default, metadata={"hashed": False, "identifies": True})


def decode(
    cls: type[T],
    values: Mapping[str, Any],
    where: str = "config",
    folder: str | None = None,
    key_remedy: KeyRemedy = nearest_field,
    runs_code: bool = False,
) -> T:
    """Builds ``cls`` from plain ``values``. Relative paths start from ``folder``; from the current one without it.

    Without ``runs_code``, classes of a user's own that ``values`` name are refused: files in a shared root may be those
    of another user.

    Raises:
        ConfigError: for the first value that is not valid, with its dotted path, the value and what is valid; for a
            value with a secret, with the path only.
    """
    refuse_secrets(values)
    try:
        made: T = _adapter(typing.cast(type, cls)).validate_python(
            values, context={"folder": folder, "runs_code": runs_code}
        )
    except ValidationError as error:
        raise config_error(cls, error, where, key_remedy) from None
    _refuse_booleans(values, made, where)
    return made


def decode_within(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """Returns ``values`` as settings of the class ``cls``. An error names the place after ``where``."""
    try:
        return decode(cls, values)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error.where}", error.problem, error.remedy) from None


@functools.cache
def _adapter(cls: type) -> TypeAdapter[Any]:
    """Returns pydantic's validator of ``cls``. To build one for all settings takes 0.05 s of CPU time."""
    return TypeAdapter(cls)


def _refuse_booleans(given: Any, made: Any, where: str) -> None:
    """Refuses true and false in ``given`` that became numbers in ``made``: pydantic reads true as 1.

    Raises:
        ConfigError: with the dotted path.
    """
    if isinstance(given, bool) and not isinstance(made, bool) and isinstance(made, int | float):
        raise ConfigError(where, f"must be a number (got {shown(given)})", "correct the value")
    if isinstance(given, Mapping):
        inner = made if isinstance(made, Mapping) else vars(made) if dataclasses.is_dataclass(made) else {}
        for key in given.keys() & inner.keys():
            _refuse_booleans(given[key], inner[key], key if where == "config" else f"{where}.{key}")
    elif isinstance(given, (list, tuple)) and isinstance(made, tuple):
        for number, (item, entry) in enumerate(zip(given, made, strict=False)):
            _refuse_booleans(item, entry, f"{where}.{number}")


def value_of(kind: Any, text: str, where: str) -> Any:
    """Returns ``text``, a command-line argument named ``where``, as a value of ``kind``, one of the types above.

    Raises:
        ConfigError: naming ``where``, the text and what is valid.
    """
    try:
        return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False)).validate_python(text)
    except ValidationError as error:
        raise ConfigError(where, *problem(error.errors()[0])) from None


def refuse_secrets(values: Any, where: str = "") -> None:
    """Refuses plain ``values``, found at the dotted path ``where``, that hold a secret: others can read the root.

    Raises:
        ConfigError: with the path, without the value.
    """
    for path in secret_paths(values, where):
        remedy = "remove it and pass it in the environment, ~/.aws or the configuration of fsspec (FSSPEC_S3_KEY=…)"
        raise ConfigError(path, "holds a password, key or signature, which would be written to the root", remedy)


def plain(value: Any) -> Any:
    """Returns ``value`` as JSON values, without the fields marked ``unhashed``."""
    return _json_values(value, lambda field, item: True)


def canonical(value: Any) -> Any:
    """Returns ``value`` as JSON values that identify it: ``plain`` without the fields that have their default.

    A field is left out when its canonical value equals that of its default, at any depth. The tag ``type`` of a union
    stays, because another member may have the same default values. Settings with a ``revision`` above 0 are never left
    out, and have it as a further value.
    """
    return _json_values(value, _is_hashed, with_revisions=True)


def with_paths(value: Any) -> Any:
    """Returns ``canonical`` with the paths of files whose content decides (``by_content``)."""
    return _json_values(value, _identifies, with_revisions=True, fields_of=_identifying_fields)


def differing(mapping: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns the sorted names that only one mapping has, or whose values differ. None is a value like any other."""
    absent = object()
    names = sorted(mapping.keys() | other.keys())
    return [name for name in names if mapping.get(name, absent) != other.get(name, absent)]


def _json_values(
    value: Any,
    keeps: Callable[["dataclasses.Field[Any]", Any], bool],
    with_revisions: bool = False,
    fields_of: "Callable[[Any], list[dataclasses.Field[Any]]] | None" = None,
) -> Any:
    """Returns ``value`` as JSON values. For a dataclass, these are the fields of ``fields_of`` that ``keeps`` accepts,
    by default of the hashed ones, and its revision if it has one and ``with_revisions``."""

    def values_of(item: Any) -> Any:
        return _json_values(item, keeps, with_revisions, fields_of)

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(field, getattr(value, field.name)) for field in (fields_of or hashed_fields)(type(value))]
        values = {field.name: values_of(item) for field, item in items if keeps(field, item)}
        revision: int = getattr(value, REVISION, 0) if with_revisions else 0
        return values | ({REVISION: revision} if revision else {})
    if isinstance(value, Mapping):
        return {str(key): values_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [values_of(item) for item in value]
    return value


def hashed_fields(cls: Any) -> "list[dataclasses.Field[Any]]":
    """Returns the fields of a dataclass that its hash covers."""
    return [field for field in dataclasses.fields(cls) if field.metadata.get("hashed", True)]


def _identifying_fields(cls: Any) -> "list[dataclasses.Field[Any]]":
    """Returns the hashed fields, and those of ``by_content``."""
    named = [field for field in dataclasses.fields(cls) if field.metadata.get("identifies")]
    return hashed_fields(cls) + named


def _is_hashed(field: "dataclasses.Field[Any]", value: Any) -> bool:
    """Whether ``value`` is the tag of a union, or differs from the default of ``field`` as it was before revisions."""
    default = default_of(field)
    if field.name == TAG or default is dataclasses.MISSING:
        return True
    return bool(canonical(value) != _json_values(default, _is_hashed))


def _identifies(field: "dataclasses.Field[Any]", value: Any) -> bool:
    """Whether ``value``, or a path in it, is other than in the default of ``field``."""
    return _is_hashed(field, value) or bool(with_paths(value) != with_paths(default_of(field)))


def digest(value: Any) -> str:
    """Returns the first 12 hex digits of SHA-256 over the canonical JSON of ``value``."""
    return digest_of_json(canonical(value))


def digest_of_json(value: Any) -> str:
    """Returns ``digest`` of JSON values, which are canonical. They are not copied."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
