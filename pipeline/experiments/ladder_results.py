"""Carries out a ladder, and shows what follows from its finished trainings (law.py).

trainings ──> best rates ──> law of rates
                  │
                  └──> law of the loss ──> size, tokens and rate for a budget
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.command_line.result_files import Captioned, Results, TextTable, write_files
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.settings import PositiveNumber, digest, value_of
from headrace.pipeline.core.statistics import IntervalEnds
from headrace.pipeline.experiments import law as laws
from headrace.pipeline.experiments.arms import DONE, NO_VALUE, ArmResult, arm_results
from headrace.pipeline.experiments.grid import EPOCHS, LOSS, MEASURES, Grid, Rung
from headrace.pipeline.experiments.law import (
    MIN_SIZES,
    BestRate,
    FinishedTraining,
    Law,
    Optimum,
    RateLaw,
    best_rates,
    rate_law,
)
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.report.drawing import MUTED, SERIES, Figure, Points, base_layout, figure_of, line
from headrace.pipeline.report.formatting import NONE, short
from headrace.pipeline.run.costs import Hardware
from headrace.pipeline.tracking.wandb_run import grouped
from headrace.train.cost.flops import HOUR_SECONDS, PEAK_FLOPS

Flops = Annotated[float, Field(gt=0)]
FAR = 10
"""The multiple of the operations of the largest training from which on a recommendation has a warning."""
MAX_EPOCHS = 4
"""Passes over the same rows up to which they are worth nearly as much as new ones (Muennighoff et al. 2023)."""
CURVE_POINTS = 60
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
    factor: float
    """The budget over the operations of the largest training of the ladder."""

    @classmethod
    def of(
        cls, law: Law, drawn: Sequence[Law], rates: RateLaw | None, flops: float, largest: float
    ) -> "Recommendation":
        """Returns what ``law`` says about ``flops``, with intervals by the laws ``drawn``; ``largest`` in FLOP, too."""
        optimum, others = law.optimum(flops), [other.optimum(flops) for other in drawn]
        intervals = [laws.interval([other[axis] for other in others]) for axis in range(len(optimum))]
        rate = None if rates is None else rates.rate(optimum.parameters, optimum.tokens)
        return cls(flops, optimum, intervals, rate, flops / largest)

    def facts(self) -> Iterator[Fact]:
        """Yields the budget, the size, the tokens, the loss and the rate; a warning about an extrapolation."""
        sizes, tokens, losses = self.intervals
        yield "budget", f"{self.flops:.3g} FLOP, {self.factor:,.3g} times the largest training of the ladder"
        yield "size", f"{short(self.optimum.parameters)} parameters [{', '.join(map(short, sizes))}]"
        yield "tokens", f"{short(self.optimum.tokens)} [{', '.join(map(short, tokens))}]"
        yield "loss", f"{self.optimum.loss:.3f} {_ends(losses)} nats per token"
        yield "learning rate", NONE if self.rate is None else f"{self.rate:.2g}"
        if self.factor > FAR:
            yield (
                "warning",
                f"more than {FAR} times the largest training: the intervals are too narrow",
            )


@dataclasses.dataclass(frozen=True)
class Analysis:
    """All that follows from the finished trainings of a ladder."""

    trainings: Sequence[FinishedTraining]
    best: Sequence[BestRate]
    rates: RateLaw | None
    law: Law | None
    resampled: Sequence[Law]
    """Laws of trainings drawn with replacement."""
    recommendation: Recommendation | None

    @classmethod
    def of(cls, trainings: Sequence[FinishedTraining], chance: float, flops: float | None) -> "Analysis":
        """Analyses ``trainings``, of which those at chance are left out.

        Args:
            trainings: finished ones, at least one.
            chance: the loss of a model that knows nothing, in nats per token.
            flops: the budget; None: none.

        Raises:
            TaskError: when no training is better than chance.
        """
        learned = [training for training in trainings if training.loss < chance]
        if not learned:
            problem = f"no training is better than chance, {chance:.3f} nats a token: the lowest loss is"
            problem += f" {min(training.loss for training in trainings):.3f}"
            raise TaskError("ladder", problem, "train on more tokens, or give other rates")
        best = best_rates(learned)
        law = laws.fit(best) if laws.is_enough(best) else None
        drawn = laws.resampled(best, law) if law else []
        rates, recommended = rate_law(best), None
        if law and flops is not None:
            recommended = Recommendation.of(law, drawn, rates, flops, max(measured.flops for measured in best))
        return cls(learned, best, rates, law, drawn, recommended)

    def notes(self) -> Iterator[str]:
        """Yields a sentence with what a law lacks, or about constants of the law at a bound of the fit."""
        if self.law is None:
            sizes, tokens = (len({best[axis] for best in self.best}) for axis in (0, 1))
            needed = f"{MIN_SIZES} sizes and {MIN_SIZES} token counts with losses"
            yield f"No law of the loss: it needs {needed}, and there are {sizes} and {tokens}."
        elif at_bound := self.law.at_bounds():
            yield (
                f"The trainings do not determine the law: {', '.join(at_bound)} reached a bound of the fit."
                " Give more sizes and token counts, further apart."
            )

    def constants(self) -> dict[str, tuple[float, IntervalEnds]]:
        """Returns each constant of the law, and of the best size by operations, with its interval."""
        if self.law is None:
            return {}
        values = {name: [getattr(law, name) for law in (self.law, *self.resampled)] for name in CONSTANTS}
        return {name: (value, laws.interval(drawn)) for name, (value, *drawn) in values.items()}

    def facts(self) -> Iterator[Fact]:
        """Yields the laws and the recommendation."""
        if (rates := self.rates) is not None:
            exponents = f"N^{rates.parameters_exponent:.2f} · D^{rates.tokens_exponent:.2f}"
            yield "best rate", f"{rates.constant:.3g} · {exponents}"
        if self.law is not None:
            yield "law", "loss = E + A / N^α + B / D^β; N all parameters, D tokens"
            for name, (value, ends) in self.constants().items():
                yield CONSTANTS[name], f"{value:.3g} {_ends(ends)}"
        if self.recommendation is not None:
            yield from self.recommendation.facts()

    def best_table(self) -> TextTable:
        """Returns the best rate of each size and token count, below a header."""
        rows = [["parameters", "tokens", "best rate", "loss"]]
        for best in self.best:
            rate = f"{best.rate:.3g}" + ("" if best.is_inside else ", no minimum between the rates")
            rows.append([f"{best.parameters:,.0f}", f"{best.tokens:,.0f}", rate, f"{best.loss:.4f}"])
        return rows

    def as_json(self) -> dict[str, Any]:
        """Returns plain values: arms, best rates, laws and the recommendation."""
        recommended = self.recommendation
        return {
            "arms": [training._asdict() for training in self.trainings],
            "best_rates": [measured._asdict() for measured in self.best],
            "rate_law": self.rates and self.rates._asdict(),
            "law": {name: {"value": value, "interval": ends} for name, (value, ends) in self.constants().items()},
            "recommendation": recommended
            and dataclasses.asdict(recommended) | {"optimum": recommended.optimum._asdict()},
        }

    def figures(self, budget: float | None) -> Captioned:
        """Returns the figures that the trainings allow; ``budget`` is in FLOP."""
        drawn = []
        if len({training.rate for training in self.trainings}) > 1:
            by_rate = itertools.groupby(sorted(self.trainings), lambda training: training[:2])
            lines = {
                f"{short(size)} parameters, {short(tokens)} tokens": [(run.rate, run.loss) for run in group]
                for (size, tokens), group in by_rate
            }
            figure = _chart("rates", lines, [], "peak learning rate")
            drawn.append((figure, "Validation loss by peak learning rate."))
        for axis, unit, of_law in (("tokens", "tokens", "the law"), ("flops", "FLOP", "the law at the best size")):
            sizes: dict[float, list[tuple[float, float]]] = {}
            for best in sorted(self.best):
                sizes.setdefault(best.parameters, []).append((getattr(best, axis), best.loss))
            if len({getattr(best, axis) for best in self.best}) > 1:
                lines = {f"{short(size)} parameters": points for size, points in sizes.items()}
                figure = _chart(f"by-{axis}", lines, self._law_curves(axis, sizes, budget), unit)
                drawn.append((figure, f"Loss at the best rate by {unit} of the training. Dashed: {of_law}."))
        return drawn

    def _law_curves(
        self, axis: str, sizes: Mapping[float, Points], budget: float | None
    ) -> Sequence[tuple[str, Points]]:
        """Returns the colour and the points of each curve of the law."""
        if (law := self.law) is None:
            return []
        if axis == "tokens":
            colours = zip(itertools.cycle(SERIES), sizes.items())
            return [(colour, _curve(functools.partial(law.loss, size), points)) for colour, (size, points) in colours]
        ends = [*itertools.chain(*sizes.values()), *([] if budget is None else [(budget, 0.0)])]
        return [(MUTED, _curve(lambda x: law.optimum(x).loss, ends))]


def _curve(loss: Callable[[float], float], points: Points) -> Points:
    """Returns ``loss`` between the first and the last of ``points``."""
    xs = [x for x, _ in points]
    return [(x, loss(x)) for x in np.geomspace(min(xs), max(xs), CURVE_POINTS).tolist()]


def _chart(id: str, lines: Mapping[str, Points], curves: Sequence[tuple[str, Points]], x: str) -> Figure:
    """Returns losses over ``x``, a line for each name, and dashed ``curves`` with their colours."""
    traces = [line(name, points, colour) for colour, (name, points) in zip(itertools.cycle(SERIES), lines.items())]
    for colour, points in curves:
        dashed = line("law", points, colour, 1.5, mode="lines", showlegend=False, hoverinfo="skip", hovertemplate=None)
        traces.append(dashed.update(line_dash="dash"))
    layout = base_layout(360, x=x, y="nats per token")
    layout.update(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0})
    layout["xaxis"].update(type="log", showgrid=True)
    return figure_of(id, traces, layout, f"Loss by {x}")


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
        results, errors = arm_results("ladder", rungs, MEASURES, "weights", starts)
    tables = [("trainings", "Trainings", trainings_table(rungs, results))]
    lede, total = f"Headrace ladder of {len(rungs)} trainings", sum(rung.compute.flops for rung in rungs)
    finished = [
        FinishedTraining(rung.compute.parameters, rung.compute.tokens, rung.rate, rung.compute.flops, loss)
        for rung, result in zip(rungs, results, strict=True)
        if (loss := result.value(LOSS)) is not None
    ]
    if finished:
        analysis = Analysis.of(finished, math.log(config.vocabulary), flops)
        tables.append(("best-rates", "Best learning rates", analysis.best_table()))
        notes = [*analysis.notes(), *notes_of(results)]
        shown = Results(config.name or "Ladder", lede, tables, list(analysis.facts()), notes)
        shown.show()
        write_files(json_file, analysis.as_json(), page, lambda: shown.page(analysis.figures(flops)))
    else:
        Results("Ladder", lede, tables, notes=[f"{total:.3g} FLOP in all; no training is finished"]).show()
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


def _ends(interval: IntervalEnds) -> str:
    return f"[{', '.join(f'{end:.3g}' for end in interval)}]"
