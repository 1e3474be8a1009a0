"""Overrides of settings (``KEY=VALUE``): made from Python's values, parsed, checked, in the form that Hydra takes."""

import contextlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, QuotedString

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.configuration.options import EXPERIMENT, groups, unknown_option
from headrace.pipeline.configuration.override_values import PLAIN, OverrideReader, quoted
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import TAG
from headrace.pipeline.core.settings import refuse_secrets

HYDRA = "hydra"
"""The key of Hydra's own settings."""


def as_overrides(settings: str | Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Returns ``settings`` as overrides (``KEY=VALUE``).

    They are a line as in a shell, overrides, or values by their keys: ``{"model": "demo", "training.steps": 400}``.

    Raises:
        ConfigError: when a value is of a kind that no setting has, or a quote in the line is not closed.
    """
    if isinstance(settings, str):
        try:
            return shlex.split(settings)
        except ValueError as error:
            problem = f"{settings!r} cannot be split into overrides ({error})"
            raise ConfigError("settings", problem, "close the quote, or give a list or a dict of settings") from None
    if isinstance(settings, Mapping):
        return [f"{key}={_written(key, value)}" for key, value in settings.items()]
    return list(settings)


def _written(key: str, value: Any) -> str:
    """Returns ``value`` as Hydra reads it in an override of ``key``."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str() | os.PathLike():
            text = os.fspath(value)
            return text if PLAIN.fullmatch(text) else quoted(text)
        case Mapping():
            return "{" + ",".join(f"{name}:{_written(f'{key}.{name}', item)}" for name, item in value.items()) + "}"
        case Sequence() if not isinstance(value, bytes | bytearray | memoryview):
            return "[" + ",".join(_written(key, item) for item in value) + "]"
    problem = f"is a {type(value).__name__}, which no setting is"
    raise ConfigError(key, problem, "give a number, a text, a list, a dict or None")


def parsed(overrides: Sequence[str]) -> list[Override]:
    return OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(list(overrides))


def readable_overrides(overrides: Sequence[str], is_sweep: bool = False) -> list[str]:
    """Returns ``overrides`` in the form that Hydra reads.

    Raises:
        ConfigError: when one holds a secret, is none, sets something of Hydra's own, or chooses no option of its group.
    """
    _refuse_secrets_in(overrides)
    _refuse_hydra(overrides)
    reader = OverrideReader(_tags(overrides))
    forms = [reader.readable(override, is_sweep) for override in overrides]
    _refuse_no_options(forms)
    return forms


def in_form_of_hydra(overrides: Sequence[str], is_sweep: bool) -> dict[str, str]:
    """Returns the form in which Hydra takes each of ``overrides`` → the override as the user typed it."""
    reader = OverrideReader(_tags(overrides))
    return {settable(reader.readable(override, is_sweep)): override for override in overrides}


def _tags(overrides: Sequence[str]) -> dict[str, str]:
    """Returns group → type of the settings of the option that ``overrides`` choose, where its file states one."""
    tags = dict[str, str]()
    for group, _, option in (override.partition("=") for override in overrides):
        if option in groups().get(group, ()) and group != EXPERIMENT:
            with contextlib.suppress(ConfigError):  # composing names what is wrong with the file
                tags[group] = str(option_values(group, option).get(TAG, ""))
    return tags


def _refuse_secrets_in(overrides: Sequence[str]) -> None:
    """Refuses overrides that hold a secret: run.json keeps them all, also those that a later one replaces.

    Raises:
        ConfigError: naming the key.
    """
    for override in overrides:
        key, _, value = override.partition("=")
        refuse_secrets(value, key if value else "command line")


def _refuse_hydra(overrides: Sequence[str]) -> None:
    """Refuses overrides of Hydra's own settings: they would change nothing.

    Raises:
        ConfigError: naming the key.
    """
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if re.split("[./@]", key)[0] == HYDRA:
            remedy = "leave it out: root=FOLDER is where all results and logs are written"
            raise ConfigError(key, "is a setting of Hydra itself, which is not used", remedy)


def _refuse_no_options(overrides: Sequence[str]) -> None:
    """Refuses overrides of no key and overrides of a group that choose no option.

    Raises:
        ConfigError: naming the group and the nearest option.
    """
    for override in parsed(overrides):
        if not override.key_or_group:
            raise ConfigError("command line", f"{override.input_line!r} is not an override", "write KEY=VALUE")
        group, options = override.key_or_group, groups().get(override.key_or_group)
        if options is None:
            continue
        if override.is_delete():
            raise ConfigError(group, "cannot be removed", f"leave it out, or choose another option: {group}=OPTION")
        if override.is_add() or override.is_force_add():
            raise ConfigError(
                group, f"{override.input_line!r} adds an option", f"write {str(override.input_line).lstrip('+')}"
            )
        value = override.value()
        for choice in value.list if isinstance(value, ChoiceSweep) else [value]:
            option = choice.text if isinstance(choice, QuotedString) else choice
            if not isinstance(option, dict) and option not in options and not override.is_range_sweep():
                is_typed_so = isinstance(option, str) or option is not value
                typed = str(option) if is_typed_so else override.get_value_element_as_str()
                raise unknown_option(group, typed)


def replaced(overrides: Sequence[str], others: Sequence[str]) -> list[str]:
    """Returns ``overrides`` with ``others``, which replace those of the same settings."""
    keys = {key_of(other) for other in others}
    return [*(override for override in overrides if key_of(override) not in keys), *others]


def key_of(override: str) -> str:
    """Returns the setting that ``override`` sets, with the keys below it."""
    return override.partition("=")[0].lstrip("+")


def settable(override: str) -> str:
    """Returns ``override`` in the form in which Hydra also takes a field of a group that no file of conf/ lists.

    So a field with a default needs no line in any file, nor do fields of a model's field or of ``evaluation.chat``.
    Decoding refuses what is no field.
    """
    settings = "|".join(groups().keys() - {EXPERIMENT})
    nested = r"(model|finetune|evaluation\.chat)(\.[a-z]\w*)+="
    is_field = re.match(rf"({settings})\.\w+(\.\d+(\.\w+)+)*=|{nested}", override)
    return f"++{override}" if is_field else override


def as_typed(override: str) -> str:
    """Undoes ``settable``."""
    typed = override.removeprefix("++")
    return typed if settable(typed) == override else override


def each_of_sweep(override: Override) -> list[str]:
    """Returns ``override`` with each value of its sweep; itself when it is none.

    Raises:
        ConfigError: when it is a sweep without a list of values, such as ``interval(0,1)``.
    """
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if not override.is_discrete_sweep():
        problem = f"{str(override.input_line).partition('=')[2]!r} is no list of values"
        raise ConfigError(str(override.key_or_group), problem, "give values with commas, or range(FIRST,END,STEP)")
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
