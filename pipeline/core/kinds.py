"""The kinds of things that settings choose by their tag ``type``. The class of a kind is imported when it is chosen.

    SOURCES = Kinds("source", Source, {"jsonl": "headrace.data_prep.sources.jsonl:Jsonl", …})      a table of its room
    AnySource = Annotated[Source, SOURCES]                                                         the type of a field

    type: jsonl          a line of the table
    type: zim            an installed package with the entry point  [project.entry-points."headrace.kinds"]
                                                                    "source.zim" = "my_package.zim:Zim"

pydantic decodes a value by the class of its tag inside a tagged union of this one class. So the tag stays in the path
of an error, as in a union of all classes.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import CoreSchema, PydanticKnownError, SchemaValidator, core_schema

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.extras import entry_points

TAG = "type"
"""The field that identifies the class of settings."""
GROUP = "headrace.kinds"
"""The group of the entry points of installed packages: ``<kind>.<tag>`` → ``module:Class``."""


class Kinds:
    """The classes of one kind of thing, by their tags."""

    def __init__(self, name: str, base: Any, ours: Mapping[str, str]) -> None:
        """Makes the table of the kind ``name``.

        Args:
            name: the kind in names of entry points: ``source``.
            base: the class or protocol of all of them.
            ours: tag → ``module:Class``.
        """
        self.name, self.base, self._ours = name, base, dict(ours)

    @functools.cached_property
    def places(self) -> dict[str, str]:
        """Tag → ``module:Class``: ours in the order of the table, then those of installed packages.

        Raises:
            ConfigError: when two have one tag.
        """
        places = dict(self._ours)
        for entry in entry_points(GROUP):
            kind, _, tag = entry.name.partition(".")
            if kind == self.name and places.setdefault(tag, entry.value) != entry.value:
                problem = f"{entry.value} and {places[tag]} are both installed as the {kind} {tag!r}"
                raise ConfigError(GROUP, problem, "uninstall one of the packages, or rename its entry point")
        return places

    @property
    def tags(self) -> list[str]:
        """The tags of all classes."""
        return list(self.places)

    @property
    def classes(self) -> list[Any]:
        """All classes, which are imported."""
        return [self[tag] for tag in self.places]

    def __getitem__(self, tag: str) -> Any:
        """Returns the class of ``tag``, and imports it."""
        return imported(self.places[tag])

    def __contains__(self, tag: object) -> bool:
        return tag in self.places

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._decoded)

    def _decoded(self, value: Any, info: core_schema.ValidationInfo[Any]) -> Any:
        """Returns ``value``, settings of this kind or a mapping with a tag, as settings.

        Raises:
            PydanticKnownError, ValidationError: those of a tagged union of all classes.
        """
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            tag = getattr(value, TAG, None)
        elif not isinstance(value, Mapping):
            raise PydanticKnownError("model_attributes_type")
        elif TAG not in value:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": repr(TAG)})
        else:
            tag = value[TAG]
        if not isinstance(tag, str) or tag not in self.places:
            expected = ", ".join(map(repr, self.places))
            context = {"discriminator": repr(TAG), "tag": str(tag), "expected_tags": expected}
            raise PydanticKnownError("union_tag_invalid", context)
        return _validator(tag, self[tag]).validate_python(value, context=info.context)


def kinds_in(hint: Any) -> Kinds | None:
    """Returns the table that the type ``hint`` is annotated with, if there is one."""
    return next((note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Kinds)), None)


def imported(place: str) -> Any:
    """Returns the class or function at ``place``, which is ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


@functools.cache
def _validator(tag: str, cls: type) -> SchemaValidator:
    """Returns pydantic's validator of a tagged union of ``cls`` alone."""
    schema = TypeAdapter(cls).core_schema
    return SchemaValidator(core_schema.tagged_union_schema({tag: schema}, discriminator=TAG))
