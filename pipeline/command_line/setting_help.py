"""Explains settings: a group, an option of a group, one setting, an entry of a list such as one filter.

The types, bounds and defaults are those of the settings classes, the meanings are the docstrings under their fields.
A default is the value of the group's default option; without one, that of the class. Types in words:

    Annotated[int, Field(ge=1, le=LARGEST)]    whole number, at least 1
    Annotated[float, Field(ge=0, le=1)]        number from 0 to 1
    Literal["auto", 0, 1]                      auto, 0 or 1
    tuple[str, ...]                            list; each entry is a text
"""

import contextlib
import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from headrace.pipeline.command_line.help_text import OF_EXPERIMENTS, field_meanings, meaning, paragraph, rows
from headrace.pipeline.config import RunConfig
from headrace.pipeline.configuration.option_values import (
    UNKNOWN,
    default_option,
    example_command,
    option_values,
    preset_values,
    shown_values,
)
from headrace.pipeline.configuration.options import (
    EXPERIMENT,
    SIZE,
    about,
    about_table,
    groups,
    option_file,
    tables,
    unknown_option,
)
from headrace.pipeline.configuration.setting_names import key_remedy, neighbours, outermost
from headrace.pipeline.configuration.yaml_values import yaml_text
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import TAG
from headrace.pipeline.core.secrets import redacted, without_secrets
from headrace.pipeline.core.setting_classes import classes_of, default_of
from headrace.pipeline.core.settings import LARGEST, anchored

REQUIRED = "required"


@dataclasses.dataclass(frozen=True)
class Setting:
    """A field of a settings class."""

    name: str
    kind: str
    """Its type and bounds in words."""
    default: Any
    """The default of the class; ``dataclasses.MISSING`` when it has none."""
    text: str
    """Its meaning: the docstring under it."""
    holds: Sequence[type]
    """The settings classes that it may hold."""
    is_group: bool
    """Whether it holds settings itself, and no list or mapping of them."""

    def value_text(self, values: Mapping[str, Any]) -> str:
        """Returns the value in ``values``, else the default, in the form of YAML."""
        value = values.get(self.name, self.default)
        if value is dataclasses.MISSING or value == UNKNOWN:
            return REQUIRED
        return _yaml(value)


def _yaml(value: Any) -> str:
    """Returns ``value`` in one line of YAML. Settings with a type are shown as their type, in lists."""
    if dataclasses.is_dataclass(value):
        return str(getattr(value, TAG, None) or "see below")
    if isinstance(value, (list, tuple)):
        items = (str(item[TAG]) if isinstance(item, dict) and TAG in item else _yaml(item) for item in value)
        return f"[{', '.join(items)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_yaml(item)}' for key, item in value.items())}}}"
    return yaml_text(value).removesuffix("...\n").strip()


@functools.cache
def settings_of(cls: type) -> dict[str, Setting]:
    """Returns the settings of a class by name, without its ``type``."""
    hints, texts = typing.get_type_hints(cls, include_extras=True), dict[str, str]()
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            texts |= field_meanings(Path(inspect.getfile(base)), base.__name__)
    settings = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        hint = hints[field.name]
        inner: list[Any] = [inner_class for inner_class in classes_of(hint) if dataclasses.is_dataclass(inner_class)]
        is_group = bool(inner) and typing.get_origin(hint) not in (tuple, dict, Mapping)
        text = meaning(texts.get(field.name, ""))
        settings[field.name] = Setting(field.name, described(hint), default_of(field), text, inner, is_group)
    return {name: setting for name, setting in settings.items() if name != TAG}


def all_paths(classes: Sequence[type] = (RunConfig,), prefix: str = "") -> Iterator[str]:
    """Yields the dotted path of every setting below ``classes``, and of every type that one may have.

    An entry of a list has its type for a name.
    """
    for cls in classes:
        for name, setting in settings_of(cls).items():
            yield f"{prefix}{name}"
            if setting.is_group or len(setting.holds) == 1:
                yield from all_paths(setting.holds, f"{prefix}{name}.")
                if len(setting.holds) > 1:
                    yield from (f"{prefix}{name}.{getattr(option, TAG)}" for option in setting.holds)
            else:
                for inner in setting.holds:
                    path = f"{prefix}{name}.{getattr(inner, TAG)}"
                    yield path
                    yield from all_paths([inner], f"{path}.")


def explanation(topic: str) -> str:
    """Returns the help of the group, setting, type or ``GROUP=OPTION`` that ``topic`` names.

    Raises:
        ConfigError: when nothing has this name.
    """
    path, equals, option = topic.partition("=")
    options = groups().get(path, [])
    if equals and options:
        if option in options:
            return of_option(path, option)
        if sizes := tables(path).get(option):
            names, shared = [f"{option}_{size}" for size in sizes], about_table(path, option)
            lines = [paragraph(f"{topic} {path}.{SIZE}=SIZE: {redacted(shared)}"), ""]
            texts = ((name, redacted(about(path, name).removesuffix(shared).rstrip())) for name in names)
            return "\n".join([*lines, "Sizes:", rows(texts)])
        raise unknown_option(path, option)
    if path == EXPERIMENT:
        return "\n".join([f"{EXPERIMENT}: {OF_EXPERIMENTS}", "", *options_text(EXPERIMENT)])
    above, _, last = path.rpartition(".")
    if last == TAG and above in set(all_paths()) and (types := _types(_at(above)[1])):
        short = f"{above}=OPTION chooses an option" if above in groups() else f"{above}=TYPE in short"
        return "\n".join([paragraph(f"{path}: the type of these settings ({short}):"), rows(types)])
    return of_path(_known_path(path))


def _known_path(name: str) -> str:
    """Returns the dotted path of the setting ``name``, which may be its last part or parts alone.

    Raises:
        ConfigError: when there is none, or several.
    """
    known = set(all_paths())
    if name in known:
        return name
    ending = outermost(name, known)
    if len(ending) == 1:
        return ending[0]
    remedy = key_remedy(name, known, neighbours(name, {*known, *groups()}))
    raise ConfigError("help", f"no command, group or setting is named {name!r}", remedy)


def of_option(group: str, option: str) -> str:
    """Returns the help of an option of a group: its values, or its overrides when it is an experiment.

    Raises:
        ConfigError: when its file is broken.
    """
    file, values = option_file(group, option), shown_values(group, option)
    lines = [
        paragraph(f"{group}={option}: {redacted(about(group, option)) or 'no description'}"),
        "",
        f"File: {file}",
        "",
    ]
    if example := example_command(group, option):
        lines += ["Example:", rows([(example, "")]), ""]
    if group == EXPERIMENT:
        text = yaml_text(without_secrets(preset_values(file, option)), sort_keys=False).strip()
        return "\n".join([*lines, "Its overrides:", text])
    classes = _matching(settings_of(RunConfig)[group].holds, values)
    lines += _settings(group, classes, dict.fromkeys(classes, values), "value")
    shown = f"headrace config {group}={option} prints all of its settings; headrace help KEY, or a name in a list, one."
    return "\n".join([*lines, paragraph(shown)])


def of_path(path: str) -> str:
    """Returns the help of the setting or the type of settings at the dotted ``path``."""
    setting, classes, values = _at(path)
    is_whole = setting is None or setting.is_group
    text = _about(classes[0]) if setting is None else setting.text
    lines = [paragraph(f"{path}: {text}"), ""]
    if setting is not None and setting.is_group:
        lines += [paragraph(_about(classes[0])), ""] if len(classes) == 1 else []
        lines += [*options_text(path), ""] if path in groups() else []
    elif setting is not None:
        shown = [("type", setting.kind), ("default", setting.value_text(values))]
        lines += [rows([*shown, *_values_of_options(path)]), ""]
    if is_whole:
        by_class = {cls: _values_of(path, cls) if path in groups() else {} for cls in classes}
        holder = path.rpartition(".")[0]
        is_of_group = setting is None and (outer := _at(holder)[0]) is not None and outer.is_group
        lines += _settings(holder if is_of_group else path, classes, by_class, "default")
        inner = {nested.name: nested.holds for cls in classes for nested in settings_of(cls).values() if nested.holds}
        lines += [line for name, holds in inner.items() for line in _entries(f"{path}.{name}", holds)]
    else:
        lines += _entries(path, classes)
    return "\n".join(lines).rstrip()


def _entries(path: str, classes: Sequence[type]) -> list[str]:
    """Returns the entries that the list at ``path`` may have: their types with a line for each, or their settings."""
    if len(classes) > 1:
        return [paragraph(f"Types of {path} (headrace help {path}.TYPE explains one):"), rows(_types(classes)), ""]
    return _settings(path, classes, {cls: {} for cls in classes}, "default") if classes else []


def _types(classes: Sequence[type]) -> list[tuple[str, str]]:
    """Returns the types of ``classes`` with a line about each; a class alone may have none."""
    return [(str(getattr(cls, TAG)), _about(cls)) for cls in classes if hasattr(cls, TAG)]


At = tuple[Setting | None, Sequence[type], Mapping[str, Any]]
"""The setting at a path, or None for a type; the classes below it; the values around it."""


def _at(path: str) -> At:
    """Returns what is at ``path``, one of ``all_paths``."""
    group, *below = path.split(".")
    setting = settings_of(RunConfig)[group]
    return _below(below, setting, setting.holds, lambda holder: _values_of(group, holder)) or (None, [], {})


def _below(
    parts: Sequence[str],
    setting: Setting | None,
    classes: Sequence[type],
    values_around: Callable[[type], Mapping[str, Any]],
    values: Mapping[str, Any] = MappingProxyType({}),
) -> At | None:
    """Returns what is at ``parts`` below ``setting``, or below a type, whose ``classes`` may share names of settings;
    None where nothing is."""
    if not parts:
        return setting, classes, values
    part, rest = parts[0], parts[1:]
    if setting is None or setting.is_group or len(classes) == 1:  # else the part is a type
        for holder in classes:
            inner = settings_of(holder).get(part)
            if inner and (at := _below(rest, inner, inner.holds, lambda _: {}, values_around(holder))):
                return at
    types = [cls for cls in classes if getattr(cls, TAG, None) == part]
    return _below(rest, None, types, values_around, values) if types else None


def _about(cls: type) -> str:
    """Returns the first paragraph of the docstring of ``cls``."""
    return meaning((inspect.getdoc(cls) or "").split("\n\n")[0])


def _readable_options(group: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the options of ``group`` with their values. A broken file of the user is left out: _options names it."""
    for option in groups()[group]:
        with contextlib.suppress(ConfigError):
            yield option, shown_values(group, option)


def _matching(classes: Sequence[type], values: Mapping[str, Any]) -> list[type]:
    """Returns those of ``classes`` that ``values`` are settings of, by their type."""
    return [cls for cls in classes if len(classes) == 1 or getattr(cls, TAG) == values.get(TAG)]


def _values_of(group: str, cls: type) -> dict[str, Any]:
    """Returns the values of the first option of ``group`` with settings of ``cls``, the default option first."""
    first, holds = default_option(group), settings_of(RunConfig)[group].holds
    several = sorted(_readable_options(group), key=lambda option: option[0] != first)
    return next((values for _, values in several if cls in _matching(holds, values)), {})


def _values_of_options(path: str) -> Iterator[tuple[str, str]]:
    """Yields the value of the setting at ``path`` in each option of its group that lists it."""
    group, _, name = path.partition(".")
    for option, values in _readable_options(group) if name and group in groups() else ():
        if name in values:
            yield f"{group}={option}", REQUIRED if values[name] == UNKNOWN else _yaml(values[name])


def _settings(path: str, classes: Sequence[type], values: Mapping[type, Mapping[str, Any]], word: str) -> list[str]:
    """Returns the settings of ``classes``, with their default or value (``word``). Those that several classes have
    alike come together.
    """
    shown: dict[tuple[str, str, str, str], list[str]] = {}
    for cls in classes:
        for setting in settings_of(cls).values():
            key = (setting.name, setting.kind, setting.value_text(values[cls]), setting.text)
            shown.setdefault(key, []).append(str(getattr(cls, TAG, "")))
    lines: list[str] = []
    for having in dict.fromkeys(map(tuple, shown.values())):
        which = f" with the type {', '.join(having)}" if 1 < len(classes) > len(having) else ""
        lines += [paragraph(f"Settings{which} ({path}.KEY=VALUE):")]
        entries = list[tuple[str, str]]()
        for name, kind, value, text in (key for key, tags in shown.items() if tuple(tags) == having):
            entries += [(name, f"{kind}; {value if value == REQUIRED else f'{word} {value}'}"), ("", text)]
        lines += [rows(entries), ""]
    return lines or ["It has no settings."]


NAMES = {int: "whole number", float: "number", str: "text", bool: "true or false"}
UNBOUNDED = {LARGEST, 1e9}
"""Upper bounds that only exclude what no program accepts."""
BOUNDS = ("ge", "gt", "le", "lt", "min_length", "pattern")
"""Names of bounds in pydantic's annotations."""
MOST_TYPES = 9
"""The members of a larger union are not listed."""


def described(hint: Any) -> str:
    """Returns the type ``hint`` of a setting in words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:])
    if origin in (typing.Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not types.NoneType]
        return "null, or " * (types.NoneType in arguments) + _chosen(inner)
    if origin is Literal:
        return _alternatives(map(str, arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"list; each entry is {_article(described(arguments[0]))}"
    if origin is tuple:
        return f"list of {len(arguments)}: {', '.join(map(described, arguments))}"
    if origin in (dict, Mapping):
        return f"mapping {{name: value}}; each value is {_article(described(arguments[1]))}"
    return NAMES.get(hint) or ("anything" if hint is Any else "settings {name: value}")


def _annotated(hint: Any, notes: Iterable[Any]) -> str:
    """Returns ``hint`` with the bounds and patterns in its annotations ``notes``."""
    is_path = any(isinstance(note, AfterValidator) and note.func is anchored for note in notes)
    text = "path" if is_path and hint is str else described(hint)
    bounds = [bound for note in notes if isinstance(note, FieldInfo) for bound in note.metadata]
    limits = {name: getattr(bound, name) for bound in bounds for name in BOUNDS if hasattr(bound, name)}
    return text + _limits(limits)


def _limits(limits: Mapping[str, Any]) -> str:
    """Returns the text after a type for the bounds ``limits``: `` from 0 to 1``."""
    upper = None if limits.get("le") in UNBOUNDED else limits.get("le")
    if "ge" in limits and upper is not None:
        return f" from {limits['ge']:,} to {upper:,}"
    texts = [f"at least {limits['ge']:,}"] if "ge" in limits else []
    texts += [f"above {limits['gt']:,}"] if "gt" in limits else []
    texts += [f"at most {upper:,}"] if upper is not None else []
    texts += [f"below {limits['lt']:,}"] if "lt" in limits else []
    texts += ["may be empty"] if limits.get("min_length") == 0 else []
    texts += [f"in the form {limits['pattern']}"] if "pattern" in limits else []
    return "".join(f", {text}" for text in texts)


def _chosen(hints: list[Any]) -> str:
    """Returns the members of a union: the types of settings classes, or each in words."""
    tags = [tag for hint in hints for cls in classes_of(hint) if (tag := getattr(cls, TAG, None))]
    if len(tags) == len(hints):
        types_shown = _alternatives(tags) if len(tags) <= MOST_TYPES else f"one of {len(tags)} names"
        return f"settings {{{TAG}: name, …}} with the type {types_shown}"
    return " or ".join(map(described, hints))


def _alternatives(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _article(text: str) -> str:
    """Returns ``text`` with ``a``, unless it names a choice or settings."""
    return f"a {text}" if text.startswith(("text", "path", "number", "whole", "list", "mapping")) else text


def options_text(group: str) -> list[str]:
    """Returns the options of ``group``, with a line for each: its description, or what is wrong with its file."""
    chosen = "" if group == EXPERIMENT else default_option(group)
    names = {name: f"{name} (default)" if name == chosen else name for name in groups()[group]}
    shown = paragraph(f"Options ({group}=NAME; headrace help {group}=NAME shows its values):")
    return [shown, rows((title, _description(group, name)) for name, title in names.items())]


def _description(group: str, option: str) -> str:
    try:
        option_values(group, option)
    except ConfigError as error:
        return f"Broken: {error}."
    return redacted(about(group, option))
