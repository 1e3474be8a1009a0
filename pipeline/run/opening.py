"""Opens a saved run for commands: from any current folder, without its raw files and its overrides.

run.json ── SavedRun ── opened ──> Run      the stages that were planned, with the addresses that they had
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.planner import Run, plan
from headrace.pipeline.run.run_files import is_trusted, newest_file
from headrace.pipeline.run.saved import SavedRun
from headrace.train.scores import Scores


def newest(root: str) -> Run:
    """Returns the run below ``root`` that this user started last.

    Raises:
        ConfigError: when there is none.
    """
    return opened(SavedRun.read(newest_file(root)))


def opened(saved: SavedRun, values: Mapping[str, Any] | None = None, overrides: Sequence[str] | None = None) -> Run:
    """Returns the run ``saved``, from any current folder and without its raw files.

    ``values`` and ``overrides`` replace its own ones. They may differ in settings that are in no address. Without
    ``values``, the run has its later stages, too: those that only an earlier start with the same settings had.

    Raises:
        ConfigError: when another user wrote it.
    """
    if not is_trusted(saved.file):
        problem = f"was written by {saved.user}, and its settings may name any Python class"
        remedy = "use status, logs, compare or du, or start it in a root of your own"
        raise ConfigError(str(saved.file), problem, remedy)
    started_in = saved.values.get("folder", os.getcwd())
    folder = None if started_in == os.getcwd() else started_in
    config = decode(RunConfig, values or saved.values["config"], str(saved.file), folder)
    config = dataclasses.replace(config, root=str(saved.root))
    descriptions = saved.values["descriptions"]
    if values is None and (later := _later_descriptions(saved)):
        last = next(name for name in reversed(later) if name != Report.name)
        until = Report.name if last == Scores.name else last
        config, descriptions = dataclasses.replace(config, until=until), {**descriptions, **later}
    shards = {stage.name: stage.phases[-1].tasks for stage in saved.all_steps if stage.phases}
    own_overrides = saved.values["overrides"] if overrides is None else overrides
    presets = os.environ.get(CONFIG_DIR, "") if overrides is not None else saved.values.get("config_dir", "")
    stages = plan(config, descriptions, shards)
    return Run(config, values or saved.values["config"], stages, own_overrides, folder, presets)


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
