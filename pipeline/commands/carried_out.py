"""Carries out many runs, those that are finished not again: the trainings of a ladder, the arms of a study.

Their state is that of the runs, so the same command goes on after an interruption. On a cluster a run is submitted.
"""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.commands.request import planned
from headrace.pipeline.run.line import carry_out
from headrace.pipeline.run.planner import Run, run_folder
from headrace.pipeline.run.run_files import RUN_JSON
from headrace.pipeline.run.step import Step

NOT_STARTED, STARTED, DONE = "not started", "started", "done"


def carried_out(values: Mapping[str, Any], overrides: Sequence[str], starts: bool, last: str = "weights") -> Run:
    """Plans the run of the composed ``values``, and carries it out unless the stage ``last`` was finished before.

    Without ``starts`` nothing is carried out.
    """
    run = planned(values, overrides)
    is_done = step_of(run, last).is_whole and (run_folder(run.config) / RUN_JSON).is_file()
    if starts and not is_done:
        with contextlib.redirect_stdout(sys.stderr):
            carry_out(run)
    return run


def step_of(run: Run, name: str) -> Step:
    return next(step for step in run.steps if step.name == name)


def state_of(run: Run, last: str = "weights") -> str:
    """Returns ``done`` when the stage ``last`` is finished, ``started`` or ``not started``."""
    if step_of(run, last).is_whole:
        return DONE
    return STARTED if (run_folder(run.config) / RUN_JSON).is_file() else NOT_STARTED
