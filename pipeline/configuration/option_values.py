"""Reads the values in the files of presets, and refuses files that hold none.

conf/cleaning/mine.yaml of the user     defaults: [c4, _self_]   over the values of conf/cleaning/c4.yaml
                                        buckets: 3
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headrace.pipeline.configuration.options import CONF, TABLE, groups, option_file
from headrace.pipeline.configuration.yaml_values import yaml_values
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.secrets import without_secrets

CORRECT = "correct the file of the option"
UNKNOWN = "???"
"""A value in conf/ that the user must give. A comment after it may be an example: ``??? # finetune.train=a.tsv``."""


def preset_values(file: Path, option: str = "") -> dict[str, Any]:
    """Returns the values of ``option`` in its ``file``, with its defaults list.

    Those of an entry of a table are over those that its options share, and its defaults after theirs.

    Raises:
        ConfigError: when it holds no settings, with the line of a mistake in its YAML, or both lines of a key
            that a mapping has twice.
    """
    try:
        values = yaml_values(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = f"{line}{getattr(error, 'problem', None) or 'is not YAML'}"
        raise ConfigError(str(file), problem, "correct the YAML") from None
    except (UnicodeDecodeError, OSError) as error:
        raise ConfigError(str(file), f"cannot be read ({error})", "save it as a text in UTF-8") from None
    if not isinstance(values, dict | None):
        raise ConfigError(str(file), "holds no settings", "write KEY: VALUE, one in a line")
    values = values or {}
    if isinstance(table := values.get(TABLE), dict) and option in table:
        del values[TABLE]
        return _over(values, table[option] or {})
    return values


def _over(shared: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of an ``entry`` over ``shared`` ones: mappings are merged, and so are the defaults lists."""
    merged = dict(shared)
    for key, value in entry.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _over(before, value)
        elif key == "defaults" and before:
            value = [*before, *value]
        merged[key] = value
    return merged


def option_values(group: str, option: str, extending: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns the values of an option over those of the options that it extends.

    ``extending`` are the options that extend this one.

    Raises:
        ConfigError: when a file holds no settings, extends an unknown option, or extends itself.
    """
    file = option_file(group, option)
    values, inherited = preset_values(file, option), dict[str, Any]()
    defaults = values.pop("defaults", None) or []
    if not isinstance(defaults, list):
        problem = f"in '{group}/{option}', defaults must be a list (got {type(defaults).__name__})"
        raise ConfigError(str(file), problem, CORRECT)
    for base in _bases(group, option, defaults, extending):
        inherited |= option_values(group, base, (option, *extending))
        _refuse_mappings(file, values, base, inherited)
    return inherited | values


def shown_values(group: str, option: str) -> dict[str, Any]:
    """Returns ``option_values`` without secrets."""
    return dict(without_secrets(option_values(group, option)))


def example_command(group: str, option: str) -> str:
    """Returns a command with an example of each value that ``option`` requires; empty when its file has none."""
    values = option_values(group, option)
    given = [text for key, text in _examples(group, option).items() if values.get(key) == UNKNOWN]
    return " ".join(["headrace", f"{group}={option}", *given]) if given else ""


def _examples(group: str, option: str) -> dict[str, str]:
    """Returns the examples after the required values in the file of ``option`` and of those that it extends, by key."""
    file, inherited = option_file(group, option), dict[str, str]()
    for base in _bases(group, option, preset_values(file, option).get("defaults") or (), ()):
        inherited |= _examples(group, base)
    lines = re.findall(rf"^(\w+): {re.escape(UNKNOWN)} # ({group}\.\S+=.*)$", file.read_text(encoding="utf-8"), re.M)
    return inherited | dict(lines)


def _bases(group: str, option: str, defaults: Sequence[Any], extending: tuple[str, ...]) -> Iterator[str]:
    """Yields the options that the ``defaults`` of ``option`` extend.

    Raises:
        ConfigError: when one is unknown, or the option itself.
    """
    file = option_file(group, option)
    for name in defaults:
        base = name.removeprefix(f"/{group}/") if isinstance(name, str) else "_self_"
        if base == "_self_" or "/" in base:  # of this file, or of another group
            continue
        if base not in groups()[group]:
            remedy = suggestion(base, groups()[group], f"{group}={base}")
            raise ConfigError(str(file), f"extends the unknown option {base!r}", remedy)
        if base in (option, *extending):
            raise ConfigError(str(file), f"extends itself (defaults: {base})", "take it out, or rename the file")
        yield base


def _refuse_mappings(file: Path, values: Mapping[str, Any], base: str, inherited: Mapping[str, Any]) -> None:
    """Refuses a mapping in ``file`` in place of an ``inherited`` list of ``base``, whose entries it cannot change.

    Raises:
        ConfigError: with the line, and the override that sets the same.
    """
    for key, value in values.items():
        if isinstance(inherited.get(key), list) and isinstance(value, dict):
            group, path = file.parent.name, [key]
            while isinstance(value, dict) and value:
                name, value = next(iter(value.items()))
                path.append(str(name))
            lines = file.read_text(encoding="utf-8").splitlines()
            line = next((number for number, text in enumerate(lines, 1) if text.startswith(f"{key}:")), 1)
            problem = f"line {line}: {key} is a list, and a mapping cannot change an entry of it"
            remedy = f"write the whole list (headrace config {group}={base} prints it), or give the command"
            raise ConfigError(str(file), problem, f"{remedy} {group}.{'.'.join(path)}={value}")


def replaced_lists(group: str, option: str) -> str:
    """Returns which lists of the options that ``option`` extends are replaced in its file, for people."""
    values, replaced = preset_values(option_file(group, option), option), list[str]()
    for base in _bases(group, option, values.pop("defaults", None) or (), ()):
        for key, before in option_values(group, base).items():
            if isinstance(before, list) and before and isinstance(values.get(key), list):
                replaced.append(f"; its {key} ({len(values[key])}) replace those of {base} ({len(before)})")
    return "".join(replaced)


def default_option(group: str) -> str:
    """Returns the option of ``group`` in conf/config.yaml."""
    defaults = yaml_values((CONF / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    return next(str(entry[group]) for entry in defaults if isinstance(entry, dict) and group in entry)
