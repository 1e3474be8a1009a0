"""The results of a ladder: best rates, IsoFLOP profiles, the law of the loss, and the recommendation for a budget."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.experiments import law as laws
from headrace.pipeline.experiments.law import MIN_SIZES, Law, LossMeasurement, Optimum
from headrace.pipeline.experiments.optima import (
    BestRate,
    FinishedTraining,
    IntervalEnds,
    IsoFlop,
    RateLaw,
    best_rates,
    iso_flops,
    rate_law,
)

FAR, TOO_FAR = 10, 100
"""Multiples of the operations of the largest training from which on a recommendation has a warning."""


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

    @property
    def warning(self) -> str:
        """A warning about the extrapolation; empty within 10 times the largest training."""
        times = f"{self.factor:,.0f} times the largest training of the ladder"
        if self.factor > TOO_FAR:
            return f"{times}: no more than a guess; train larger sizes first"
        if self.factor > FAR:
            return f"{times}: expect errors beyond the intervals, which know nothing of a law that bends"
        return ""


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
        rates = rate_law(best)
        recommended = None
        if law and flops is not None:
            recommended = _recommendation(law, drawn, best, rates, flops)
        return cls(learned, best, rates, iso_flops(best), law, drawn, recommended)

    @property
    def missing(self) -> str:
        """A sentence with what a law lacks; empty when there is a law."""
        if self.law is not None:
            return ""
        sizes, tokens = (
            len({measured.parameters for measured in self.best}),
            len({measured.tokens for measured in self.best}),
        )
        return (
            f"No law of the loss: it needs {MIN_SIZES} sizes and {MIN_SIZES} token counts with losses, and there are"
            f" {sizes} and {tokens}."
        )

    @property
    def undetermined(self) -> str:
        """A sentence about constants of the law at a bound of the fit; empty when there are none."""
        if self.law is None or not (at_bound := laws.at_bounds(self.law)):
            return ""
        constants = "the constant" if len(at_bound) == 1 else "the constants"
        return (
            f"The trainings do not determine the law: {constants} {', '.join(at_bound)} reached a bound of the fit."
            " Give more sizes and token counts, further apart."
        )

    def exponents(self) -> dict[str, tuple[float, IntervalEnds]]:
        """Returns each constant of the law, and of the best size by operations, with its interval."""
        if self.law is None:
            return {}
        names = ("floor", "a", "alpha", "b", "beta", "size_exponent")
        return {
            name: (_constant(self.law, name), laws.interval([_constant(law, name) for law in self.resampled]))
            for name in names
        }

    def as_json(self) -> dict[str, Any]:
        """Returns plain values: arms, best rates, profiles, laws and the recommendation."""
        return {
            "arms": [arm._asdict() for arm in self.arms],
            "best_rates": [dataclasses.asdict(measured) for measured in self.best],
            "rate_law": self.rates
            and {
                "constant": self.rates.constant,
                "parameters_exponent": self.rates.parameters_exponent,
                "tokens_exponent": self.rates.tokens_exponent,
            },
            "iso_flops": [profile._asdict() for profile in self.profiles],
            "law": {name: {"value": value, "interval": ends} for name, (value, ends) in self.exponents().items()},
            "recommendation": self.recommendation
            and dataclasses.asdict(self.recommendation)
            | {"optimum": self.recommendation.optimum._asdict(), "warning": self.recommendation.warning},
        }


def check_budget(sizes: int, tokens: int) -> None:
    """Refuses a grid that can have no law, before anything is trained.

    Raises:
        ConfigError: with the numbers of sizes and token counts.
    """
    if min(sizes, tokens) < MIN_SIZES:
        problem = f"a law needs {MIN_SIZES} sizes and {MIN_SIZES} token counts, and the grid has {sizes} and {tokens}"
        raise ConfigError("--budget", problem, "give more --sizes and --tokens, or no --budget")


def _constant(law: Law, name: str) -> float:
    """Returns a constant of ``law``; ``size_exponent`` is that of the best size, N ~ C^(β / (α + β))."""
    if name == "size_exponent":
        return law.beta / (law.alpha + law.beta)
    return float(getattr(law, name))


def _recommendation(
    law: Law, drawn: Sequence[Law], best: Sequence[BestRate], rates: RateLaw | None, flops: float
) -> Recommendation:
    optimum = law.optimum(flops)
    others = [law.optimum(flops) for law in drawn]
    intervals = [laws.interval([other[axis] for other in others]) for axis in range(len(optimum))]
    rate, ends = None, None
    if rates is not None:
        rate = rates.rate(optimum.parameters, optimum.tokens)
        ends = rates.interval(optimum.parameters, optimum.tokens)
    if rate is None or not math.isfinite(rate):
        rate, ends = None, None
    return Recommendation(flops, optimum, intervals, rate, ends, flops / max(measured.flops for measured in best))
