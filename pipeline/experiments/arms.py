"""Arms: runs that are compared. Checks and carries out all of them, and skips those that are finished.

    grid of a ladder | arms and seeds of a study ──> Arm ── arm_results ──> ArmResult: its state, and what it measured

Their state is that of the runs, so the same command goes on after an interruption. On a cluster a run is submitted.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from typing_extensions import Self

from headrace.pipeline.command_line.request import planned
from headrace.pipeline.command_line.run_start import planned_start
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.experiments.measures import Reading, read
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.run_execution import carry_out, check_start
from headrace.pipeline.run.saved_run import SavedRun, run_file
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
