"""The loss of a training as a function of parameters and tokens, fitted to the arms of a ladder.

    L(N, D) = E + A / N^α + B / D^β         Hoffmann et al. 2022, equation 2
    N       parameters, all of them         D    tokens of the training
    C       = 6 N D operations              Kaplan et al. 2020, section 2.1

The fit minimizes the Huber loss (δ = 0.001) between logarithms of losses, from several starts, and keeps the best
(Hoffmann et al. 2022, appendix D.2). The objective is divided by δ²: without that, the optimizer stops too early
(Besiroglu et al. 2024, section 3). Intervals come from fits to arms that are drawn with replacement.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from headrace.pipeline.core.statistics import IntervalEnds

Floats = npt.NDArray[np.float64]

DELTA = 1e-3
"""The difference of log losses from which on the Huber loss is linear (Hoffmann et al. 2022)."""
FLOP_PER_PARAMETER = 6
"""Operations of a training for each parameter and token."""
MIN_SIZES = 3
"""The least number of sizes, and of token counts: each term has an amplitude and an exponent, and E is common."""
RESAMPLES = 200
COVERAGE = (2.5, 97.5)
"""Percentiles at the ends of an interval."""
EXPONENTS = (0.25, 0.75)
FLOORS = (0.3, 0.6, 0.9)
"""Starts of α and β, and of E as shares of the lowest loss."""
BOUNDS = [(-20.0, 20.0)] * 2 + [(-7.0, 5.0)] + [(0.01, 4.0)] * 2
"""Bounds of the parameters of ``_objective``."""


class LossMeasurement(NamedTuple):
    """One measurement: a model of ``parameters``, trained on ``tokens``, has this ``loss`` in nats per token."""

    parameters: float
    tokens: float
    loss: float


class Optimum(NamedTuple):
    """The best size for a budget, and the loss that the law predicts for it."""

    parameters: float
    tokens: float
    loss: float


@dataclasses.dataclass(frozen=True)
class Law:
    """The constants of L(N, D)."""

    floor: float
    """E: the loss of an infinite model with infinite text, in nats per token."""
    a: float
    alpha: float
    b: float
    beta: float

    @property
    def size_exponent(self) -> float:
        """The exponent of the best size by operations: N ~ C^(β / (α + β))."""
        return self.beta / (self.alpha + self.beta)

    def loss(self, parameters: float, tokens: float) -> float:
        """Returns the predicted loss in nats per token."""
        return float(self.floor + self.a * parameters**-self.alpha + self.b * tokens**-self.beta)

    def optimum(self, flops: float) -> Optimum:
        """Returns the size and the tokens with the lowest loss among those with 6 N D = ``flops`` (equation 4)."""
        both = self.alpha + self.beta
        scale = (self.alpha * self.a / (self.beta * self.b)) ** (1 / both)
        parameters = scale * (flops / FLOP_PER_PARAMETER) ** (self.beta / both)
        tokens = flops / FLOP_PER_PARAMETER / parameters
        return Optimum(parameters, tokens, self.loss(parameters, tokens))

    def at_bounds(self) -> list[str]:
        """Returns the names of E, α and β that are at a bound of the fit."""
        exponents = {"E": math.log(self.floor), "α": self.alpha, "β": self.beta}
        both = zip(exponents.items(), BOUNDS[2:], strict=True)
        return [name for (name, value), ends in both if min(abs(value - end) for end in ends) < 1e-6]


def is_enough(points: Sequence[LossMeasurement]) -> bool:
    """Whether ``points`` have enough sizes and numbers of tokens for the law."""
    return all(len({point[axis] for point in points}) >= MIN_SIZES for axis in (0, 1))


def fit(points: Sequence[LossMeasurement]) -> Law:
    """Returns the law of ``points``, which are enough."""
    data = np.log(np.array(points, np.float64))
    lowest, middle = data[:, 2].min(), float(np.exp(data[:, 2]).mean())
    starts = []
    for alpha, beta, share in itertools.product(EXPONENTS, EXPONENTS, FLOORS):
        rest = math.log((middle - share * math.exp(lowest)) / 2)
        starts.append([rest, rest, lowest + math.log(share), alpha, beta])
    return _best(data, starts)


def resampled(points: Sequence[LossMeasurement], law: Law, seed: int = 0) -> list[Law]:
    """Returns the laws of ``RESAMPLES`` draws of ``points`` with replacement; ``law`` is that of all of them."""
    generator = np.random.default_rng(seed)
    laws: list[Law] = []
    while len(laws) < RESAMPLES:
        drawn = [points[index] for index in generator.integers(len(points), size=len(points))]
        if is_enough(drawn):
            data = np.log(np.array(drawn, np.float64))
            first = _parameters(law, data)
            laws.append(_best(data, [first, [*first[:2], first[2] - 0.5, 0.5, 0.5]]))
    return laws


def interval(values: Sequence[float]) -> IntervalEnds:
    """Returns the 95 % interval of resampled ``values``."""
    low, high = np.percentile(values, COVERAGE)
    return float(low), float(high)


def _best(data: Floats, starts: Sequence[Sequence[float]]) -> Law:
    """Returns the law with the lowest objective among the fits from ``starts``.

    ``data`` has a row (ln N, ln D, ln L) for each point.
    """
    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-12, "gtol": 1e-8}
    fits = [
        minimize(_objective, start, (data,), jac=True, method="L-BFGS-B", bounds=BOUNDS, options=options)
        for start in starts
    ]
    a, b, floor, alpha, beta = map(float, min(fits, key=lambda fit: float(fit.fun)).x)
    center = data.mean(axis=0).tolist()
    return Law(math.exp(floor), math.exp(a + alpha * center[0]), alpha, math.exp(b + beta * center[1]), beta)


def _parameters(law: Law, data: Floats) -> list[float]:
    """Returns the parameters of ``_objective`` for ``law``."""
    center = data.mean(axis=0)
    a, b = math.log(law.a) - law.alpha * center[0], math.log(law.b) - law.beta * center[1]
    return [float(a), float(b), math.log(law.floor), law.alpha, law.beta]


def _objective(parameters: Floats, data: Floats) -> tuple[float, Floats]:
    """Returns the sum of Huber losses over δ² and its gradient, (5,).

    Parameters are the logarithms of the terms A/N^α and B/D^β at the mean of ln N and ln D, then ln E, α and β: with
    centered sizes an amplitude and its exponent are nearly independent.
    """
    centered = data[:, :2] - data[:, :2].mean(axis=0)
    terms = np.stack([
        parameters[0] - parameters[3] * centered[:, 0],
        parameters[1] - parameters[4] * centered[:, 1],
        np.full(len(data), parameters[2]),
    ])  # fmt: skip
    top = terms.max(axis=0)
    shares = np.exp(terms - top)
    total = shares.sum(axis=0)
    residuals = top + np.log(total) - data[:, 2]
    size = np.abs(residuals)
    huber = np.where(size <= DELTA, 0.5 * residuals**2, DELTA * (size - 0.5 * DELTA)) / DELTA**2
    pull = np.clip(residuals, -DELTA, DELTA) / DELTA**2 * (shares / total)
    gradient = np.array([*pull.sum(axis=1), -(pull[0] @ centered[:, 0]), -(pull[1] @ centered[:, 1])])
    return float(huber.sum()), gradient
