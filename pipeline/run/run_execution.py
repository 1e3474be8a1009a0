"""Executes a planned run: stage by stage on this machine, or as jobs on a cluster.

    PlannedStage ── execute ──> Artifact            unless its manifest already exists

Resuming is running again: a stage with a finished artifact is skipped, and of other stages only missing tasks are run.
"""

import contextlib
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path

from headrace.pipeline.clusters.base import adopt_job
from headrace.pipeline.config import RunConfig, check_training
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact, part_path
from headrace.pipeline.core.artifact_files import held
from headrace.pipeline.core.claim import claim_of, claimed_when_free
from headrace.pipeline.core.errors import HeadraceError, RetryableError
from headrace.pipeline.core.extras import TRAIN, require
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.output.terminal import show_lines
from headrace.pipeline.run.branches import beginnings
from headrace.pipeline.run.local_ranks import launch
from headrace.pipeline.run.mirror import Mirror, MirroredRun
from headrace.pipeline.run.planned_stage import PlannedStage, save_stage
from headrace.pipeline.run.planner import Run, save
from headrace.pipeline.run.saved_run import RUN_JSON, in_progress
from headrace.pipeline.run.workers import Workers
from headrace.pipeline.tracking.notices import begin, failure_noticed, noticed, send
from headrace.pipeline.tracking.tracker import Recorder
from headrace.pipeline.tracking.wandb_run import group_of, grouped
from headrace.train.finetune.tuning import Tuning, check_tuning


def check_start(run: Run, checked: Set[str] = frozenset()) -> list[str]:
    """Checks all that would stop ``run`` later, because the data stages take long; returns lines on its beginning.

    Stages with an address in ``checked`` are left out: another run has them, too.

    Raises:
        ConfigError: when an optional package is missing, another version planned an unfinished stage, most of the first
            records cannot be read, or the training could not start.
    """
    unfinished = [stage.stage for stage in run.stages if not stage.is_whole]
    check_packages(run.config, unfinished, run.overrides)
    run.config.notify.check()
    if run.config.mirror is not None:
        Mirror(run.config.mirror)  # refuses what cannot be opened
    for stage in run.stages:
        stage.refuse_other_version()
        if not stage.is_whole and stage.address not in checked:
            stage.stage.check_start()
    if any(stage.name == "weights" and not stage.is_whole for stage in run.stages):
        check_training(run.config)
    for stage in run.stages:
        if isinstance(stage.stage, Tuning) and not stage.is_whole:
            check_tuning(stage.stage, run.config.training_ranks)
    return [*filter(None, [run.config.tracking.missing]), *beginnings(run.stages)]


def check_packages(config: RunConfig, stages: Iterable[Stage], overrides: Sequence[str]) -> None:
    """Checks that the optional packages of ``stages`` are installed, unless jobs have others than this command.

    Raises:
        ConfigError: with the extra that installs them.
    """
    if config.cluster.shares_packages:
        config.tracking.check(is_chosen="tracking=wandb" in overrides)
        for stage in stages:
            if stage.distributed:
                require(stage.name, *TRAIN, otherwise="end with the data: until=packed")


def carry_out(run: Run) -> None:
    """Runs or submits the missing stages of ``run``, and prints the results.

    Its wandb runs are in the group of the sweep; without a sweep in the group of an earlier start, or in a new one.

    Raises:
        ConfigError: as ``check_start`` does.
        HeadraceError: when a stage is missing and the root is not writable.
    """
    for line in check_start(run):
        print(line, file=sys.stderr)
    with grouped(group_of(run.config.tracking, run.config.name, run.run_json)):
        _start(run)


def show_work(run: Run) -> None:
    """Prints the stages of ``run`` with their missing tasks; on a cluster also the commands that would submit them.

    Raises:
        ConfigError: as ``carry_out`` does before it writes anything.
    """
    for line in check_start(run):
        print(line, file=sys.stderr)
    of_stages = []
    for stage in run.stages:
        missing = sum(len(stage.missing(phase)) for phase in stage.phases)
        tasks = sum(phase.tasks for phase in stage.phases)
        state = "done before" if stage.is_whole else f"{missing:,} of {tasks:,} tasks"
        of_stages.append([stage.name, state, str(stage.folder)])
    show_lines(["stage", "to do", "folder"], of_stages)
    if scheduler := run.config.cluster.scheduler:
        from headrace.pipeline.run.submission import planned_jobs

        for command in planned_jobs(run.stages, scheduler, run.run_json, run.label):
            print("", shlex.join(command), sep="\n")


def _show(run: Run) -> None:
    """Prints the results of ``run``. What prints them is loaded when there are some."""
    from headrace.pipeline.run import summary

    summary.show(run)


def _start(run: Run) -> None:
    """Saves ``run`` and runs or submits its missing stages, which were checked."""
    scheduler = run.config.cluster.scheduler
    drafts = {*run.run_json.parent.glob("run-*.json")}
    try:
        given = run.config, run.values, run.stages, run.overrides, run.folder, run.config_dir
        run_json = save(*given, is_draft=scheduler is not None)
    except HeadraceError as error:
        if not all(stage.is_whole for stage in run.stages[:-1]):
            raise
        without = "run.json was" if run.stages[-1].is_whole else "run.json and the report were"
        print(
            f"{error.where}: {error.problem}: {without} not written; all stages were finished before", file=sys.stderr
        )
        _show(run)
        return
    begin(run_json)
    if any(stage.name == "signatures" and not stage.is_whole for stage in run.stages):
        print(run.config.dedup.expected_recall, file=sys.stderr)
    mirrored = MirroredRun(run_json)
    if scheduler is not None:
        for stage in run.stages:
            mirrored.take(stage)
        from headrace.pipeline.run.submission import submit

        with _kept_if_submitted(run_json, is_new=run_json not in drafts):
            submit(run.stages, scheduler, run_json)
        from headrace.pipeline.run.summary import identity

        print(*identity(run), sep="\n")
        return
    with noticed(run_json), Recorder(run_json) as recorder:
        _run_stages(run, run_json, recorder, mirrored)
        _show(run)


@contextlib.contextmanager
def _kept_if_submitted(draft: Path, is_new: bool) -> Iterator[None]:
    """Removes a new ``draft`` of a run.json whose submission in the block was refused before its first job."""
    run_json = draft.with_name(RUN_JSON)
    before = run_json.stat().st_mtime_ns if run_json.is_file() else None
    try:
        yield
    except HeadraceError as error:
        if before == (run_json.stat().st_mtime_ns if run_json.is_file() else None):
            if isinstance(error, RetryableError):
                print(f"until it is clear whether there is a job, its run is {draft}", file=sys.stderr)
            elif is_new:
                draft.unlink(missing_ok=True)
        raise


def _run_stages(run: Run, run_json: Path, recorder: Recorder, mirrored: MirroredRun) -> None:
    """Takes the missing stages of ``run`` from its mirror, or runs them here. Sends a notice if there were any."""
    was_whole = all(stage.is_whole for stage in run.stages)
    with in_progress(run_json), Workers(run.config.worker_processes) as workers:
        for stage in run.stages:
            if stage.is_whole:
                print(f"{stage.name:<11} done before: {stage.folder}", file=sys.stderr)
            with failure_noticed(stage.name):
                if not stage.is_whole and not mirrored.take(stage):
                    execute_in(workers, stage, run.config)
                recorder.record(stage.name, stage.folder)
                mirrored.publish(stage)
                check_later(run, stage)
    if not was_whole:
        send("ended", run.stages[-1].name, "all stages are done")


def execute(stage: PlannedStage, config: RunConfig) -> Artifact:
    """Runs ``stage`` alone on this machine and returns its finished artifact."""
    with Workers(config.worker_processes) as workers:
        return execute_in(workers, stage, config)


def execute_in(workers: Workers, stage: PlannedStage, config: RunConfig) -> Artifact:
    """Runs ``stage`` like ``execute``, with ``workers`` that other stages use too."""
    adopt_job()
    if stage.stage.distributed:
        require(stage.name, *TRAIN)
    with _at_work(stage, config):
        stage.refuse_empty_inputs()
        if stage.stage.distributed:
            _run_ranks(workers, stage, config.ranks)
        else:
            _run_tasks(workers, stage)
        return stage.finish()


@contextlib.contextmanager
def _at_work(stage: PlannedStage, config: RunConfig) -> Iterator[None]:
    """Holds the folder of ``stage`` during the block, and records in it the attempt, and the error that ends it."""
    processes: int | None = config.worker_processes
    devices = 0
    if stage.stage.distributed:  # ranks hold all cores that they may use
        processes, devices = None, 0 if stage.stage.device == "cpu" else config.ranks
    attempt = work_log.attempted(stage.folder, config.id, processes, devices)
    explained_errors = system_errors_explained(stage.folder)
    with held(stage.folder), work_log.error_kept(stage.folder), explained_errors, attempt:
        yield


def _run_tasks(workers: Workers, stage: PlannedStage) -> None:
    work_log.clear_error(stage.folder)
    stage.run_tasks(workers)
    if stage.description["raw_files"]:
        workers.close()  # it may have loaded models as large as these files


def _run_ranks(workers: Workers, stage: PlannedStage, ranks: int) -> None:
    """Starts the ranks of ``stage``, unless its only task is done, once no other command does."""
    phase = stage.phases[0]
    if stage.missing(phase):
        workers.close()  # their memory belongs to the ranks
        with claimed_when_free(claim_of(part_path(stage.folder, phase.name, 0)), stage.name):
            if stage.missing(phase):
                launch(stage.stage, stage.folder, save_stage(stage), ranks)


def check_later(run: Run, finished: PlannedStage) -> None:
    """Refuses the artifact of the stage ``finished`` if a missing stage of ``run`` cannot succeed with it.

    Raises:
        ConfigError: naming the setting.
    """
    artifact = Artifact(finished.folder)
    for stage in run.stages:
        if not stage.is_whole:
            stage.stage.check_after(finished.name, artifact)
