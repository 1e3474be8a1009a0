"""Plans a run and executes its steps: addresses, missing tasks, and the processes that run them.

    RunConfig ── plan ──> PlannedStage, PlannedStage, ...   (stage, address, folder, tasks; nothing has run yet)
    PlannedStage ── execute ──> Artifact            unless its manifest already exists

Resuming is running again: a step with a finished artifact is skipped, and of other steps only missing tasks are run.
"""

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.data_prep.filters.python_filter import with_sentences
from headrace.data_prep.texts import Texts
from headrace.pipeline.clusters import CLUSTERS
from headrace.pipeline.clusters.base import adopt_job
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core import attempts, error_report
from headrace.pipeline.core.artifact import FORMAT, Artifact, has_older_format, part_path
from headrace.pipeline.core.claim import claim_of, claimed_when_free
from headrace.pipeline.core.errors import ArtifactError, ConfigError, RetryableError, suggestion
from headrace.pipeline.core.extras import TRAIN, require
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.core.system_errors import OWN_FOLDER, explained, system_errors_explained
from headrace.pipeline.core.tracking import GROUP
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.local_ranks import launch
from headrace.pipeline.run.planned_stage import PlannedStage, refuse_untrusted, save_stage
from headrace.pipeline.run.run_files import RUN_JSON
from headrace.pipeline.run.saved import AnyStage, SavedRun, read_saved
from headrace.pipeline.run.workers import Workers
from headrace.pipeline.stages import stages


@dataclasses.dataclass(frozen=True)
class Run:
    """A planned run: its configuration, typed and as plain values, its steps, and its overrides."""

    config: RunConfig
    values: Mapping[str, Any]
    steps: Sequence[PlannedStage]
    overrides: Sequence[str]
    folder: str | None = None
    """The folder that relative paths in ``values`` start from; None is the current one."""
    config_dir: str = ""
    """The folder of presets that ``--config-dir`` gave; empty without it."""


def stages_up_to(config: RunConfig) -> tuple[Stage, ...]:
    """Returns the stages of a run up to ``config.until``, and the report of them.

    Raises:
        ConfigError: when no stage has the name ``config.until``.
    """
    line = stages(config)
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
) -> list[PlannedStage]:
    """Returns the steps of a run, in order, up to ``config.until``, and that of its report.

    The ``descriptions`` of a saved run (``load``) are used unchanged, because making them means reading every raw file.
    Descriptions that are missing are made. ``shards`` are the numbers of shards of stages, as far as they are known.
    """
    known = shards or {}
    steps: dict[str, PlannedStage] = {}
    for stage in stages_up_to(config):
        inputs = {name: steps[name] for name in stage.inputs}
        folders = {name: step.folder for name, step in inputs.items()}
        of_inputs = {name: known.get(name) or step.phases[-1].tasks for name, step in inputs.items()}
        saved = (descriptions or {}).get(stage.name)
        steps[stage.name] = PlannedStage.of(stage, Path(config.root), folders, of_inputs, saved)
    return list(steps.values())


def announce_recomputation(steps: Sequence[PlannedStage]) -> None:
    """Prints which unfinished stages have results in an older format below the root: these results are not used."""
    unfinished = [step for step in steps if not step.is_whole]
    older = [step for step in unfinished if any(map(has_older_format, step.folder.parent.glob("*")))]
    if older:
        names, root = ", ".join(step.name for step in older), str(older[0].folder.parents[1])
        print(
            f"root: {root!r} holds results of an older version of headrace (before format {FORMAT}), whose addresses "
            f"follow another rule; so these stages are computed again: {names}; to use the old results instead, stop "
            "this command and run the version that wrote them",
            file=sys.stderr,
        )


def execute(step: PlannedStage, config: RunConfig) -> Artifact:
    """Runs ``step`` alone on this machine and returns its finished artifact."""
    with Workers(config.worker_processes) as workers:
        return execute_in(workers, step, config)


def execute_in(workers: Workers, step: PlannedStage, config: RunConfig) -> Artifact:
    """Runs ``step`` like ``execute``, with ``workers`` that other steps use too."""
    adopt_job(CLUSTERS.values())
    if step.stage.distributed:
        require(step.name, *TRAIN)
    with error_report.kept(step.folder), system_errors_explained(step.folder), attempts.recorded(step.folder):
        step.refuse_empty_inputs()
        if not step.stage.distributed:
            error_report.clear(step.folder)
            step.run_tasks(workers)
            if step.description["raw_files"]:
                workers.close()  # it may have loaded models as large as these files
        elif step.missing(phase := step.phases[0]):
            workers.close()  # their memory belongs to the ranks
            with claimed_when_free(claim_of(part_path(step.folder, phase.name, 0)), step.name):
                if step.missing(phase):
                    launch(step.stage, step.folder, save_stage(step), config.ranks)
        return step.finish()


def save(
    config: RunConfig,
    values: Mapping[str, Any],
    steps: Sequence[PlannedStage],
    overrides: Sequence[str] = (),
    folder: str | None = None,
    config_dir: str = "",
) -> Path:
    """Writes ``run.json`` and returns its path. Workers rebuild the steps from it: no Hydra, no raw file is read.

    Relative paths in ``values`` start from ``folder``, by default the current one. The overrides need the presets in
    ``config_dir``.

    Raises:
        ConfigError: when the root is not writable.
        RetryableError: when the disk is full.
    """
    path = run_folder(config) / RUN_JSON
    descriptions = {step.name: step.description for step in steps}
    try:
        explained_values = with_sentences(values, config.cleaning.filters)
        saved: dict[str, Any] = {"config": explained_values, "descriptions": descriptions}
        saved |= {"steps": [_tasks(step) for step in steps], "overrides": list(overrides)}
        saved |= {"folder": folder or os.getcwd(), "later_steps": _later(saved_before(config), steps)}
        saved |= {"left_out": left_out(steps)}
        saved |= {"group": os.environ.get(GROUP), "config_dir": config_dir}
        write_sealed(path, {"format": FORMAT, **saved})
        path.chmod(0o644)  # jobs act on it, so only its owner may write it, whatever the umask
    except OSError as error:
        explanation = explained(error, path)
        if isinstance(explanation, RetryableError):
            raise explanation from error
        reason = explanation.problem if explanation else error.strerror
        raise ConfigError("root", f"cannot write below {config.root!r} ({reason})", OWN_FOLDER) from None
    return path


def left_out(steps: Sequence[PlannedStage]) -> str:
    """Returns what the source of ``steps`` has left out of the raw files, as text; empty if it is nothing, or if the
    raw files are gone."""
    try:
        return next((step.stage.source.left_out for step in steps if isinstance(step.stage, Texts)), "")
    except ConfigError:
        return ""


def saved_before(config: RunConfig) -> SavedRun | None:
    """Returns the run that an earlier start with the same settings saved, if it can be read."""
    path = run_folder(config) / RUN_JSON
    try:
        return SavedRun.read(path) if path.is_file() else None
    except (ArtifactError, PermissionError):
        return None


def _later(before: SavedRun | None, steps: Sequence[PlannedStage]) -> list[dict[str, Any]]:
    """Returns the stages after ``steps`` to which an earlier start came: the run still uses them, or waits for them.

    The report, the last of the steps, is another one after each stage.
    """
    if before is None:
        return []
    earlier = {step.address: step for step in before.all_steps}
    if any(step.address not in earlier for step in steps[:-1]):
        return []
    for step in steps:
        earlier.pop(step.address, None)
    described = before.descriptions
    return [
        _tasks(step) | ({"description": described[address]} if address in described else {})
        for address, step in earlier.items()
    ]


def _tasks(step: AnyStage) -> dict[str, Any]:
    """Returns what SavedStage reads: the number of tasks of each phase is known without planning again."""
    phases = [[phase.name, phase.tasks] for phase in step.phases]
    return {"name": step.name, "address": step.address, "phases": phases}


def load(run_json: Path) -> tuple[RunConfig, list[PlannedStage]]:
    """Returns the configuration and the steps that ``save`` wrote, for workers in the folder of the command."""
    saved = read_saved(run_json)
    config = decode(RunConfig, saved["config"], str(run_json))
    return config, plan(config, saved["descriptions"])


def load_stages(file: Path) -> dict[str, PlannedStage]:
    """Returns the steps that ``save`` wrote to ``file``, by the names of their stages.

    Raises:
        ConfigError: when another user wrote it.
    """
    refuse_untrusted(file)
    return {step.name: step for step in load(file)[1]}


def run_folder(config: RunConfig) -> Path:
    """Returns the folder of the files that belong to a run and to no artifact: run.json and the logs of its jobs."""
    return Path(config.root) / "runs" / config.id
