"""Plans a run, and saves the plan for the processes that execute it (run_execution.py, worker.py).

RunConfig ── plan ──> PlannedStage, PlannedStage, ...   (stage, address, folder, tasks; nothing has run yet)
          └─ save ──> run.json ── load ──> the same stages in another process
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.data_prep.filters.python_filter import with_sentences
from headrace.data_prep.texts import Texts
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import FORMAT
from headrace.pipeline.core.errors import ConfigError, RetryableError, suggestion
from headrace.pipeline.core.settings import decode, digest
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.core.system_errors import OWN_FOLDER, explained
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.planned_stage import PlannedStage, refuse_untrusted
from headrace.pipeline.run.saved_run import (
    AnyStage,
    SavedRun,
    earlier_names,
    read_saved,
    run_file,
    saved_before,
    write_run,
)
from headrace.pipeline.stages import stages as stages_of
from headrace.pipeline.tracking.wandb_run import GROUP
from headrace.train.cost.flops import Compute
from headrace.train.weights import Weights


@dataclasses.dataclass(frozen=True)
class Run:
    """A planned run: its configuration, typed and as plain values, its stages, and its overrides."""

    config: RunConfig
    values: Mapping[str, Any]
    stages: Sequence[PlannedStage]
    overrides: Sequence[str]
    folder: str | None = None
    """The folder that relative paths in ``values`` start from; None is the current one."""
    config_dir: str = ""
    """The folder of presets that ``--config-dir`` gave; empty without it."""
    saved_id: str = ""
    """The id of a saved run. ``config`` has another one where ``folder`` was put before relative paths."""

    @property
    def id(self) -> str:
        return self.saved_id or self.config.id

    @property
    def label(self) -> str:
        """The name of the run, or its id."""
        return self.config.name or self.id

    @property
    def run_json(self) -> Path:
        """The path of the file that ``save`` writes."""
        return run_file(self.config.root, self.id)


def stages_up_to(config: RunConfig) -> tuple[Stage, ...]:
    """Returns the stages of a run up to ``config.until``, and the report of them.

    Raises:
        ConfigError: when no stage has the name ``config.until``.
    """
    line = stages_of(config)
    names = [*(stage.name for stage in line), Report.name]
    if config.until not in names:
        raise ConfigError("until", f"no stage is named {config.until!r}", suggestion(config.until, names))
    shown = line[: names.index(config.until) + 1]
    report = Report(
        root=config.root,
        run=config.id,
        run_name=config.name,
        cleaning=config.cleaning,
        shown=tuple(stage.name for stage in shown),
    )
    return (*shown, report)


def plan(
    config: RunConfig,
    descriptions: Mapping[str, Mapping[str, Any]] | None = None,
    shards: Mapping[str, int] | None = None,
    line: Sequence[Stage] = (),
) -> list[PlannedStage]:
    """Returns the stages of a run, in order, up to ``config.until``, and that of its report (``line``, if it is known).

    The ``descriptions`` of a saved run (``load``) are used unchanged, because making them means reading every raw file.
    Descriptions that are missing are made. ``shards`` are the numbers of shards of stages, as far as they are known.
    """
    known = shards or {}
    stages: dict[str, PlannedStage] = {}
    for stage in line or stages_up_to(config):
        inputs = {name: stages[name] for name in stage.inputs}
        folders = {name: planned.folder for name, planned in inputs.items()}
        of_inputs = {name: known.get(name) or planned.phases[-1].tasks for name, planned in inputs.items()}
        saved = (descriptions or {}).get(stage.name)
        stages[stage.name] = PlannedStage.of(stage, Path(config.root), folders, of_inputs, saved)
    return list(stages.values())


def save(
    config: RunConfig,
    values: Mapping[str, Any],
    stages: Sequence[PlannedStage],
    overrides: Sequence[str] = (),
    folder: str | None = None,
    config_dir: str = "",
    is_draft: bool = False,
) -> Path:
    """Writes ``run.json`` and returns its path. Workers rebuild the stages from it: no Hydra, no raw file is read.

    Relative paths in ``values`` start from ``folder``, by default the current one. The overrides need the presets in
    ``config_dir``. A draft is a file next to it, named after its content, which ``take_effect`` makes run.json.

    Raises:
        ConfigError: when the root is not writable.
        RetryableError: when the disk is full.
    """
    path = run_file(config.root, config.id)
    before = saved_before(path)
    descriptions = {stage.name: stage.description for stage in stages}
    try:
        explained_values = with_sentences(values, config.cleaning.filters)
        saved: dict[str, Any] = {"config": explained_values, "descriptions": descriptions}
        saved |= {"steps": [_tasks(stage) for stage in stages], "overrides": list(overrides)}
        saved |= {"folder": folder or os.getcwd(), "later_steps": _later(before, stages)}
        saved |= {"left_out": left_out(stages), "planned_flops": planned_flops(config, stages)}
        saved |= {"group": os.environ.get(GROUP), "config_dir": config_dir}
        saved |= {"format": FORMAT, "names": earlier_names(before, config.name)}
        path = path.with_name(f"run-{digest(saved)}.json") if is_draft else path
        write_run(path, saved)
    except OSError as error:
        explanation = explained(error, path)
        if isinstance(explanation, RetryableError):
            raise explanation from error
        reason = explanation.problem if explanation else error.strerror
        raise ConfigError("root", f"cannot write below {config.root!r} ({reason})", OWN_FOLDER) from None
    return path


def planned_flops(config: RunConfig, stages: Sequence[PlannedStage]) -> float:
    """Returns the operations of the training of a run with ``config``, as ``headrace plan`` counts them; 0 without
    one."""
    if not any(isinstance(stage.stage, Weights) for stage in stages):
        return 0.0
    row_tokens = config.packing.row_tokens
    return Compute.of(config.model, config.vocabulary, row_tokens, config.training, config.target_tokens).flops


def left_out(stages: Sequence[PlannedStage]) -> str:
    """Returns what the source of ``stages`` has left out of the raw files, as text; empty if it is nothing, or if the
    raw files are gone."""
    try:
        return next((stage.stage.source.left_out for stage in stages if isinstance(stage.stage, Texts)), "")
    except ConfigError:
        return ""


def _later(before: SavedRun | None, stages: Sequence[PlannedStage]) -> list[dict[str, Any]]:
    """Returns the stages after ``stages`` to which an earlier start came: the run still uses them, or waits for them.

    The report, the last of the stages, is another one after each stage.
    """
    if before is None:
        return []
    earlier = {stage.address: stage for stage in before.all_steps}
    if any(stage.address not in earlier for stage in stages[:-1]):
        return []
    for stage in stages:
        earlier.pop(stage.address, None)
    return [_tasks(stage) | {"description": before.descriptions[address]} for address, stage in earlier.items()]


def _tasks(stage: AnyStage) -> dict[str, Any]:
    """Returns what SavedStage reads: the number of tasks of each phase is known without planning again."""
    phases = [[phase.name, phase.tasks] for phase in stage.phases]
    return {"name": stage.name, "address": stage.address, "phases": phases}


def load(run_json: Path) -> tuple[RunConfig, list[PlannedStage]]:
    """Returns the configuration and the stages that ``save`` wrote, for workers in the folder of the command."""
    saved = read_saved(run_json)
    config = decode(RunConfig, saved["config"], str(run_json), runs_code=True)
    return config, plan(config, saved["descriptions"])


def load_stages(file: Path) -> dict[str, PlannedStage]:
    """Returns the stages that ``save`` wrote to ``file``, by their names.

    Raises:
        ConfigError: when another user wrote it.
    """
    refuse_untrusted(file)
    return {step.name: step for step in load(file)[1]}
