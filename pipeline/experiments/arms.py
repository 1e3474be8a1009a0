"""Arms: runs that are compared. Checks and carries out all of them, and skips those that are finished.

    grid of a ladder | arms and seeds of a study ──> Arm ── arm_results ──> ArmResult: its state, and what it measured

    combinations of a sweep ── start_sweep ──> a table of the runs

Their state is that of the runs, so the same command goes on after an interruption. On a cluster a run is submitted.
"""

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from rich.table import Table
from typing_extensions import Self

from headrace.pipeline.command_line.request import planned
from headrace.pipeline.command_line.run_start import planned_start
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import combinations, compose
from headrace.pipeline.core.errors import ConfigError, HeadraceError
from headrace.pipeline.core.settings import digest
from headrace.pipeline.experiments.measures import Reading, read
from headrace.pipeline.output.terminal import show_table
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.run_execution import carry_out, check_start
from headrace.pipeline.run.run_results import accuracies, percent, validation_loss
from headrace.pipeline.run.saved_run import DEFAULT_ROOT, SavedRun, run_file
from headrace.pipeline.tracking.wandb_run import grouped
from headrace.train.cost.flops import Compute

Wanted = TypeVar("Wanted")
CarriedOut = TypeVar("CarriedOut")

NOT_STARTED, STARTED, DONE = "not started", "started", "done"
NO_VALUE = "–"


@dataclasses.dataclass(frozen=True)
class Arm:
    """One run that is compared, with its settings."""

    name: str
    """The name for readers; a ladder of one size has none."""
    overrides: tuple[str, ...]
    values: Mapping[str, Any]
    """The composed settings."""
    config: RunConfig
    seed: int = 0

    @classmethod
    def of(cls, name: str, overrides: Sequence[str], seed: int = 0) -> Self:
        """Returns the arm ``name`` with the settings of ``overrides``.

        Raises:
            ConfigError: when a setting is wrong.
        """
        values = compose(overrides)
        return cls(name, tuple(overrides), values, decoded(values), seed)

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"

    @cached_property
    def compute(self) -> Compute:
        """The parameters, tokens and operations of the training, as ``headrace plan`` counts them."""
        config = self.config
        row_tokens, targets = config.packing.row_tokens, config.target_tokens
        return Compute.of(config.model, config.vocabulary, row_tokens, config.training, targets)


AnyArm = TypeVar("AnyArm", bound=Arm)


@dataclasses.dataclass(frozen=True)
class ArmResult:
    """The state of the run of an arm, and its measures."""

    arm: str
    """The name of the arm."""
    state: str
    id: str = ""
    """The id of the run; empty: it was not started."""
    reading: Reading | None = None
    """None before its end."""
    seed: int = 0

    def value(self, measure: str) -> float | None:
        """Returns what was measured; None where the run does not have it."""
        values = self.reading.values if self.reading else {}
        return values[measure].value if measure in values else None


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
            where, remedy = f"{name}: {error.where}", f"{error.remedy} (nothing was started)"
            raise type(error)(where, error.problem, remedy) from None
        checked |= {stage.address for stage in run.stages}
        runs.append(run)
    return runs


def carried_out(values: Mapping[str, Any], overrides: Sequence[str], starts: bool, last: str = "weights") -> Run:
    """Plans the run of the composed ``values``, and carries it out unless the stage ``last`` was finished before.

    Without ``starts`` nothing is carried out.
    """
    run = planned(values, overrides)
    if starts and not (_is_done(run, last) and run.run_json.is_file()):
        with contextlib.redirect_stdout(sys.stderr):
            carry_out(run)
    return run


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
    for number, training in enumerate(wanted, 1):
        if starts:
            print(f"{label}: {number} of {len(wanted)}: {training}", file=sys.stderr, flush=True)
        try:
            outcomes.append(carry(training))
        except HeadraceError as error:
            errors.append(error)
            outcomes.append(failed(training, f"failed: {error}"))
    return outcomes, errors


def arm_results(
    label: str, arms: Sequence[AnyArm], sources: Mapping[str, str], last: str, starts: bool
) -> tuple[list[ArmResult], list[HeadraceError]]:
    """Returns the results of ``arms``, and the errors of those that failed; the others are carried out all the same.

    Args:
        label: the beginning of the line that is printed before each.
        arms: in their order. Seeds of one name need the same, so the first is checked for all.
        sources: measure → where it is read (measures.py).
        last: the stage that the runs end with.
        starts: whether missing runs are started; without it nothing is printed.

    Raises:
        HeadraceError: when one could not start, naming it. Then none is started.
    """
    if starts:
        all_checked((arm, arm.values, arm.overrides) for arm in arms if arm.seed == 0)
    return all_carried_out(
        label,
        arms,
        starts,
        lambda arm: _result(arm, sources, last, starts),
        lambda arm, state: ArmResult(arm.name, state, seed=arm.seed),
    )


def _result(arm: Arm, sources: Mapping[str, str], last: str, starts: bool) -> ArmResult:
    """Carries out ``arm``; a finished run is read from its run.json, without planning it."""
    file = run_file(arm.config.root, arm.config.id)
    if starts and not (file.is_file() and _is_done(SavedRun.read(file), last)):
        carried_out(arm.values, arm.overrides, starts, last)
    if not file.is_file():
        return ArmResult(arm.name, NOT_STARTED, seed=arm.seed)
    run = SavedRun.read(file)
    if not _is_done(run, last):
        return ArmResult(arm.name, STARTED, run.id, seed=arm.seed)
    return ArmResult(arm.name, DONE, run.id, read(sources, run.stages, arm.config.vocabulary), arm.seed)


def _is_done(run: Run | SavedRun, last: str) -> bool:
    """Whether the stage ``last`` is finished; run.json holds the stages that its runs went up to."""
    return any(stage.name == last and stage.is_whole for stage in run.stages)


def state_of(run: Run, last: str = "weights") -> str:
    """Returns ``done`` when the stage ``last`` is finished, ``started`` or ``not started``."""
    return DONE if _is_done(run, last) else STARTED if run.run_json.is_file() else NOT_STARTED


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
        show_sweep(swept)
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


def show_sweep(swept: Sequence[SweptRun]) -> None:
    """Prints the table of the runs ``swept``, and the command that compares them."""
    settings = differing_overrides(swept)
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


def differing_overrides(swept: Sequence[SweptRun]) -> list[str]:
    """Returns the settings whose values differ between the runs ``swept``."""
    keys = dict.fromkeys(key for row in swept for key in row.settings)
    return [key for key in keys if len({row.settings.get(key) for row in swept}) > 1]
