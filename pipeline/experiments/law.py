"""Best learning rates of the finished trainings of a ladder, and the law of their loss by parameters and tokens.

    best rate   of a size and token count: the lowest point of a parabola in ln(rate) through the best training and its
                neighbours; one outside of what was measured is not used
    rate        = c · N^p · D^q, by least squares
    L(N, D)     = E + A / N^α + B / D^β         Hoffmann et al. 2022, equation 2
    N           parameters, all of them         D    tokens of the training
    C           = 6 N D operations              Kaplan et al. 2020, section 2.1

The fit of L minimizes the Huber loss (δ = 0.001) between logarithms of losses, from several starts, and keeps the best
(Hoffmann et al. 2022, appendix D.2). Residuals are divided by δ: without that, an optimizer stops too early (Besiroglu
et al. 2024, section 3). Intervals come from fits to losses that are drawn with replacement.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from headrace.pipeline.core.statistics import IntervalEnds

Floats = npt.NDArray[np.float64]

NEIGHBOURS = 2
"""Trainings on each side of the best one that the parabola is fitted to. Further away the loss is no parabola: it rises
steeply where the training becomes unstable."""
DELTA = 1e-3
"""The difference of log losses from which on the Huber loss is linear (Hoffmann et al. 2022)."""
FLOP_PER_PARAMETER = 6
"""Operations of a training for each parameter and token."""
MIN_SIZES = 3
"""The least number of sizes, and of token counts: each term has an amplitude and an exponent, and E is common."""
RESAMPLES = 200
EXPONENTS = (0.25, 0.75)
FLOORS = (0.3, 0.6, 0.9)
"""Starts of α and β, and of E as shares of the lowest loss."""
BOUNDS = np.array([(-20.0, 20.0)] * 2 + [(-7.0, 5.0)] + [(0.01, 4.0)] * 2)
"""Bounds of the parameters of ``_best``, (5, 2)."""


class FinishedTraining(NamedTuple):
    """A finished training of a ladder."""

    parameters: float
    tokens: float
    rate: float
    flops: float
    loss: float


class BestRate(NamedTuple):
    """The best learning rate of one size and token count, and the loss at this rate."""

    parameters: float
    tokens: float
    flops: float
    rate: float
    loss: float
    is_inside: bool
    """Whether the parabola has its lowest point between the trainings; otherwise the rate is that of the best one."""


class RateLaw(NamedTuple):
    """rate = constant · N^p · D^q; an exponent that no trainings vary is 0."""

    constant: float
    parameters_exponent: float
    tokens_exponent: float

    def rate(self, parameters: float, tokens: float) -> float:
        """Returns the best rate of a training of this size."""
        return float(self.constant * parameters**self.parameters_exponent * tokens**self.tokens_exponent)


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
        values = {"E": math.log(self.floor), "α": self.alpha, "β": self.beta}
        return [
            name
            for (name, value), ends in zip(values.items(), BOUNDS[2:], strict=True)
            if min(abs(ends - value)) < 1e-6
        ]


def best_rates(trainings: Sequence[FinishedTraining]) -> list[BestRate]:
    """Returns the best rate for each size and token count."""
    by_size = itertools.groupby(sorted(trainings), lambda training: training[:2])
    return [_best_rate(list(group)) for _, group in by_size]


def _best_rate(group: Sequence[FinishedTraining]) -> BestRate:
    """Returns the best rate of ``group``, which is ordered by rate."""
    lowest = min(range(len(group)), key=lambda index: group[index].loss)
    near, best = group[max(0, lowest - NEIGHBOURS) : lowest + NEIGHBOURS + 1], group[lowest]
    if len(near) >= 3:
        logs = np.log([training.rate for training in near])
        parabola = np.polyfit(logs, [training.loss for training in near], 2)
        at = -parabola[1] / (2 * parabola[0])
        if parabola[0] > 0 and logs[0] <= at <= logs[-1]:
            loss = float(np.polyval(parabola, at))
            return BestRate(best.parameters, best.tokens, best.flops, float(np.exp(at)), loss, True)
    return BestRate(best.parameters, best.tokens, best.flops, best.rate, best.loss, False)


def rate_law(best: Sequence[BestRate]) -> RateLaw | None:
    """Returns the law of the best rates; None when fewer than two are known, or sizes and tokens vary together."""
    inside = [measured for measured in best if measured.is_inside]
    if len(inside) < 2:
        return None
    logs = np.log([[measured.parameters, measured.tokens] for measured in inside])
    varied = np.flatnonzero(np.ptp(logs, axis=0) > 0)
    rows = np.column_stack([np.ones(len(inside)), logs[:, varied]])
    coefficients, _, rank, _ = np.linalg.lstsq(rows, np.log([measured.rate for measured in inside]), rcond=None)
    if rank < rows.shape[1]:
        return None
    exponents = np.zeros(2)
    exponents[varied] = coefficients[1:]
    return RateLaw(math.exp(coefficients[0]), *exponents.tolist())


def is_enough(best: Sequence[BestRate]) -> bool:
    """Whether ``best`` have enough sizes and numbers of tokens for the law."""
    return all(len({measured[axis] for measured in best}) >= MIN_SIZES for axis in (0, 1))


def fit(best: Sequence[BestRate]) -> Law:
    """Returns the law of the losses of ``best``, which are enough."""
    data = _logs(best)
    lowest, middle = data[:, 2].min(), float(np.exp(data[:, 2]).mean())
    starts = []
    for alpha, beta, share in itertools.product(EXPONENTS, EXPONENTS, FLOORS):
        rest = math.log((middle - share * math.exp(lowest)) / 2)
        starts.append([rest, rest, lowest + math.log(share), alpha, beta])
    return _best(data, starts)


def resampled(best: Sequence[BestRate], law: Law, seed: int = 0) -> list[Law]:
    """Returns the laws of ``RESAMPLES`` draws of ``best`` with replacement; ``law`` is that of all of them."""
    generator = np.random.default_rng(seed)
    laws: list[Law] = []
    while len(laws) < RESAMPLES:
        drawn = [best[index] for index in generator.integers(len(best), size=len(best))]
        if is_enough(drawn):
            data = _logs(drawn)
            at_n, at_d = data[:, :2].mean(axis=0)
            terms = [math.log(law.a) - law.alpha * at_n, math.log(law.b) - law.beta * at_d]
            floor = math.log(law.floor)
            laws.append(_best(data, [[*terms, floor, law.alpha, law.beta], [*terms, floor - 0.5, 0.5, 0.5]]))
    return laws


def interval(values: Sequence[float]) -> IntervalEnds:
    """Returns the 95 % interval of resampled ``values``."""
    low, high = np.percentile(values, (2.5, 97.5)).tolist()
    return low, high


def _logs(best: Sequence[BestRate]) -> Floats:
    """Returns a row (ln N, ln D, ln L) for each of ``best``."""
    logs: Floats = np.log([[measured.parameters, measured.tokens, measured.loss] for measured in best])
    return logs


def _best(data: Floats, starts: Sequence[Sequence[float]]) -> Law:
    """Returns the law of ``data`` with the lowest Huber loss among the fits from ``starts``.

    Parameters are the logarithms of the terms A/N^α and B/D^β at the mean of ln N and ln D, then ln E, α and β: with
    centered sizes an amplitude and its exponent are nearly independent.
    """
    center = data[:, :2].mean(axis=0)
    sizes, losses = data[:, :2] - center, data[:, 2]

    def terms(parameters: Floats) -> Floats:
        both = parameters[:2] - parameters[3:] * sizes
        return np.column_stack([both, np.full(len(data), parameters[2])])

    def residuals(parameters: Floats) -> Floats:
        predicted: Floats = np.logaddexp.reduce(terms(parameters), axis=1)
        return (predicted - losses) / DELTA

    def gradient(parameters: Floats) -> Floats:
        logs = terms(parameters)
        shares = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
        return np.column_stack([shares, -shares[:, :2] * sizes]) / DELTA

    fits = [
        least_squares(residuals, np.clip(start, *BOUNDS.T), gradient, BOUNDS.T, loss="huber", x_scale="jac")
        for start in starts
    ]
    a, b, floor, alpha, beta = min(fits, key=lambda fitted: float(fitted.cost)).x.tolist()
    return Law(math.exp(floor), math.exp(a + alpha * center[0]), alpha, math.exp(b + beta * center[1]), beta)
