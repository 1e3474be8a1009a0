"""Chooses the run that a command is about, without planning and without importing a stage.

headrace status                      the newest run of this user below the default root
headrace status root=/data/runs      the newest one below another root
headrace status small                the run of this name, id, beginning of an id, or path
headrace status name=small           the same
headrace status experiment=demo      the run of these settings
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from headrace.pipeline.commands.declaration import load
from headrace.pipeline.composition import compose
from headrace.pipeline.conf_folder import setting_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import value_of
from headrace.pipeline.run.saved import SavedRun, named_file, newest_file

FolderName = Annotated[str, Field(min_length=1)]
OF_NO_SETTINGS = frozenset({"root", "name"})
"""Settings that choose among the runs that exist; all others describe one."""


def chosen_run(overrides: Sequence[str], name: str = "") -> SavedRun:
    """Returns the run that ``name`` names, else the one with the settings, else the newest one.

    Raises:
        ConfigError: when there is none.
    """
    file = chosen_file(overrides, name) or load("commands.request").file_with(compose(overrides))
    if not file.is_file():
        wrong = f"no run with these settings was started below {root_of(overrides)!r}"
        raise ConfigError("command line", wrong, "start it, or name a run (headrace runs lists all)")
    return SavedRun.read(file)


def chosen_file(overrides: Sequence[str], name: str = "") -> Path | None:
    """Returns the run.json that ``name`` or an override of the name chooses, else the newest; None when other
    ``overrides`` describe a run.

    Raises:
        ConfigError: when there is no such run, or both are given.
    """
    settings = {setting_of(override) for override in overrides} - OF_NO_SETTINGS
    if name and settings:
        wrong = f"both {name!r} and settings ({', '.join(sorted(settings))}) are given"
        raise ConfigError("RUN", wrong, "name the run, or give its settings")
    if settings:
        return None
    values = compose(overrides)
    wanted = name or str(values["name"] or "")
    root = _root(values)
    return named_file(root, wanted) if wanted else newest_file(root)


def root_of(overrides: Sequence[str]) -> str:
    """Returns the root that ``overrides`` give, or the default one."""
    return _root(compose(overrides))


def _root(values: dict[str, Any]) -> str:
    return str(value_of(FolderName, values["root"], "root"))
