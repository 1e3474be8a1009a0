"""Opens a saved run for commands: from any current folder, without its raw files and its overrides.

run.json ── SavedRun ── opened ──> Run      the steps that were planned, with the addresses that they had
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.run.planner import Run, plan
from headrace.pipeline.run.saved import SavedRun, is_trusted, newest_file


def newest(root: str) -> Run:
    """Returns the run below ``root`` that this user started last.

    Raises:
        ConfigError: when there is none.
    """
    return opened(SavedRun.read(newest_file(root)))


def opened(saved: SavedRun, values: Mapping[str, Any] | None = None, overrides: Sequence[str] | None = None) -> Run:
    """Returns the run ``saved``, from any current folder and without its raw files.

    ``values`` and ``overrides`` replace its own ones. They may differ in settings that are in no address.

    Raises:
        ConfigError: when another user wrote it.
    """
    if not is_trusted(saved.file):
        wrong = f"was written by {saved.user}, and its settings may name any Python class"
        remedy = "use status, logs, compare or du, or start it in a root of your own"
        raise ConfigError(str(saved.file), wrong, remedy)
    started_in = saved.values.get("folder", os.getcwd())
    folder = None if started_in == os.getcwd() else started_in
    values = values or saved.values["config"]
    config = decode(RunConfig, values, str(saved.file), folder)
    config = dataclasses.replace(config, root=str(saved.root))
    shards = {step.name: step.phases[-1].tasks for step in saved.steps if step.phases}
    steps = plan(config, saved.values["descriptions"], shards)
    return Run(config, values, steps, saved.values["overrides"] if overrides is None else overrides, folder)
