"""Finds the settings, or the run, that a command asks for.

headrace why numpy:2                        the newest run of this user below the default root
headrace why numpy:2 root=/data/runs        the newest one below another root
headrace why numpy:2 --run small            the run of this name, id, beginning of an id, or path
headrace why numpy:2 experiment=demo        the run of these settings

A run that was started before is read from its run.json. Only settings that no run was started with are planned.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from headrace.pipeline.command_line.choice import chosen_file
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.options import setting_of
from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.run.branches import with_address
from headrace.pipeline.run.opening import opened
from headrace.pipeline.run.planner import Run, plan, run_folder, saved_before
from headrace.pipeline.run.run_files import RUN_JSON
from headrace.pipeline.run.saved import SavedRun


def config_of(overrides: Sequence[str]) -> RunConfig:
    """Returns the settings; no raw file has to be there."""
    return decoded(composed(overrides))


def composed(overrides: Sequence[str]) -> Mapping[str, Any]:
    """Returns the composed values; a branch point is that of an address, not of a name."""
    return with_address(compose(overrides))


def run_of(overrides: Sequence[str], name: str = "", may_change: Collection[str] = ()) -> Run:
    """Returns the run that ``name`` names, else the one with the settings, else the newest one.

    Overrides of the settings ``may_change`` choose no run: they replace settings of the chosen one.
    """
    changing = [override for override in overrides if setting_of(override) in may_change]
    choosing = [override for override in overrides if setting_of(override) not in may_change]
    file = chosen_file(choosing, name)
    if file is None:
        return with_settings(overrides)
    run = opened(SavedRun.read(file))
    return changed(run, overrides, {setting_of(override) for override in changing}) if changing else run


def file_with(values: Mapping[str, Any]) -> Path:
    """Returns the path of the run.json of the run with the composed ``values``; the run may not have been started."""
    return run_folder(decoded(with_address(values))) / RUN_JSON


def with_settings(overrides: Sequence[str]) -> Run:
    """Returns the run that was started with the settings; plans it when there is none."""
    values = composed(overrides)
    file = file_with(values)
    if not file.is_file():
        return planned(values, overrides)
    try:
        return opened(SavedRun.read(file), values, overrides)
    except ArtifactError:  # it is damaged, or has another format: the run is planned again
        return planned(values, overrides)


def planned(values: Mapping[str, Any], overrides: Sequence[str]) -> Run:
    """Plans the run of the composed ``values``; ``overrides`` led to them.

    A run that gets no name keeps that of an earlier start. It is planned with the name, because the report hashes it.
    """
    values = with_address(values)
    config = decoded(values)
    if config.name is None and (before := saved_before(config)) and before.name:
        values = {**values, "name": before.name}
        config = dataclasses.replace(config, name=before.name)
    return Run(config, values, plan(config), overrides, config_dir=os.environ.get(CONFIG_DIR, ""))


def changed(run: Run, overrides: Sequence[str], names: AbstractSet[str]) -> Run:
    """Returns ``run`` with the settings ``names`` as ``overrides`` make them, and the same artifacts."""
    anew = {override.partition("=")[0] for override in overrides}
    before = [override for override in run.overrides if override.partition("=")[0] not in anew]
    config = config_of([*before, *overrides])
    values = {name: getattr(config, name) for name in names}
    return dataclasses.replace(run, config=dataclasses.replace(run.config, **values))
