"""The kinds of things that settings choose by their tag ``type``. The class of a kind is imported when it is chosen.

    SOURCES = Kinds("source", Source, {"jsonl": "headrace.data_prep.sources.jsonl:Jsonl", …})      a table of its room
    AnySource = Annotated[Source, SOURCES]                                                         the type of a field

    type: jsonl          a line of the table
    type: zim            an installed package with the entry point  [project.entry-points."headrace.kinds"]
                                                                    "source.zim" = "my_package.zim:Zim"
    type: my_zim:Zim     a class of the user's own (user_classes.py)

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
from headrace.pipeline.core.user_classes import user_class

TAG = "type"
"""The field that identifies the class of settings."""
GROUP = "headrace.kinds"
"""The group of the entry points of installed packages: ``<kind>.<tag>`` → ``module:Class``."""


class Kinds:
    """The classes of one kind of thing, by their tags."""

    def __init__(
        self, name: str, base: Any, ours: Mapping[str, str], adapter: str = "", is_closed: bool = False
    ) -> None:
        """Makes the table of the kind ``name``.

        Args:
            name: the kind in names of entry points: ``source``.
            base: the class or protocol of all of them.
            ours: tag → ``module:Class``.
            adapter: the tag of the class that holds the ``path`` and ``settings`` of a class of the user's own, and
                loads it when it is used; empty: it is loaded when it is decoded.
            is_closed: whether nothing from outside joins them.
        """
        self.name, self.base, self._ours = name, base, dict(ours)
        self._adapter, self._is_closed = adapter, is_closed
        self._of_users: dict[str, Any] = {}

    @functools.cached_property
    def places(self) -> dict[str, str]:
        """Tag → ``module:Class``: ours in the order of the table, then those of installed packages.

        Raises:
            ConfigError: when two have one tag.
        """
        places = dict(self._ours)
        for entry in () if self._is_closed else entry_points(GROUP):
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
        """All classes, which are imported, and the user's own that were decoded."""
        return [*(self[tag] for tag in self.places), *self._of_users.values()]

    def only(self, *tags: str) -> "Kinds":
        """Returns the table with these tags alone, for a setting that takes no other kind."""
        return Kinds(self.name, self.base, {tag: self._ours[tag] for tag in tags}, is_closed=True)

    def __getitem__(self, tag: str) -> Any:
        """Returns the class of ``tag``, and imports it.

        Raises:
            ConfigError: when that of another package cannot be imported.
        """
        if tag in self._ours:
            return imported(self._ours[tag])
        try:
            return imported(self.places[tag])
        except (ImportError, AttributeError) as error:
            remedy = "install a version of the package that fits this one of headrace, or uninstall it"
            raise ConfigError(GROUP, f"{self.places[tag]}, the {self.name} {tag!r}: {error}", remedy) from None

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
        if isinstance(value, Mapping) and isinstance(tag, str) and ":" in tag and not self._is_closed:
            return self._of_user(tag, value, info)
        if not isinstance(tag, str) or tag not in self.places:
            expected = ", ".join(map(repr, self.places))
            shown = str(tag).encode("utf-8", "backslashreplace").decode()
            context = {"discriminator": repr(TAG), "tag": shown, "expected_tags": expected}
            raise PydanticKnownError("union_tag_invalid", context)
        return _validator(tag, self[tag]).validate_python(value, context=info.context)

    def _of_user(self, place: str, value: Mapping[str, Any], info: core_schema.ValidationInfo[Any]) -> Any:
        """Returns ``value`` as settings of the user's own class at ``place``.

        Raises:
            ConfigError: when there is no such class of this kind, or the run is another user's.
        """
        context = info.context or {}
        rest = {name: item for name, item in value.items() if name != TAG}
        if self._adapter:
            values = {TAG: self._adapter, "path": place, "settings": rest}
            return _validator(self._adapter, self[self._adapter]).validate_python(values, context=context)
        if not context.get("runs_code"):
            problem = "is a class whose code is not run here: the settings may be those of another user"
            raise ConfigError(place, problem, "start the run in a root of your own")
        cls = user_class(f"{self.name}.{TAG}", place, context.get("folder"), self.name, self._is_kind)
        field = next(field for field in dataclasses.fields(cls) if field.name == TAG)
        setattr(cls, TAG, place)
        self._of_users[place] = cls
        tag = place if field.default is dataclasses.MISSING else field.default
        made = _validator(place, cls).validate_python({**rest, TAG: tag}, context=context)
        object.__setattr__(made, TAG, place)
        return made

    def _is_kind(self, cls: type) -> bool:
        """Whether ``cls`` is a settings class of this kind. A protocol has too many parts to be looked for."""
        is_settings = dataclasses.is_dataclass(cls) and TAG in {field.name for field in dataclasses.fields(cls)}
        return is_settings and (getattr(self.base, "_is_protocol", False) or issubclass(cls, self.base))


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
    return SchemaValidator(core_schema.tagged_union_schema({tag: schema}, discriminator=lambda _: tag))
