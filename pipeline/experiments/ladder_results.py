"""Carries out a ladder, and shows what follows from its finished trainings.

trainings ──> best rates ──> law of rates
                  │
                  └──> IsoFLOP profiles, law of the loss ──> size, tokens and rate for a budget
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.settings import PositiveNumber, digest, value_of
from headrace.pipeline.core.statistics import IntervalEnds
from headrace.pipeline.experiments import law as laws
from headrace.pipeline.experiments.arms import DONE, NO_VALUE, ArmResult, TextTable
from headrace.pipeline.experiments.figures import ladder_figures
from headrace.pipeline.experiments.grid import EPOCHS, LOSS, Grid, Rung, carry_out_rungs
from headrace.pipeline.experiments.law import MIN_SIZES, Law, LossMeasurement, Optimum
from headrace.pipeline.experiments.optima import (
    BestRate,
    FinishedTraining,
    IsoFlop,
    RateLaw,
    best_rates,
    iso_flops,
    rate_law,
)
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact, show_lines
from headrace.pipeline.report.formatting import NONE, short
from headrace.pipeline.run.costs import Hardware
from headrace.pipeline.tracking.settings import grouped
from headrace.train.cost.flops import HOUR_SECONDS, PEAK_FLOPS

Flops = Annotated[float, Field(gt=0)]
FAR, TOO_FAR = 10, 100
"""Multiples of the operations of the largest training from which on a recommendation has a warning."""
MAX_EPOCHS = 4
"""Passes over the same rows up to which they are worth nearly as much as new ones (Muennighoff et al. 2023)."""
MAX_RATIO = 1_000
"""Intervals whose upper end is more than this multiple of the lower end are not informative: only this is shown."""
CONSTANTS = {
    "floor": "E, nats per token",
    "a": "A",
    "alpha": "α",
    "b": "B",
    "beta": "β",
    "size_exponent": "size exponent",
}
"""Constants of the law → their names for readers."""


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The training for a budget that the law predicts to be best."""

    flops: float
    optimum: Optimum
    intervals: Sequence[IntervalEnds]
    """Intervals of parameters, tokens and loss."""
    rate: float | None
    """The learning rate; None when no best rate is known."""
    rate_interval: IntervalEnds | None
    factor: float
    """The budget over the operations of the largest training of the ladder."""

    @classmethod
    def of(
        cls, law: Law, drawn: Sequence[Law], rates: RateLaw | None, flops: float, largest: float
    ) -> "Recommendation":
        """Returns what ``law`` says about ``flops``, with intervals by the laws ``drawn``; ``largest`` in FLOP, too."""
        optimum, others = law.optimum(flops), [other.optimum(flops) for other in drawn]
        intervals = [laws.interval([other[axis] for other in others]) for axis in range(len(optimum))]
        size = optimum.parameters, optimum.tokens
        rate, ends = (None, None) if rates is None else (rates.rate(*size), rates.interval(*size))
        if rate is not None and not math.isfinite(rate):
            rate, ends = None, None
        return cls(flops, optimum, intervals, rate, ends, flops / largest)

    @property
    def warning(self) -> str:
        """A warning about the extrapolation; empty within 10 times the largest training."""
        times = f"{self.factor:,.0f} times the largest training of the ladder"
        if self.factor > TOO_FAR:
            return f"{times}: no more than a guess; train larger sizes first"
        if self.factor > FAR:
            return f"{times}: expect errors beyond the intervals, which know nothing of a law that bends"
        return ""

    def facts(self) -> Iterator[Fact]:
        """Yields the budget, the size, the tokens, the loss and the rate, and the warning."""
        sizes, tokens, losses = self.intervals
        times = f"{self.factor:,.3g} times the largest training of the ladder"
        yield "budget", f"{self.flops:.3g} FLOP, {times}"
        yield "size", f"{short(self.optimum.parameters)} parameters [{', '.join(map(short, sizes))}]"
        yield "tokens", f"{short(self.optimum.tokens)} [{', '.join(map(short, tokens))}]"
        yield "loss", f"{self.optimum.loss:.3f} {_ends(losses, '.3f')} nats per token"
        yield "learning rate", NONE if self.rate is None else f"{self.rate:.2g} {_rate_ends(self.rate_interval)}"
        if self.warning:
            yield "warning", self.warning


@dataclasses.dataclass(frozen=True)
class Analysis:
    """All that follows from the finished trainings of a ladder."""

    arms: Sequence[FinishedTraining]
    best: Sequence[BestRate]
    rates: RateLaw | None
    profiles: Sequence[IsoFlop]
    law: Law | None
    resampled: Sequence[Law]
    """Laws of arms drawn with replacement."""
    recommendation: Recommendation | None

    @classmethod
    def of(cls, arms: Sequence[FinishedTraining], chance: float, flops: float | None) -> "Analysis":
        """Analyses ``arms``, of which those at chance are left out.

        Args:
            arms: finished trainings, at least one.
            chance: the loss of a model that knows nothing, in nats per token.
            flops: the budget; None: none.

        Raises:
            TaskError: when no training is better than chance.
        """
        learned = [arm for arm in arms if arm.loss < chance]
        if not learned:
            problem = f"no training is better than chance, {chance:.3f} nats a token: the lowest loss is"
            problem += f" {min(arm.loss for arm in arms):.3f}"
            raise TaskError("ladder", problem, "train on more tokens, or give other rates")
        best = best_rates(learned)
        points = [LossMeasurement(measured.parameters, measured.tokens, measured.loss) for measured in best]
        law = laws.fit(points) if laws.is_enough(points) else None
        drawn = laws.resampled(points, law) if law else []
        rates, recommended = rate_law(best), None
        if law and flops is not None:
            recommended = Recommendation.of(law, drawn, rates, flops, max(measured.flops for measured in best))
        return cls(learned, best, rates, iso_flops(best), law, drawn, recommended)

    def notes(self) -> Iterator[str]:
        """Yields a sentence with what a law lacks, or about constants of the law at a bound of the fit."""
        if self.law is None:
            sizes, tokens = (len({getattr(best, axis) for best in self.best}) for axis in ("parameters", "tokens"))
            needed = f"{MIN_SIZES} sizes and {MIN_SIZES} token counts with losses"
            yield f"No law of the loss: it needs {needed}, and there are {sizes} and {tokens}."
        elif at_bound := self.law.at_bounds():
            constants = "the constant" if len(at_bound) == 1 else "the constants"
            yield (
                f"The trainings do not determine the law: {constants} {', '.join(at_bound)} reached a bound of the fit."
                " Give more sizes and token counts, further apart."
            )

    def constants(self) -> dict[str, tuple[float, IntervalEnds]]:
        """Returns each constant of the law, and of the best size by operations, with its interval."""
        if self.law is None:
            return {}
        values = {name: [getattr(law, name) for law in (self.law, *self.resampled)] for name in CONSTANTS}
        return {name: (value, laws.interval(drawn)) for name, (value, *drawn) in values.items()}

    def facts(self) -> Iterator[Fact]:
        """Yields the laws, the minima at equal operations, and the recommendation."""
        if (rates := self.rates) is not None:
            exponents = f"N^{rates.parameters_exponent:.2f} · D^{rates.tokens_exponent:.2f}"
            yield "best rate", f"{math.exp(rates.constant):.3g} · {exponents}"
        for profile in self.profiles:
            size = "not between the sizes" if profile.parameters is None else f"{short(profile.parameters)} parameters"
            yield f"at {profile.flops:.2g} FLOP", f"best size: {size}, of {len(profile.sizes)} sizes compared"
        if self.law is not None:
            yield "law", "loss = E + A / N^α + B / D^β; N all parameters, D tokens"
            for name, (value, ends) in self.constants().items():
                yield CONSTANTS[name], f"{value:.3g} {_ends(ends, '.3g')}"
        if self.recommendation is not None:
            yield from self.recommendation.facts()

    def best_table(self) -> TextTable:
        """Returns the best rate of each size and token count, below a header."""
        rows = [["parameters", "tokens", "best rate", "95 % interval", "loss"]]
        for best in self.best:
            ends = _rate_ends(best.interval) if best.is_inside else "no minimum between the rates"
            sizes = [f"{best.parameters:,.0f}", f"{best.tokens:,.0f}"]
            rows.append([*sizes, f"{best.rate:.3g}", ends, f"{best.loss:.4f}"])
        return rows

    def as_json(self) -> dict[str, Any]:
        """Returns plain values: arms, best rates, profiles, laws and the recommendation."""
        recommended = self.recommendation
        return {
            "arms": [arm._asdict() for arm in self.arms],
            "best_rates": [dataclasses.asdict(measured) for measured in self.best],
            "rate_law": self.rates
            and {name: getattr(self.rates, name) for name in ("constant", "parameters_exponent", "tokens_exponent")},
            "iso_flops": [profile._asdict() for profile in self.profiles],
            "law": {name: {"value": value, "interval": ends} for name, (value, ends) in self.constants().items()},
            "recommendation": recommended
            and dataclasses.asdict(recommended)
            | {"optimum": recommended.optimum._asdict(), "warning": recommended.warning},
        }


def climb(
    overrides: Sequence[str],
    grid: tuple[str, str, str],
    budget: tuple[str, str, str],
    page: Path | None,
    json_file: Path | None,
    starts: bool,
) -> None:
    """Carries out the ladder of ``grid`` (sizes, rates, tokens) around ``overrides``, and shows its results.

    Args:
        overrides: the settings of all trainings.
        grid: values separated by commas, as the user typed them.
        budget: FLOP or hours, the GPU, its MFU; empty texts: no budget, and defaults.
        page: the HTML file to write.
        json_file: the JSON file to write.
        starts: whether missing trainings are started.

    Raises:
        ConfigError: when a value is wrong, or the grid too small for a budget; nothing was started.
        HeadraceError: the first error of a training, after the results; or no training is better than chance.
    """
    config, flops = config_of(overrides), flops_of(*budget)
    rungs = Grid(*grid).rungs(overrides)
    if flops is not None:
        check_budget(len({rung.compute.parameters for rung in rungs}), len({rung.compute.tokens for rung in rungs}))
    with grouped(config.name or f"ladder-{digest([*sorted(overrides), *grid])}"):
        results, errors = carry_out_rungs(rungs, starts)
    trained = trainings_table(rungs, results)
    show_lines(trained[0], trained[1:])
    finished = (_finished(rung, result) for rung, result in zip(rungs, results, strict=True))
    if arms := [arm for arm in finished if arm is not None]:
        analysis = Analysis.of(arms, math.log(config.vocabulary), flops)
        best, facts, notes = analysis.best_table(), list(analysis.facts()), [*analysis.notes(), *notes_of(results)]
        print()
        show_lines(best[0], best[1:])
        if facts:
            print()
            terminal.show(facts)
        if notes:
            print("", *notes, sep="\n")

        def page_values() -> dict[str, object]:
            tables = [("trainings", "Trainings", trained), ("best-rates", "Best learning rates", best)]
            figures = ladder_figures(analysis.arms, analysis.best, analysis.profiles, analysis.law, flops)
            values = {"title": config.name or "Ladder", "lede": f"Headrace ladder of {len(rungs)} trainings"}
            return values | {"facts": facts, "notes": notes, "figures": figures, "tables": tables}

        write_files(json_file, analysis.as_json(), page, page_values)
    else:
        print("", f"{sum(rung.compute.flops for rung in rungs):.3g} FLOP in all; no training is finished", sep="\n")
    if errors:
        raise errors[0]


def check_budget(sizes: int, tokens: int) -> None:
    """Refuses a grid that can have no law, before anything is trained.

    Raises:
        ConfigError: with the numbers of sizes and token counts.
    """
    if min(sizes, tokens) < MIN_SIZES:
        problem = f"a law needs {MIN_SIZES} sizes and {MIN_SIZES} token counts, and the grid has {sizes} and {tokens}"
        raise ConfigError("--budget", problem, "give more --sizes and --tokens, or no --budget")


def flops_of(budget: str, gpu: str, mfu: str) -> float | None:
    """Returns the FLOP of a budget: a number, or hours of a GPU that reaches ``mfu`` of its peak. None: no budget.

    Raises:
        ConfigError: when a value is wrong, or a GPU is given without hours.
    """
    hardware = Hardware.of("", gpu, mfu, "")
    hours = budget.removesuffix("h")
    if (gpu or mfu) and hours == budget:
        raise ConfigError("--gpu" if gpu else "--mfu", "is for a budget in hours", "give --budget HOURSh")
    if not budget:
        return None
    if hours == budget:
        return float(value_of(Flops, budget, "--budget"))
    flops_per_hour = HOUR_SECONDS * PEAK_FLOPS[hardware.gpu] * hardware.mfu
    return float(value_of(PositiveNumber, hours, "--budget")) * flops_per_hour


def trainings_table(rungs: Sequence[Rung], results: Sequence[ArmResult]) -> TextTable:
    """Returns the trainings with their sizes, losses and states, below a header."""
    rows = [["size", "parameters", "tokens", "learning rate", "FLOP", "epochs", "loss", "state"]]
    for rung, result in zip(rungs, results, strict=True):
        compute, loss = rung.compute, result.value(LOSS)
        epochs = f"{result.value(EPOCHS) or 0.0:.2f}" if result.state == DONE else NO_VALUE
        sizes = [rung.name or NO_VALUE, f"{compute.parameters:,}", f"{compute.tokens:,}", f"{rung.rate:g}"]
        shown = NO_VALUE if loss is None else f"{loss:.4f}"
        rows.append([*sizes, f"{compute.flops:.3g}", epochs, shown, result.state])
    return rows


def notes_of(results: Sequence[ArmResult]) -> Iterator[str]:
    """Yields sentences about trainings that are not what the law assumes, or not there yet."""
    if left := sum(result.state != DONE for result in results):
        yield f"{left} of {len(results)} trainings have no result yet; the same command goes on."
    if (epochs := max((result.value(EPOCHS) or 0.0 for result in results), default=0.0)) > MAX_EPOCHS:
        yield (
            f"A training read its rows {epochs:.1f} times. Beyond about {MAX_EPOCHS} times, a repeated token is worth"
            " less than a new one (Muennighoff et al. 2023), and the law knows only new ones."
        )


def _finished(rung: Rung, result: ArmResult) -> FinishedTraining | None:
    compute, loss = rung.compute, result.value(LOSS)
    if loss is None:
        return None
    return FinishedTraining(compute.parameters, compute.tokens, rung.rate, compute.flops, loss)


def _ends(interval: IntervalEnds | None, form: str) -> str:
    return "unknown" if interval is None else f"[{', '.join(format(end, form) for end in interval)}]"


def _rate_ends(interval: IntervalEnds | None) -> str:
    """Returns the interval of a rate; in words where the trainings say nothing."""
    if interval is not None and interval[1] > MAX_RATIO * interval[0]:
        return f"wider than a factor of {MAX_RATIO:,}"
    return _ends(interval, ".2g")
