"""Chooses the run that a command is about, without planning and without importing a stage.

headrace status                      the newest run of this user below the default root
headrace status root=/data/runs      the newest one below another root
headrace status small                the run of this name, id, beginning of an id, or path
headrace status name=small           the same
headrace status experiment=demo      the run of these settings
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from headrace.pipeline.command_line.declaration import load
from headrace.pipeline.configuration.options import own_folder, setting_of
from headrace.pipeline.core.artifact import is_whole
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Folder, value_of
from headrace.pipeline.core.stage import FACTS, kind_of
from headrace.pipeline.run.saved_run import DEFAULT_ROOT, SavedRun, named_file, newest_file

FolderName = Annotated[Folder, Field(min_length=1)]
OF_NO_SETTINGS = frozenset({"root", "name"})
"""Settings that choose among the runs that exist; all others describe one."""
PLAIN = re.compile(r"(root|name)=(?!(?:null|true|false)$)([A-Za-z_./][\w./-]*)", re.ASCII | re.IGNORECASE)
"""An override of them whose value means itself. Composing the settings would take longer than the whole command."""

ARTIFACT = re.compile(rf"(?:{'|'.join(sorted({kind_of(stage) for stage in FACTS}))})/[0-9a-f]{{12}}")
"""The stage and the address of an artifact."""


def chosen_run(overrides: Sequence[str], name: str = "") -> SavedRun:
    """Returns the run that ``name`` names, else the one with the settings, else the newest one.

    Raises:
        ConfigError: when there is none.
    """
    file = chosen_file(overrides, name) or load("command_line.request").file_with(_composed(overrides))
    if not file.is_file():
        problem = f"no run with these settings was started below {root_of(overrides)!r}"
        raise ConfigError("command line", problem, "start it, or name a run (headrace runs lists all)")
    return SavedRun.read(file)


def artifact_folder(overrides: Sequence[str], name: str) -> Path | None:
    """Returns the folder of the artifact that ``name`` names: ``clean/b8e44e9d7440`` below the root, or the path of
    one; None: it names a run. The folder may not exist."""
    path = Path(os.path.abspath(name))
    if ARTIFACT.fullmatch(name):
        return Path(root_of(overrides)) / name
    is_artifact = is_whole(path) and ARTIFACT.fullmatch(f"{path.parent.name}/{path.name}")
    return path if is_artifact else None


def chosen_file(overrides: Sequence[str], name: str = "") -> Path | None:
    """Returns the run.json that ``name`` or an override of the name chooses, else the newest; None when other
    ``overrides`` describe a run.

    Raises:
        ConfigError: when there is no such run, or both are given.
    """
    settings = {setting_of(override) for override in overrides} - OF_NO_SETTINGS
    if name and settings:
        problem = f"both {name!r} and settings ({', '.join(sorted(settings))}) are given"
        raise ConfigError("RUN", problem, "name the run, or give its settings")
    if settings:
        return None
    values = _chosen(overrides)
    wanted = name or str(values["name"] or "")
    root = _root(values)
    return named_file(root, wanted) if wanted else newest_file(root)


def root_of(overrides: Sequence[str]) -> str:
    """Returns the root that ``overrides`` give, or the default one."""
    return _root(_chosen(overrides))


def _chosen(overrides: Sequence[str]) -> Mapping[str, Any]:
    """Returns the values of ``root`` and ``name``; settings that no plain override changes have their defaults."""
    own_folder()  # refuses a folder of --config-dir without presets, as composing does
    matches = [PLAIN.fullmatch(override) for override in overrides]
    plain = {match[1]: match[2] for match in matches if match is not None}
    if len(plain) < len(overrides):  # there are others, or one is given twice
        return _composed(overrides)
    return {"root": DEFAULT_ROOT, "name": None, **plain}


def _composed(overrides: Sequence[str]) -> Mapping[str, Any]:
    composed: Mapping[str, Any] = load("configuration.composition").compose(overrides)
    return composed


def _root(values: Mapping[str, Any]) -> str:
    return str(value_of(FolderName, values["root"], "root"))
