"""Starts one run, or all runs of a sweep."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.command_line.request import planned
from headrace.pipeline.composition import compose, first_combination, sweep
from headrace.pipeline.config import decoded
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.settings import digest
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.core.tracking import grouped
from headrace.pipeline.run.line import carry_out
from headrace.pipeline.run.planner import Run
from headrace.pipeline.series import arms
from headrace.pipeline.series.arms import Arm


def start_run(overrides: Sequence[str]) -> Run:
    """Carries out the run of ``overrides``, and returns it."""
    run = planned(compose(overrides), overrides)
    carry_out(run)
    return run


def start_sweep(overrides: Sequence[str]) -> None:
    """Carries out all runs of a sweep, then prints a table of them.

    Raises:
        HeadraceError: when the settings of the first run are not valid, or a run failed.
    """
    decoded(first_combination(overrides))
    found: list[Arm] = []
    name = next((override.partition("=")[2] for override in overrides if override.startswith("name=")), None)
    try:
        with grouped(name or f"sweep-{digest(sorted(overrides))}"):
            sweep(overrides, lambda values, own: _start_arm(values, own, found))
    finally:
        if found:
            arms.show(found)


def _start_arm(values: Mapping[str, Any], own: Sequence[str], found: list[Arm]) -> None:
    """Carries out one run of a sweep, with ``own`` overrides, and adds it to ``found``, also when it fails.

    Raises:
        HeadraceError: when it fails; the sweep goes on to the next.
    """
    if values["name"]:
        values = {**values, "name": f"{values['name']}-{len(found) + 1}"}
    name = values["name"] or f"run {len(found) + 1}"
    one: Run | None = None
    try:
        one = planned(values, own)
        carry_out(one)
    except HeadraceError as error:
        found.append(Arm(own, one, f"failed: {error}", name))
        raise
    except Stop:
        found.append(Arm(own, one, "stopped", name))
        raise
    found.append(Arm(own, one, "", name))
