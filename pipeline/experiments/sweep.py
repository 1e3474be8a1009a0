"""Starts one run, or all runs of a sweep, which ends with a table of its arms.

run     optimizer.learning_rate  validation loss  agreement acc  state
lr-1    3e-4                     3.214            51.9 %         done
lr-2    6e-4                     3.102            54.0 %         done
"""

import dataclasses
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from headrace.pipeline.configuration.composition import combinations, compose
from headrace.pipeline.core.errors import ConfigError, HeadraceError
from headrace.pipeline.core.settings import digest
from headrace.pipeline.experiments.arms import all_checked, planned_start
from headrace.pipeline.output.terminal import show_table
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.results import BenchmarkAccuracy, accuracies, percent, validation_loss
from headrace.pipeline.run.run_execution import carry_out, show_work
from headrace.pipeline.run.run_files import DEFAULT_ROOT
from headrace.pipeline.tracking.settings import grouped

MAX_SCORES = 4
"""Accuracies that the table shows; ``headrace compare`` shows all."""


@dataclasses.dataclass(frozen=True)
class Arm:
    """One run of a sweep."""

    overrides: Sequence[str]
    run: Run
    error: str
    """Why it failed or stopped; empty when it did not."""

    @property
    def id(self) -> str:
        return self.run.id

    @property
    def label(self) -> str:
        return self.run.label

    @property
    def is_comparable(self) -> bool:
        """Whether ``headrace compare`` takes it now, or when its jobs are done: it trains, and has not failed."""
        return not self.error and any(stage.name == "weights" for stage in self.run.stages)

    @property
    def state(self) -> str:
        """``done``, ``submitted`` to a cluster, or the error."""
        if self.error:
            return self.error
        return "done" if all(stage.is_whole for stage in self.run.stages) else "submitted"


def show(arms: Sequence[Arm]) -> None:
    """Prints the table of ``arms``, and the command that compares them."""
    settings = differing(arms)
    scores = [
        {f"{benchmark.name} {metric.name}": percent(metric) for benchmark, metric in _accuracies(arm)} for arm in arms
    ]
    names = list(dict.fromkeys(name for values_by_name in scores for name in values_by_name))[:MAX_SCORES]
    table = Table("run", *settings, "validation loss", *names, "state", box=None, header_style="bold", pad_edge=False)
    for arm, values_by_name in zip(arms, scores, strict=True):
        loss = validation_loss(arm.run.stages)
        values = _values(arm)
        cells = [arm.label, *(values.get(key, "") for key in settings), "–" if loss is None else decimal(loss, 3)]
        table.add_row(*cells, *(values_by_name.get(name, "–") for name in names), arm.state)
    print()
    show_table(table)
    roots = [arm.run.config.root for arm in arms if arm.run.config.root != DEFAULT_ROOT]
    root = f" root={shlex.quote(roots[0])}" if roots else ""
    labels = [arm.label for arm in arms]
    own = [arm.label if labels.count(arm.label) == 1 else arm.id for arm in arms]
    compared = [shlex.quote(name) for name, arm in zip(own, arms, strict=True) if arm.is_comparable]
    is_submitted = any(arm.state == "submitted" for arm in arms)
    if is_submitted:
        print(f"\nfollow them: headrace runs{root}")
    if len(compared) > 1:
        when = "when they are done" if is_submitted else "\ncompare them"
        print(f"{when}: headrace compare {' '.join(compared)}{root}")


def differing(arms: Sequence[Arm]) -> list[str]:
    """Returns the settings whose values differ between ``arms``."""
    values = [_values(arm) for arm in arms]
    keys = dict.fromkeys(key for settings_of_arm in values for key in settings_of_arm)
    return [key for key in keys if len({settings_of_arm.get(key) for settings_of_arm in values}) > 1]


def _values(arm: Arm) -> dict[str, str]:
    return {key: value for key, _, value in (override.partition("=") for override in arm.overrides)}


def _accuracies(arm: Arm) -> list[BenchmarkAccuracy]:
    return accuracies(arm.run.stages)


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
    _check_distinct(labels, runs)
    started, errors = list[Arm](), list[HeadraceError]()
    group = str(*names) if len(names) == 1 and None not in names else f"sweep-{digest(sorted(overrides))}"
    try:
        with grouped(group):
            for label, run in zip(labels, runs, strict=True):
                print(label, file=sys.stderr, flush=True)
                _start_arm(run, started, errors)
    finally:
        show(started)
    if errors:
        raise errors[0]


def _check_distinct(labels: Sequence[str], runs: Sequence[Run]) -> None:
    """Checks that no two ``runs`` of a sweep are one: their results would be the same files.

    Raises:
        ConfigError: for the first run that repeats an earlier one, naming both.
    """
    labels_by_addresses: dict[tuple[str, ...], str] = {}
    for label, run in zip(labels, runs, strict=True):
        addresses = tuple(
            stage.address for stage in run.stages if stage.name != "report"
        )  # its page has the run's name
        first = labels_by_addresses.setdefault(addresses, label)
        if first != label:
            problem = f"has the results of {first}: other settings of the command replace what is varied"
            raise ConfigError(label, problem, "vary a setting that they leave (nothing was started)")


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
