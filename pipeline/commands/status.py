"""``headrace status``: how far a run is, one row per stage.

headrace status                      your newest run below the default root
headrace status small                the run of this name, id, beginning of an id, or path
headrace status root=/data/runs      the newest run below another root
headrace status experiment=demo      the run of these settings

    stage        state     tasks   result
    texts        done      12/12   55,303 records in, 51,877 kept
    clean        RUNNING    3/35    phase 1/5 0-filter, 3/4 tasks
    weights      RUNNING    0/1     120/5,000 steps, 3.2/s, 0:25:25 to go  loss 3.412  tokens/s 51,200

    weights      stopped    0/1     120/5,000 steps, step 120 saved

A stage that was begun is ``stopped`` when no job and no process works on it. Below the rows are the states of jobs,
from which step a training went on, the last error of each stage that failed, with its remedy, and a warning about a
stage that lost nearly everything.

The rows are read from run.json, the manifests and the part records alone, which takes a fraction of a second. Only
settings that no run was started with are planned.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from headrace.pipeline.command_line.choice import chosen_file
from headrace.pipeline.command_line.declaration import command, load, run_argument
from headrace.pipeline.core import error_report, starts
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import StoppedError
from headrace.pipeline.core.progress import latest_count, latest_line
from headrace.pipeline.core.stage_facts import FACTS
from headrace.pipeline.core.terminal import show_table
from headrace.pipeline.report.funnel import KEPT
from headrace.pipeline.report.stage_warnings import warnings
from headrace.pipeline.run.current_phase import CurrentPhase
from headrace.pipeline.run.saved import AnyStage, SavedRun
from headrace.pipeline.run.storage import Stored
from headrace.train.checkpoint.names import saved_step


@command
@run_argument
def status(overrides: Sequence[str], run: str) -> None:
    """Prints one row per stage: how far it is, its main counts, its folder."""
    rows, notes = states(overrides, run)
    view = Table("stage", "state", "tasks", "result", "folder", box=None, header_style="bold")
    for row in rows:
        view.add_row(row.stage, row.state, row.progress, row.result, str(row.folder))
    show_table(view)
    print(*notes, sep="\n", end="\n" * bool(notes))


@dataclasses.dataclass(frozen=True)
class StageState:
    """The state of one stage: ``done`` of its ``tasks`` are finished."""

    stage: str
    state: str
    done: int
    tasks: int
    result: str
    folder: Path
    warnings: tuple[str, ...] = ()
    """Warnings about the result of a finished stage."""

    @classmethod
    def of(cls, step: AnyStage, job_state: str, has_failed: bool, is_running: bool) -> "StageState":
        """Returns the row of ``step``: a finished one is read from its manifest.

        A command works on the run if it ``is_running``, perhaps on another stage.
        """
        if step.is_whole:
            artifact = Artifact(step.folder)
            tasks = sum(artifact.manifest["phases"].values())
            result = headline(step.name, artifact.counts)
            return cls(step.name, "done", tasks, tasks, result, step.folder, tuple(warnings(step.name, artifact)))
        tasks = sum(phase.tasks for phase in step.phases)
        done = tasks - sum(len(step.missing(phase)) for phase in step.phases)
        is_held = Stored(step.folder).is_in_use
        begun = "begun" if is_held or is_running else "stopped"
        state = job_state or ("failed" if has_failed else begun if done or step.folder.is_dir() else "to do")
        result = latest_line(step.folder) if is_held or job_state else reached(step.folder)
        return cls(step.name, short(state), done, tasks, result or phase_of(step), step.folder)

    @property
    def progress(self) -> str:
        """``3/12``; the number of tasks is unknown for a run.json of an earlier version."""
        return f"{self.done}/{self.tasks or '?'}"


def states(overrides: Sequence[str], run: str) -> tuple[list[StageState], list[str]]:
    """Returns one row per stage, and lines about jobs and failures."""
    file = chosen_file(overrides, run)
    if file is not None:
        saved = SavedRun.read(file)
        return states_of(saved.stages, bool(saved.processes()))
    return states_of(load("command_line.request").with_settings(overrides).steps)


def states_of(steps: Sequence[AnyStage], is_running: bool = False) -> tuple[list[StageState], list[str]]:
    """Returns one row for each of ``steps``, and lines: states of jobs, else last errors of stages, and warnings.

    A command works on their run if it ``is_running``.

    The state of a job has the error of its stage. Work on a stage begins with the removal of an earlier error.
    """
    unfinished = [step for step in steps if not step.is_whole]
    job_states = load("run.jobs").states(steps) if unfinished else {}
    errors = {step.name: error_report.read(step.folder) for step in unfinished if step.name not in job_states}
    failures = {stage: error for stage, error in errors.items() if not isinstance(error, StoppedError | None)}
    rows = [StageState.of(step, job_states.get(step.name, ""), step.name in failures, is_running) for step in steps]
    jobs = [f"{stage}: {state}" for stage, state in job_states.items()]
    begun = filter(None, (starts.latest(step.folder) for step in unfinished if step.name not in failures))
    failed = [f"{stage} failed: {error}" for stage, error in failures.items()]
    return rows, [*jobs, *begun, *failed, *(f"warning: {text}" for row in rows for text in row.warnings)]


def short(state: str) -> str:
    """Returns the beginning of ``state``, with a reason that is short: the line below the rows has the whole."""
    found = re.match(r"[^,;(]*(\([^,;()]{1,40}\))?", state)
    return found[0].strip() if found else state


def reached(folder: Path) -> str:
    """Returns how far the work on the artifact in ``folder`` came: of a training, also the step that was saved."""
    saved = saved_step(folder)
    return ", ".join(filter(None, [latest_count(folder), f"step {saved} saved" if saved is not None else ""]))


def phase_of(step: AnyStage) -> str:
    """Returns the phase that a stage of several phases is at; empty before it has begun."""
    current = CurrentPhase.of(step) if len(step.phases) > 1 and step.folder.is_dir() else None
    return str(current or "")


def headline(stage: str, counts: Mapping[str, Any]) -> str:
    """Returns the main counts of a finished stage."""
    names = FACTS[stage].headline if stage in FACTS else ()
    return ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in names if name in counts or name == KEPT)
