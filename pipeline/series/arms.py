"""The arms of a sweep: their settings that differ, their states and their main results, as a table at its end.

run     optimizer.learning_rate  loss   agreement acc  state
lr-1    3e-4                     3.214  51.9 %         done
lr-2    6e-4                     3.102  54.0 %         done
"""

import dataclasses
import shlex
from collections.abc import Sequence

from rich.table import Table

from headrace.pipeline.core.terminal import show_table
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.run.planner import Run, run_folder
from headrace.pipeline.run.results import BenchmarkAccuracy, accuracies, percent, validation_loss
from headrace.pipeline.run.run_files import DEFAULT_ROOT

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
        return run_folder(self.run.config).name

    @property
    def label(self) -> str:
        return self.run.config.name or self.id

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
    table = Table("run", *settings, "loss", *names, "state", box=None, header_style="bold", pad_edge=False)
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
