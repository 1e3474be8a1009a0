"""Carries out a ladder and shows what follows from it: tables in the terminal, a page, JSON."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import PositiveNumber, digest, value_of
from headrace.pipeline.experiments.analysis import Analysis, Recommendation, check_budget
from headrace.pipeline.experiments.arms import DONE
from headrace.pipeline.experiments.grid import Grid
from headrace.pipeline.experiments.ladder_figures import figures
from headrace.pipeline.experiments.ladder_trainings import LadderTraining, trainings
from headrace.pipeline.experiments.optima import IntervalEnds
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact, show_lines
from headrace.pipeline.report.formatting import NONE, short
from headrace.pipeline.run.costs import Hardware
from headrace.pipeline.tracking.settings import grouped
from headrace.train.cost.flops import PEAK_FLOPS

HOUR_SECONDS = 3600
Flops = Annotated[float, Field(gt=0)]
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
    config = config_of(overrides)
    flops = flops_of(*budget)
    rungs = Grid(*grid).rungs(overrides)
    if flops is not None:
        check_budget(len({rung.compute.parameters for rung in rungs}), len({rung.compute.tokens for rung in rungs}))
    with grouped(config.name or f"ladder-{digest([*sorted(overrides), *grid])}"):
        climbed, errors = trainings(rungs, starts)
    arms = [arm for training in climbed if (arm := training.arm)]
    tables = [("trainings", "Trainings", table_of(climbed))]
    show_lines(tables[0][2][0], tables[0][2][1:])
    notes = list(notes_of(climbed))
    if arms:
        analysis = Analysis.of(arms, math.log(config.vocabulary), flops)
        tables.append(("best-rates", "Best learning rates", best_table(analysis)))
        notes = [*filter(None, [analysis.missing, analysis.undetermined]), *notes]
        results = list(results_of(analysis))
        _print(tables[1][2], results, notes)

        def page_values() -> dict[str, object]:
            lede = f"Headrace ladder of {len(climbed)} trainings"
            values = {"title": config.name or "Ladder", "lede": lede, "facts": results, "notes": notes}
            return values | {"figures": figures(analysis), "tables": tables}

        write_files(json_file, analysis.as_json(), page, page_values)
    else:
        print("", f"{sum(rung.compute.flops for rung in rungs):.3g} FLOP in all; no training is finished", sep="\n")
    if errors:
        raise errors[0]


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


def table_of(climbed: Sequence[LadderTraining]) -> list[list[str]]:
    """Returns the trainings with their sizes, losses and states, below a header."""
    head = ["size", "parameters", "tokens", "learning rate", "FLOP", "epochs", "loss", "state"]
    rows = []
    for training in climbed:
        compute = training.rung.compute
        loss = "–" if training.loss is None else f"{training.loss:.4f}"
        epochs = f"{training.epochs:.2f}" if training.state == DONE else "–"
        sizes = [training.rung.size or "–", f"{compute.parameters:,}", f"{compute.tokens:,}"]
        rows.append([*sizes, f"{training.rung.rate:g}", f"{compute.flops:.3g}", epochs, loss, training.state])
    return [head, *rows]


def best_table(analysis: Analysis) -> list[list[str]]:
    """Returns the best rate of each size and token count, below a header."""
    head = ["parameters", "tokens", "best rate", "95 % interval", "loss"]
    rows = []
    for measured in analysis.best:
        ends = _rate_ends(measured.interval) if measured.is_inside else "no minimum between the rates"
        rows.append(
            [
                f"{measured.parameters:,.0f}",
                f"{measured.tokens:,.0f}",
                f"{measured.rate:.3g}",
                ends,
                f"{measured.loss:.4f}",
            ]
        )
    return [head, *rows]


def results_of(analysis: Analysis) -> Iterator[Fact]:
    """Yields the laws, the minima at equal operations, and the recommendation."""
    if (rates := analysis.rates) is not None:
        exponents = f"N^{rates.parameters_exponent:.2f} · D^{rates.tokens_exponent:.2f}"
        yield "best rate", f"{math.exp(rates.constant):.3g} · {exponents}"
    for profile in analysis.profiles:
        size = "not between the sizes" if profile.parameters is None else f"{short(profile.parameters)} parameters"
        yield f"at {profile.flops:.2g} FLOP", f"best size: {size}, of {len(profile.sizes)} sizes compared"
    if analysis.law is not None:
        yield "law", "loss = E + A / N^α + B / D^β; N all parameters, D tokens"
        for name, (value, ends) in analysis.exponents().items():
            yield CONSTANTS[name], f"{value:.3g} {_ends(ends, '.3g')}"
    if analysis.recommendation is not None:
        yield from _recommended(analysis.recommendation)


def _recommended(recommendation: Recommendation) -> Iterator[Fact]:
    sizes, tokens, losses = recommendation.intervals
    yield (
        "budget",
        f"{recommendation.flops:.3g} FLOP, {recommendation.factor:,.3g} times the largest training of the ladder",
    )
    yield "size", f"{short(recommendation.optimum.parameters)} parameters [{', '.join(map(short, sizes))}]"
    yield "tokens", f"{short(recommendation.optimum.tokens)} [{', '.join(map(short, tokens))}]"
    yield "loss", f"{recommendation.optimum.loss:.3f} {_ends(losses, '.3f')} nats per token"
    rate = (
        NONE if recommendation.rate is None else f"{recommendation.rate:.2g} {_rate_ends(recommendation.rate_interval)}"
    )
    yield "learning rate", rate
    if recommendation.warning:
        yield "warning", recommendation.warning


def notes_of(climbed: Sequence[LadderTraining]) -> Iterator[str]:
    """Yields sentences about trainings that are not what the law assumes, or not there yet."""
    if left := sum(training.state != DONE for training in climbed):
        yield f"{left} of {len(climbed)} trainings have no result yet; the same command goes on."
    if (epochs := max((training.epochs for training in climbed), default=0.0)) > MAX_EPOCHS:
        yield (
            f"A training read its rows {epochs:.1f} times. Beyond about {MAX_EPOCHS} times, a repeated token is worth"
            " less than a new one (Muennighoff et al. 2023), and the law knows only new ones."
        )


def _ends(interval: IntervalEnds | None, form: str) -> str:
    return "unknown" if interval is None else f"[{', '.join(format(end, form) for end in interval)}]"


def _rate_ends(interval: IntervalEnds | None) -> str:
    """Returns the interval of a rate; in words where the trainings say nothing."""
    if interval is not None and interval[1] > MAX_RATIO * interval[0]:
        return f"wider than a factor of {MAX_RATIO:,}"
    return _ends(interval, ".2g")


def _print(best: Sequence[Sequence[str]], results: Sequence[Fact], notes: Sequence[str]) -> None:
    print()
    show_lines(best[0], best[1:])
    if results:
        print()
        terminal.show(results)
    if notes:
        print("", *notes, sep="\n")
