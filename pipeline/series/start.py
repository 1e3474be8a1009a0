"""Starts one run, or all runs of a sweep."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.configuration.composition import combinations, compose
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.settings import digest
from headrace.pipeline.run.line import carry_out, show_work
from headrace.pipeline.run.planner import Run
from headrace.pipeline.series import arms
from headrace.pipeline.series.arms import Arm
from headrace.pipeline.series.carried_out import all_checked, planned_start
from headrace.pipeline.tracking.settings import grouped


def start_run(overrides: Sequence[str]) -> Run:
    """Carries out the run of ``overrides``, and returns it."""
    run = planned_start(compose(overrides), overrides)
    carry_out(run)
    return run


def show_run(overrides: Sequence[str]) -> None:
    """Prints what the run of ``overrides`` would do. It is checked as before a start."""
    show_work(planned_start(compose(overrides), overrides))


def start_sweep(overrides: Sequence[str]) -> None:
    """Carries out all runs of a sweep, then prints a table of them. A run that fails does not stop the others.

    Raises:
        HeadraceError: when one of the runs could not start, naming it: then none is started; or when a run failed.
    """
    combined = combinations(overrides)
    names = {values["name"] for _, values, _ in combined}
    labels = [f"combination {number}: {varied}" for number, (varied, _, _) in enumerate(combined, 1)]
    numbered = [_numbered(number, values) for number, (_, values, _) in enumerate(combined, 1)]
    runs = all_checked(zip(labels, numbered, (own for _, _, own in combined), strict=True))
    started, errors = list[Arm](), list[HeadraceError]()
    group = str(*names) if len(names) == 1 and None not in names else f"sweep-{digest(sorted(overrides))}"
    try:
        with grouped(group):
            for label, run in zip(labels, runs, strict=True):
                print(label, file=sys.stderr, flush=True)
                _start_arm(run, started, errors)
    finally:
        arms.show(started)
    if errors:
        raise errors[0]


def _numbered(number: int, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the composed ``values`` with the number of the run in its name, if it has one."""
    return {**values, "name": f"{values['name']}-{number}"} if values["name"] else values


def _start_arm(run: Run, started: list[Arm], errors: list[HeadraceError]) -> None:
    """Carries out one run of a sweep, and adds it to ``started``; its error to ``errors`` when it fails."""
    state = "stopped"
    try:
        carry_out(run)
        state = ""
    except HeadraceError as error:
        errors.append(error)
        state = f"failed: {error}"
    finally:
        started.append(Arm(run.overrides, run, state))
