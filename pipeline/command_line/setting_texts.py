"""Describes the type of a setting in words, with its bounds, and lists the options of a group, for help.

Annotated[int, Field(ge=1, le=LARGEST)]    whole number, at least 1
Annotated[float, Field(ge=0, le=1)]        number from 0 to 1
Literal["auto", 0, 1]                      auto, 0 or 1
tuple[str, ...]                            list; each entry is a text
str | None                                 null, or text
"""

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from headrace.pipeline.command_line.help_text import paragraph, rows
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.configuration.options import CONF, EXPERIMENT, about, groups
from headrace.pipeline.configuration.yaml_values import yaml_values
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import TAG
from headrace.pipeline.core.secrets import redacted
from headrace.pipeline.core.setting_classes import classes_of
from headrace.pipeline.core.settings import LARGEST, anchored

NAMES = {int: "whole number", float: "number", str: "text", bool: "true or false"}
UNBOUNDED = {LARGEST, 1e9}
"""Upper bounds that only exclude what no program accepts."""
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


BOUNDS = ("ge", "gt", "le", "lt", "min_length", "pattern")
"""Names of bounds in pydantic's annotations."""


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


def default_option(group: str) -> str:
    """Returns the option of ``group`` in conf/config.yaml."""
    defaults = yaml_values((CONF / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    return next(str(entry[group]) for entry in defaults if isinstance(entry, dict) and group in entry)


SMALL = "two CPU cores"
"""The comment of an experiment that needs no more names them."""


def options_text(group: str) -> list[str]:
    """Returns the options of ``group``, with a line for each: its description, or what is wrong with its file.

    Experiments for two CPU cores come first.
    """
    described_options = {name: _description(group, name) for name in groups()[group]}
    shown = paragraph(f"Options ({group}=NAME; headrace help {group}=NAME shows its values):")
    if group == EXPERIMENT:
        small = [name for name, text in described_options.items() if SMALL in text]
        others = [name for name in described_options if name not in small]
        parts = [(f"For {SMALL}:", small), ("Others; those of published models need GPUs:", others)]
        lists = [(paragraph(title), rows((name, described_options[name]) for name in names)) for title, names in parts]
        return [shown, *(line for text in lists for line in ("", *text))]
    chosen = default_option(group)
    marked = ((f"{name} (default)" if name == chosen else name, text) for name, text in described_options.items())
    return [shown, rows(marked)]


def _description(group: str, option: str) -> str:
    try:
        option_values(group, option)
    except ConfigError as error:
        return f"Broken: {error}."
    return redacted(about(group, option))
