"""The state of a run: how far each stage is, its main counts and its last error.

They are read from manifests and part records alone, so ``status`` takes a fraction of a second.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import Self

from headrace.pipeline.clusters.base import CANCELLED, RUNNING
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import StoppedError
from headrace.pipeline.core.progress import latest_count, latest_line, phase_text
from headrace.pipeline.core.stage import FACTS, kind_of
from headrace.pipeline.report.funnel import KEPT
from headrace.pipeline.report.stage_warnings import warnings
from headrace.pipeline.run.saved_run import AnyStage
from headrace.pipeline.run.storage import Stored
from headrace.train.checkpoint.names import saved_step


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
    def of(cls, stage: AnyStage, job_state: str, has_failed: bool, is_running: bool) -> "StageState":
        """Returns the row of ``stage``: a finished one is read from its manifest.

        A command works on the run if it ``is_running``, perhaps on another stage.
        """
        if stage.is_whole:
            artifact = Artifact(stage.folder)
            tasks = sum(artifact.manifest["phases"].values())
            result = headline(stage.name, artifact.counts)
            return cls(stage.name, "done", tasks, tasks, result, stage.folder, tuple(warnings(stage.name, artifact)))
        tasks = sum(phase.tasks for phase in stage.phases)
        done = tasks - sum(len(stage.missing(phase)) for phase in stage.phases)
        is_held = Stored(stage.folder).is_in_use
        begun = "begun" if is_held or is_running else "stopped"
        state = job_state or ("failed" if has_failed else begun if done or stage.folder.is_dir() else "to do")
        result = latest_line(stage.folder) if is_held or job_state else reached(stage.folder)
        return cls(stage.name, short(state), done, tasks, result or phase_of(stage), stage.folder)

    @property
    def progress(self) -> str:
        """``3/12``."""
        return f"{self.done}/{self.tasks}"


def states_of(stages: Sequence[AnyStage], is_running: bool = False) -> tuple[list[StageState], list[str]]:
    """Returns one row for each of ``stages``, and lines: states of jobs, else last errors of stages, and warnings.

    A command works on their run if it ``is_running``.

    The state of a job has the error of its stage. Work on a stage begins with the removal of an earlier error.
    """
    unfinished = [stage for stage in stages if not stage.is_whole]
    job_states = _job_states(stages) if unfinished else {}
    errors = {stage.name: work_log.error_of(stage.folder) for stage in unfinished if stage.name not in job_states}
    failures = {stage: error for stage, error in errors.items() if not isinstance(error, StoppedError | None)}
    rows = [
        StageState.of(stage, job_states.get(stage.name, ""), stage.name in failures, is_running) for stage in stages
    ]
    dead = f"{CANCELLED} (after "  # in the job of an earlier stage, whose line says it
    jobs = [f"{stage}: {state}" for stage, state in job_states.items() if not state.startswith(dead)]
    under_way = [stage for stage in unfinished if stage.name not in failures]
    under_way = [stage for stage in under_way if job_states.get(stage.name, RUNNING).startswith(RUNNING)]
    starts = (work_log.latest_start(stage.folder) for stage in under_way)  # not the start before a failed one
    failed = [f"{stage} failed: {error}" for stage, error in failures.items()]
    return rows, [*jobs, *filter(None, starts), *failed, *(f"warning: {text}" for row in rows for text in row.warnings)]


def _job_states(stages: Sequence[AnyStage]) -> dict[str, str]:
    from headrace.pipeline.run import jobs  # slow, and not needed for a finished run

    return jobs.states(stages)


def short(state: str) -> str:
    """Returns the beginning of ``state``, with a reason that is short: the line below the rows has the whole."""
    beginning = re.match(r"[^,;(]*(\([^,;()]{1,40}\))?", state)
    return beginning[0].strip() if beginning else state


def reached(folder: Path) -> str:
    """Returns how far the work on the artifact in ``folder`` came: of a training, also the step that was saved."""
    saved = saved_step(folder)
    return ", ".join(filter(None, [latest_count(folder), f"step {saved} saved" if saved is not None else ""]))


@dataclasses.dataclass(frozen=True)
class CurrentPhase:
    """Phase ``number`` (from 1) of ``phases``, with ``done`` of its ``tasks``."""

    number: int
    phases: int
    name: str
    done: int
    tasks: int

    @classmethod
    def of(cls, stage: AnyStage) -> Self | None:
        """Returns the phase that ``stage`` is at; None when all tasks are done."""
        for number, phase in enumerate(stage.phases, 1):
            if missing := len(stage.missing(phase)):
                return cls(number, len(stage.phases), phase.name, phase.tasks - missing, phase.tasks)
        return None

    def __str__(self) -> str:
        return phase_text(self.number, self.phases, self.name, self.done, self.tasks)


def phase_of(stage: AnyStage) -> str:
    """Returns the phase that a stage of several phases is at; empty before it has begun."""
    current = CurrentPhase.of(stage) if len(stage.phases) > 1 and stage.folder.is_dir() else None
    return str(current or "")


def headline(stage: str, counts: Mapping[str, Any]) -> str:
    """Returns the main counts of a finished stage."""
    facts = FACTS.get(kind_of(stage))
    names = facts.headline if facts is not None else ()
    return ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in names if name in counts or name == KEPT)
