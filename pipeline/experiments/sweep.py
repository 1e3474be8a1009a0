"""Starts one run, or all runs of a sweep, which ends with a table of them.

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

from headrace.pipeline.configuration.composition import combinations
from headrace.pipeline.core.errors import ConfigError, HeadraceError
from headrace.pipeline.core.settings import digest
from headrace.pipeline.experiments.arms import all_checked
from headrace.pipeline.output.terminal import show_table
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.run_execution import carry_out
from headrace.pipeline.run.run_results import accuracies, percent, validation_loss
from headrace.pipeline.run.saved_run import DEFAULT_ROOT
from headrace.pipeline.tracking.settings import grouped

MAX_SCORES = 4
"""Accuracies that the table shows; ``headrace compare`` shows all."""


@dataclasses.dataclass(frozen=True)
class SweptRun:
    """One run of a sweep."""

    run: Run
    error: str
    """Why it failed or stopped; empty when it did not."""

    @property
    def settings(self) -> dict[str, str]:
        """Its overrides, value by setting."""
        return {key: value for key, _, value in (override.partition("=") for override in self.run.overrides)}

    @property
    def is_comparable(self) -> bool:
        """Whether ``headrace compare`` takes it now, or when its jobs are done: it trains, and has not failed."""
        return not self.error and any(stage.name == "weights" for stage in self.run.stages)

    @property
    def state(self) -> str:
        """``done``, ``submitted`` to a cluster, or the error."""
        return self.error or ("done" if all(stage.is_whole for stage in self.run.stages) else "submitted")


def start_sweep(overrides: Sequence[str]) -> None:
    """Carries out all runs of a sweep, then prints a table of them. A run that fails does not stop the others.

    Raises:
        HeadraceError: when one of the runs could not start, naming it: then none is started; or when a run failed.
    """
    combined = combinations(overrides)
    names = {values["name"] for _, values, _ in combined}
    labels = [f"combination {number}: {varied}" for number, (varied, _, _) in enumerate(combined, 1)]
    numbered = [_numbered(number, values) for number, (_, values, _) in enumerate(combined, 1)]
    runs = all_checked(zip(labels, numbered, (settings for _, _, settings in combined), strict=True))
    _check_distinct(labels, runs)
    swept, errors = list[SweptRun](), list[HeadraceError]()
    group = str(*names) if len(names) == 1 and None not in names else f"sweep-{digest(sorted(overrides))}"
    try:
        with grouped(group):
            for label, run in zip(labels, runs, strict=True):
                print(label, file=sys.stderr, flush=True)
                state = "stopped"
                try:
                    carry_out(run)
                    state = ""
                except HeadraceError as error:
                    errors.append(error)
                    state = f"failed: {error}"
                finally:
                    swept.append(SweptRun(run, state))
    finally:
        show(swept)
    if errors:
        raise errors[0]


def _numbered(number: int, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the composed ``values`` with the number of the run in its name, if it has one."""
    return {**values, "name": f"{values['name']}-{number}"} if values["name"] else values


def _check_distinct(labels: Sequence[str], runs: Sequence[Run]) -> None:
    """Checks that no two ``runs`` of a sweep are one: their results would be the same files.

    Raises:
        ConfigError: for the first run that repeats an earlier one, naming both.
    """
    firsts: dict[tuple[str, ...], str] = {}
    for label, run in zip(labels, runs, strict=True):
        results = tuple(stage.address for stage in run.stages if stage.name != "report")  # its page has the run's name
        first = firsts.setdefault(results, label)
        if first != label:
            problem = f"has the results of {first}: other settings of the command replace what is varied"
            raise ConfigError(label, problem, "vary a setting that they leave (nothing was started)")


def show(swept: Sequence[SweptRun]) -> None:
    """Prints the table of the runs ``swept``, and the command that compares them."""
    settings = differing(swept)
    scores = [
        {f"{benchmark.name} {metric.name}": percent(metric) for benchmark, metric in accuracies(row.run.stages)}
        for row in swept
    ]
    names = list(dict.fromkeys(name for values in scores for name in values))[:MAX_SCORES]
    table = Table("run", *settings, "validation loss", *names, "state", box=None, header_style="bold", pad_edge=False)
    for row, values in zip(swept, scores, strict=True):
        loss = validation_loss(row.run.stages)
        cells = [row.run.label, *(row.settings.get(key, "") for key in settings)]
        cells += ["–" if loss is None else decimal(loss, 3), *(values.get(name, "–") for name in names)]
        table.add_row(*cells, row.state)
    print()
    show_table(table)
    roots = [row.run.config.root for row in swept if row.run.config.root != DEFAULT_ROOT]
    root = f" root={shlex.quote(roots[0])}" if roots else ""
    labels = [row.run.label for row in swept]
    unique = [label if labels.count(label) == 1 else row.run.id for label, row in zip(labels, swept, strict=True)]
    compared = [shlex.quote(name) for name, row in zip(unique, swept, strict=True) if row.is_comparable]
    is_submitted = any(row.state == "submitted" for row in swept)
    if is_submitted:
        print(f"\nfollow them: headrace runs{root}")
    if len(compared) > 1:
        when = "when they are done" if is_submitted else "\ncompare them"
        print(f"{when}: headrace compare {' '.join(compared)}{root}")


def differing(swept: Sequence[SweptRun]) -> list[str]:
    """Returns the settings whose values differ between the runs ``swept``."""
    keys = dict.fromkeys(key for row in swept for key in row.settings)
    return [key for key in keys if len({row.settings.get(key) for row in swept}) > 1]
