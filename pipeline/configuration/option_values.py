"""Reads the values in the files of presets, and refuses files that hold none.

conf/cleaning/mine.yaml of the user     defaults: [c4, _self_]   over the values of conf/cleaning/c4.yaml
                                        buckets: 3
"""

import copy
import functools
from pathlib import Path
from typing import Any

import yaml

from headrace.pipeline.configuration.options import groups, option_file
from headrace.pipeline.core.errors import ConfigError, suggestion

CORRECT = "correct the file of the option"


def preset_values(file: Path) -> dict[str, Any]:
    """Returns the values in the ``file`` of an option, with its defaults list.

    Raises:
        ConfigError: when it holds no settings, with the line of a mistake in its YAML.
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
    return values or {}


def yaml_values(text: str) -> Any:
    """Returns the values of ``text``, which is YAML: a new copy in each call.

    Raises:
        yaml.YAMLError: when it is not YAML.
    """
    return copy.deepcopy(_parsed(text))


@functools.cache
def _parsed(text: str) -> Any:
    """Parses ``text`` once in this process: help reads every file of a group for each of its settings."""
    return yaml.safe_load(text)


def option_values(group: str, option: str, extending: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns the values of an option over those of the options that it extends.

    ``extending`` are the options that extend this one.

    Raises:
        ConfigError: when a file holds no settings, extends an unknown option, or extends itself.
    """
    file = option_file(group, option)
    values, inherited = preset_values(file), dict[str, Any]()
    defaults = values.pop("defaults", None) or []
    if not isinstance(defaults, list):
        problem = f"in '{group}/{option}', defaults must be a list (got {type(defaults).__name__})"
        raise ConfigError(str(file), problem, CORRECT)
    for name in defaults:
        base = name.removeprefix(f"/{group}/") if isinstance(name, str) else "_self_"
        if base == "_self_" or "/" in base:  # of this file, or of another group
            continue
        if base not in groups()[group]:
            raise ConfigError(str(file), f"extends the unknown option {base!r}", suggestion(base, groups()[group]))
        if base in (option, *extending):
            raise ConfigError(str(file), f"extends itself (defaults: {base})", "take it out, or rename the file")
        inherited |= option_values(group, base, (option, *extending))
    return inherited | values
