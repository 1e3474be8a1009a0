"""The start of one run: it is composed, planned and carried out, or what it would do is printed."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.command_line.request import planned
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.run_execution import carry_out, check_packages, show_work


def start_run(overrides: Sequence[str]) -> Run:
    """Carries out the run of ``overrides``, and returns it."""
    run = planned_start(compose(overrides), overrides)
    carry_out(run)
    return run


def show_run(overrides: Sequence[str]) -> None:
    """Prints what the run of ``overrides`` would do. It is checked as before a start."""
    show_work(planned_start(compose(overrides), overrides))


def planned_start(values: Mapping[str, Any], overrides: Sequence[str]) -> Run:
    """Plans a run in order to start it. A new one without its packages is refused first: planning reads raw files.

    Raises:
        ConfigError: when an optional package is missing.
    """
    return planned(values, overrides, lambda config, stages: check_packages(config, stages, overrides))
