"""Runs many trainings and skips those that are finished: the trainings of a ladder, the arms of a study.

Their state is that of the runs, so the same command goes on after an interruption. On a cluster a run is submitted.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from headrace.pipeline.command_line.request import planned
from headrace.pipeline.config import decoded
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.run.branches import with_address
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run, saved_before, stages_up_to
from headrace.pipeline.run.run_execution import carry_out, check_packages, check_start
from headrace.pipeline.run.run_files import run_file

Wanted = TypeVar("Wanted")
CarriedOut = TypeVar("CarriedOut")

NOT_STARTED, STARTED, DONE = "not started", "started", "done"


def carried_out(values: Mapping[str, Any], overrides: Sequence[str], starts: bool, last: str = "weights") -> Run:
    """Plans the run of the composed ``values``, and carries it out unless the stage ``last`` was finished before.

    Without ``starts`` nothing is carried out.
    """
    run = planned(values, overrides)
    is_done = step_of(run, last).is_whole and run.run_json.is_file()
    if starts and not is_done:
        with contextlib.redirect_stdout(sys.stderr):
            carry_out(run)
    return run


def planned_start(values: Mapping[str, Any], overrides: Sequence[str]) -> Run:
    """Plans a run in order to start it. A new one without its packages is refused first: planning reads raw files.

    Raises:
        ConfigError: when an optional package is missing.
    """
    config = decoded(with_address(values))
    if saved_before(run_file(config.root, config.id)) is None:
        check_packages(config, stages_up_to(config), overrides)
    return planned(values, overrides)


def all_checked(wanted: Iterable[tuple[object, Mapping[str, Any], Sequence[str]]]) -> list[Run]:
    """Plans and checks runs before the first of them is started: a mistake in the last would show after hours.

    Args:
        wanted: of each run, its name in errors, its composed values and its overrides.

    Raises:
        HeadraceError: for the first run that could not start, with its name. Nothing was started.
    """
    runs, checked = list[Run](), set[str]()
    for name, values, overrides in wanted:
        try:
            run = planned_start(values, overrides)
            check_start(run, checked)
        except HeadraceError as error:
            raise type(error)(
                f"{name}: {error.where}", error.problem, f"{error.remedy} (nothing was started)"
            ) from None
        checked |= {stage.address for stage in run.stages}
        runs.append(run)
    return runs


def all_carried_out(
    label: str,
    wanted: Sequence[Wanted],
    starts: bool,
    carry: Callable[[Wanted], CarriedOut],
    failed: Callable[[Wanted, str], CarriedOut],
) -> tuple[list[CarriedOut], list[HeadraceError]]:
    """Returns what became of each of ``wanted``, and the errors of those that failed; they do not stop the others.

    Args:
        label: the beginning of the line that is printed before each.
        wanted: the trainings, in their order.
        starts: whether missing runs are started; without it nothing is printed.
        carry: carries out one as far as possible now.
        failed: returns the result of one that failed, with the state.
    """
    outcomes: list[CarriedOut] = []
    errors: list[HeadraceError] = []
    for number, training in enumerate(wanted):
        if starts:
            print(f"{label}: {number + 1} of {len(wanted)}: {training}", file=sys.stderr, flush=True)
        try:
            outcomes.append(carry(training))
        except HeadraceError as error:
            errors.append(error)
            outcomes.append(failed(training, f"failed: {error}"))
    return outcomes, errors


def step_of(run: Run, name: str) -> PlannedStage:
    return next(stage for stage in run.stages if stage.name == name)


def state_of(run: Run, last: str = "weights") -> str:
    """Returns ``done`` when the stage ``last`` is finished, ``started`` or ``not started``."""
    if step_of(run, last).is_whole:
        return DONE
    return STARTED if run.run_json.is_file() else NOT_STARTED
