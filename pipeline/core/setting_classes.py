"""The classes of settings in type hints, and the one that holds a value.

Filter = Annotated[Length | Language, Field(discriminator="type")] ── classes_of ──> [Length, Language]
RunConfig, ("cleaning", "filters", 0, "length", "least") ── settings_at ──> Length; "length" is a tag
"""

import dataclasses
import types
import typing
from typing import Any

TAG = "type"
"""The field that identifies the member of a union."""


def classes_of(hint: Any) -> list[Any]:
    """Returns the classes in a type hint, through Annotated, unions and tuples."""
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return [hint]
    return [found for argument in typing.get_args(hint) for found in classes_of(argument)]


def settings_at(cls: Any, location: tuple[int | str, ...]) -> tuple[Any, set[int]]:
    """Returns the settings class with the last part of ``location``, and the indices of its parts that are tags."""
    tags: set[int] = set()
    here: list[Any] = [cls]
    for i, part in enumerate(location):
        holders = [c for c in here if dataclasses.is_dataclass(c) and part in {f.name for f in dataclasses.fields(c)}]
        tagged = [c for c in here if dataclasses.is_dataclass(c) and getattr(c, TAG, None) == part]
        if tagged and (len(here) > 1 or not holders):
            tags.add(i)
            here = tagged
        elif holders and i < len(location) - 1:
            here = classes_of(typing.get_type_hints(holders[0], include_extras=True)[str(part)])
    found = [c for c in here if dataclasses.is_dataclass(c)]
    return (found[0] if found else cls), tags
