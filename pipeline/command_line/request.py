"""Finds the settings, or the run, that a command asks for.

headrace why numpy:2                        the newest run of this user below the default root
headrace why numpy:2 root=/data/runs        the newest one below another root
headrace why numpy:2 --run small            the run of this name, id, beginning of an id, or path
headrace why numpy:2 experiment=demo        the run of these settings

A run that was started before is read from its run.json, from any current folder, without its raw files and its
overrides. Only settings that no run was started with are planned.

run.json ── SavedRun ── opened ──> Run      the stages that were planned, with the addresses that they had
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headrace.pipeline.command_line.choice import chosen_file
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.options import setting_of
from headrace.pipeline.configuration.overrides import replaced
from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.branches import with_address
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run, plan, stages_up_to
from headrace.pipeline.run.saved_run import SavedRun, is_trusted, newest_file, run_file, saved_before
from headrace.train.scores import Scores


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
    config = decoded(with_address(values))
    return run_file(config.root, config.id)


def with_settings(overrides: Sequence[str]) -> Run:
    """Returns the run that was started with the settings; plans it when there is none."""
    values = composed(overrides)
    config = decoded(values)
    file = run_file(config.root, config.id)
    if file.is_file():
        with contextlib.suppress(ArtifactError):  # it is damaged, or has another format: the run is planned again
            return reopened(SavedRun.read(file), values, overrides)
    return _planned(config, values, overrides)


Refusal = Callable[[RunConfig, Sequence[Stage]], object]
"""Refuses settings and stages by an error."""


def planned(values: Mapping[str, Any], overrides: Sequence[str], refusal_of_new: Refusal | None = None) -> Run:
    """Plans the run of the composed ``values``; ``overrides`` led to them.

    A run that was never started passes through ``refusal_of_new`` first: planning reads raw files.
    """
    values = with_address(values)
    return _planned(decoded(values), values, overrides, refusal_of_new)


def _planned(
    config: RunConfig, values: Mapping[str, Any], overrides: Sequence[str], refusal_of_new: Refusal | None = None
) -> Run:
    """Plans the run of ``config``, which was decoded from ``values``.

    A run that gets no name keeps that of an earlier start. It is planned with the name, because the report hashes it.
    """
    before = saved_before(run_file(config.root, config.id))
    if config.name is None and before and before.name:
        values = {**values, "name": before.name}
        config = dataclasses.replace(config, name=before.name)
    line = stages_up_to(config)
    if before is None and refusal_of_new is not None:
        refusal_of_new(config, line)
    return Run(config, values, plan(config, line=line), overrides, config_dir=os.environ.get(CONFIG_DIR, ""))


def changed(run: Run, overrides: Sequence[str], names: AbstractSet[str]) -> Run:
    """Returns ``run`` with the settings ``names`` as ``overrides`` make them, and the same artifacts."""
    config = config_of(replaced(run.overrides, overrides))
    values = {name: getattr(config, name) for name in names}
    return dataclasses.replace(run, config=dataclasses.replace(run.config, **values))


def newest(root: str) -> Run:
    """Returns the run below ``root`` that this user started last.

    Raises:
        ConfigError: when there is none.
    """
    return opened(SavedRun.read(newest_file(root)))


def opened(saved: SavedRun) -> Run:
    """Returns the run ``saved`` of this user, from any current folder and without its raw files.

    It has its later stages, too: those that only an earlier start with the same settings had.

    Raises:
        ConfigError: when another user wrote it.
    """
    _refuse_other_user(saved)
    return opened_of_anyone(saved)


def opened_of_anyone(saved: SavedRun) -> Run:
    """Returns the run ``saved`` as ``opened`` does. Code that the settings of another user name is not run.

    Raises:
        ConfigError: when they name some.
    """
    run = _run(saved, saved.values["config"], saved.values["overrides"], saved.values.get("config_dir", ""))
    later = _later_descriptions(saved)
    if not later:
        return run
    last = next(name for name in reversed(later) if name != Report.name)
    config = dataclasses.replace(run.config, until=Report.name if last == Scores.name else last)
    return dataclasses.replace(run, config=config, stages=_stages(saved, config, later))


def reopened(saved: SavedRun, values: Mapping[str, Any], overrides: Sequence[str]) -> Run:
    """Returns the run ``saved`` with other ``values`` and ``overrides``, which differ in no address.

    Raises:
        ConfigError: when another user wrote it.
    """
    _refuse_other_user(saved)
    return _run(saved, values, overrides, os.environ.get(CONFIG_DIR, ""))


def _refuse_other_user(saved: SavedRun) -> None:
    if not is_trusted(saved.file):
        problem = f"was written by {saved.user}, and its settings may name any Python class"
        remedy = "use status, logs, compare or du, or start it in a root of your own"
        raise ConfigError(str(saved.file), problem, remedy)


def _run(saved: SavedRun, values: Mapping[str, Any], overrides: Sequence[str], config_dir: str) -> Run:
    """Returns the run ``saved`` with the settings in ``values``, at the root where it is now."""
    started_in = saved.values.get("folder", os.getcwd())
    folder = None if started_in == os.getcwd() else started_in
    decoded_values = decode(RunConfig, values, str(saved.file), folder, runs_code=is_trusted(saved.file))
    config = dataclasses.replace(decoded_values, root=str(saved.root))
    return Run(config, values, _stages(saved, config), overrides, folder, config_dir, saved.file.parent.name)


def _stages(
    saved: SavedRun, config: RunConfig, later: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> list[PlannedStage]:
    """Returns the stages of ``saved`` with the addresses that they had, and those that ``later`` describes."""
    shards = {stage.name: stage.phases[-1].tasks for stage in saved.all_steps if stage.phases}
    return plan(config, {**saved.values["descriptions"], **later}, shards)


def _later_descriptions(saved: SavedRun) -> dict[str, Mapping[str, Any]]:
    """Returns the descriptions of the later stages of ``saved`` by name, in their order, and that of their report.

    Nothing when it has none, or when an earlier version of headrace saved them without descriptions.
    """
    known = saved.descriptions
    later = saved.all_steps[len(saved.steps) :]
    if any(planned.address not in known for planned in later):
        return {}
    stages = {planned.name: known[planned.address] for planned in later if planned.name != Report.name}
    if not stages:
        return {}
    *_, last = stages
    reports = (known[planned.address] for planned in later if planned.name == Report.name)
    report = next((description for description in reports if last in description["inputs"]), None)
    return stages | ({Report.name: report} if report else {})
