"""Optima of a ladder: the best learning rate of each size and token count, and the best size for each budget.

Both are the lowest points of parabolas through losses: over ln(rate), and over ln(parameters) at equal operations, the
IsoFLOP profiles of Hoffmann et al. 2022, section 3.2. A lowest point outside of what was measured is not used.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.pipeline.core.statistics import IntervalEnds, student_t
from headrace.pipeline.experiments.law import MIN_SIZES

NEIGHBOURS = 2
"""Arms on each side of the best one that the parabola of the rate is fitted to. Further away the loss is no parabola:
it rises steeply where the training becomes unstable."""
LEVELS = 5
"""Numbers of operations at which sizes are compared."""


class FinishedTraining(NamedTuple):
    """A finished training of a ladder."""

    parameters: float
    tokens: float
    rate: float
    flops: float
    loss: float


@dataclasses.dataclass(frozen=True)
class BestRate:
    """The best learning rate of one size and token count."""

    parameters: float
    tokens: float
    flops: float
    rate: float
    loss: float
    """At this rate."""
    interval: IntervalEnds | None
    """None: too few arms for an uncertainty, or ``is_inside`` is False."""
    is_inside: bool
    """Whether the parabola has its lowest point between the arms; otherwise the rate is that of the best arm."""


@dataclasses.dataclass(frozen=True)
class RateLaw:
    """ln(rate) = constant + p · ln N + q · ln D by least squares; an exponent that no arms vary is 0."""

    constant: float
    parameters_exponent: float
    tokens_exponent: float
    covariance: npt.NDArray[np.float64] | None
    """The covariance of the three numbers, (3, 3); None for three optima, which the numbers fit exactly."""
    freedom: int

    def rate(self, parameters: float, tokens: float) -> float:
        """Returns the best rate of a training of this size."""
        exponents = self.parameters_exponent * math.log(parameters) + self.tokens_exponent * math.log(tokens)
        return math.exp(self.constant + exponents)

    def interval(self, parameters: float, tokens: float) -> IntervalEnds | None:
        """Returns the 95 % interval of ``rate``; None when it is unknown."""
        if self.covariance is None:
            return None
        row = np.array([1.0, math.log(parameters), math.log(tokens)])
        return _around(self.rate(parameters, tokens), float(row @ self.covariance @ row), self.freedom)


class IsoFlop(NamedTuple):
    """Losses of sizes at equal operations, and the lowest point of the parabola through them."""

    flops: float
    sizes: tuple[tuple[float, float], ...]
    """(parameters, loss), by size."""
    parabola: tuple[float, float, float]
    """Coefficients of the loss over ln(parameters), the highest power first."""
    parameters: float | None
    """At the lowest point; None when it is not between the sizes."""


def best_rates(arms: Sequence[FinishedTraining]) -> list[BestRate]:
    """Returns the best rate for each size and token count.

    The interval of a rate is that of the lowest point by the delta method. The noise is that of the residuals of all
    parabolas together.
    """
    groups: dict[tuple[float, float], list[FinishedTraining]] = {}
    for arm in sorted(arms):
        groups.setdefault((arm.parameters, arm.tokens), []).append(arm)
    windows = [_window(group) for group in groups.values()]
    fits = [_parabola([(math.log(arm.rate), arm.loss) for arm in window]) for window in windows]
    freedom = sum(len(window) - 3 for window, fitted in zip(windows, fits, strict=True) if fitted is not None)
    squares = sum(
        float(np.square(np.polyval(fitted, np.log([arm.rate for arm in window])) - [arm.loss for arm in window]).sum())
        for window, fitted in zip(windows, fits, strict=True)
        if fitted is not None
    )
    noise = squares / freedom if freedom else None
    return [_best_rate(window, fitted, noise, freedom) for window, fitted in zip(windows, fits, strict=True)]


def rate_law(best: Sequence[BestRate]) -> RateLaw | None:
    """Returns the law of the best rates; None when fewer than two are known."""
    known = [measured for measured in best if measured.is_inside]
    if len(known) < 2:
        return None
    logs = np.log([[measured.parameters, measured.tokens] for measured in known])
    varied = [axis for axis in (0, 1) if np.ptp(logs[:, axis]) > 0]
    rows = np.column_stack([np.ones(len(known)), logs[:, varied]])
    targets = np.log([measured.rate for measured in known])
    coefficients, _, rank, _ = np.linalg.lstsq(rows, targets, rcond=None)
    if rank < rows.shape[1]:  # each size has its own token count
        return None
    numbers, freedom = np.zeros(3), len(known) - rows.shape[1]
    index = [0, *(axis + 1 for axis in varied)]
    numbers[index] = coefficients
    covariance = None
    if freedom:
        covariance = np.zeros((3, 3))
        noise = float(np.square(targets - rows @ coefficients).sum()) / freedom
        covariance[np.ix_(index, index)] = noise * np.linalg.inv(rows.T @ rows)
    constant, of_parameters, of_tokens = map(float, numbers)
    return RateLaw(constant, of_parameters, of_tokens, covariance, freedom)


def iso_flops(best: Sequence[BestRate]) -> list[IsoFlop]:
    """Returns the profiles at operations that at least three sizes reach, the fewest operations first.

    The loss of a size at a number of operations is interpolated over ln(operations) between its token counts.
    """
    curves: dict[float, list[tuple[float, float]]] = {}
    for measured in sorted(best, key=lambda measured: measured.flops):
        curves.setdefault(measured.parameters, []).append((math.log(measured.flops), measured.loss))
    ends = sorted(curve[0][0] for curve in curves.values()), sorted(curve[-1][0] for curve in curves.values())
    if len(curves) < MIN_SIZES or (low := ends[0][MIN_SIZES - 1]) > (high := ends[1][-MIN_SIZES]):
        return []
    profiles = (_profile(level, curves) for level in np.linspace(low, high, LEVELS if high > low else 1))
    return [profile for profile in profiles if profile is not None]


def _profile(level: float, curves: Mapping[float, Sequence[tuple[float, float]]]) -> IsoFlop | None:
    """Returns the sizes at ``level``, the logarithm of operations; None when fewer than three reach it."""
    sizes = []
    for parameters, curve in sorted(curves.items()):
        xs, losses = zip(*curve, strict=True)
        if xs[0] - 1e-9 <= level <= xs[-1] + 1e-9:
            sizes.append((parameters, float(np.interp(level, xs, losses))))
    if len(sizes) < MIN_SIZES:
        return None
    logs = [math.log(parameters) for parameters, _ in sizes]
    fitted = np.polyfit(logs, [loss for _, loss in sizes], 2)
    lowest = _lowest(fitted, logs)
    a, b, c = map(float, fitted)
    return IsoFlop(math.exp(level), tuple(sizes), (a, b, c), None if lowest is None else math.exp(lowest))


def _window(group: Sequence[FinishedTraining]) -> list[FinishedTraining]:
    """Returns the best arm of ``group``, which is ordered by rate, and its neighbours."""
    lowest = min(range(len(group)), key=lambda index: group[index].loss)
    return list(group[max(0, lowest - NEIGHBOURS) : lowest + NEIGHBOURS + 1])


def _parabola(points: Sequence[tuple[float, float]]) -> npt.NDArray[np.float64] | None:
    """Returns the coefficients of the parabola through ``points``; None when there are fewer than three."""
    if len(points) < 3:
        return None
    xs, ys = zip(*points, strict=True)
    return np.polyfit(xs, ys, 2)


def _lowest(fitted: npt.NDArray[np.float64], xs: Sequence[float]) -> float | None:
    """Returns the lowest point of a parabola; None when it has none, or none between ``xs``."""
    if fitted[0] <= 0:
        return None
    lowest = float(-fitted[1] / (2 * fitted[0]))
    return lowest if min(xs) <= lowest <= max(xs) else None


def _best_rate(
    window: Sequence[FinishedTraining], fitted: npt.NDArray[np.float64] | None, noise: float | None, freedom: int
) -> BestRate:
    best = min(window, key=lambda arm: arm.loss)
    logs = [math.log(arm.rate) for arm in window]
    lowest = None if fitted is None else _lowest(fitted, logs)
    same = best.parameters, best.tokens, best.flops
    if fitted is None or lowest is None:
        return BestRate(*same, best.rate, best.loss, None, False)
    rate, interval = math.exp(lowest), None
    if noise is not None:
        rows = np.vander(logs, 3)
        gradient = np.array([fitted[1] / (2 * fitted[0] ** 2), -1 / (2 * fitted[0]), 0.0])
        interval = _around(rate, noise * float(gradient @ np.linalg.inv(rows.T @ rows) @ gradient), freedom)
    return BestRate(*same, rate, float(np.polyval(fitted, lowest)), interval, True)


def _around(value: float, variance: float, freedom: int) -> IntervalEnds:
    """Returns the 95 % interval around ``value``, whose logarithm has this ``variance``."""
    factor = math.exp(student_t(freedom) * math.sqrt(max(0.0, variance)))
    return value / factor, value * factor
