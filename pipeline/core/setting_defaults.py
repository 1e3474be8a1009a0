"""Plain settings with the defaults of the fields that they lack, without decoding them.

{"steps": 400} of Training ── with_defaults ──> {"steps": 400, "seed": 0, "unique_rows": None, …}

So saved settings can be compared with those of another version, and those of another user are not trusted to decode.
"""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from headrace.pipeline.core.setting_classes import TAG
from headrace.pipeline.core.settings import default_of


def with_defaults(hint: Any, value: Any) -> Any:
    """Returns plain ``value``, a setting of the type ``hint``, with the defaults of all fields below it.

    What no class of ``hint`` knows stays as it is.
    """
    found = list(members(hint))
    if isinstance(value, Mapping):
        if cls := _class_of(found, value):
            hints = hints_of(cls)
            inner = {name: with_defaults(hints.get(name, Any), item) for name, item in value.items()}
            return inner | {name: default for name, default in _defaults(cls).items() if name not in inner}
        of_values = next((typing.get_args(one)[1] for one in found if typing.get_origin(one) in (dict, Mapping)), Any)
        return {name: with_defaults(of_values, item) for name, item in value.items()}
    if isinstance(value, list):
        of_entries = next((typing.get_args(one)[0] for one in found if typing.get_origin(one) is tuple), Any)
        return [with_defaults(of_entries, item) for item in value]
    return value


def members(hint: Any) -> Iterator[Any]:
    """Yields the types that ``hint`` joins, without annotations."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        yield from members(arguments[0])
    elif origin in (typing.Union, types.UnionType):
        for argument in arguments:
            yield from members(argument)
    else:
        yield hint


def _class_of(hints: list[Any], value: Mapping[str, Any]) -> type | None:
    """Returns the settings class among ``hints`` that has the ``type`` of ``value``, or is the only one."""
    classes = [one for one in hints if isinstance(one, type) and dataclasses.is_dataclass(one)]
    own = [one for one in classes if len(classes) == 1 or getattr(one, TAG, None) == value.get(TAG)]
    return own[0] if own else None


@functools.cache
def hints_of(cls: type) -> dict[str, Any]:
    """Returns the types of the fields of a settings class, by their names."""
    return typing.get_type_hints(cls, include_extras=True)


@functools.cache
def _defaults(cls: Any) -> dict[str, Any]:
    """Returns the defaults of the fields of ``cls`` that have one, as plain values."""
    found = {field.name: default_of(field) for field in dataclasses.fields(cls)}
    known = {name: default for name, default in found.items() if default is not dataclasses.MISSING}
    values: dict[str, Any] = json.loads(json.dumps(known, default=dataclasses.asdict))
    return values
