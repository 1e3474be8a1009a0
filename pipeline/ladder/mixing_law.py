"""The loss of a training as a function of its mixture, fitted to small trainings, and the mixture with the lowest loss.

    L_i(r) = c_i + k_i exp(Σ_j t_ij r_j)     held-out loss of source i, at shares r of the M sources (Ye et al. 2024,
                                             "Data mixing laws", arXiv 2403.16952)
    L(r)   = Σ_i w_i L_i(r)                  the loss that is minimized; w are the weights of the target

Shares have the sum 1, so k_i is a part of the exponents: k exp(Σ t_j r_j) = exp(Σ (t_j + ln k) r_j). A source has M + 1
coefficients, fitted by least squares. Each L_i is convex in r, so L has one minimum.

Small trainings whose results are regressed on their mixtures are the method of RegMix (Liu et al. 2024, arXiv
2407.01492). Intervals come from fits to trainings that are drawn with replacement. The best of many mixtures looks
better than it is, even if the losses are noise. So the interval of its gain belongs to a band that holds for all
candidates together (sup-t, Montiel Olea and Plagborg-Møller 2019).

Shapes: B sets of N trainings on M sources; P = M + 1 coefficients.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.stats import spearmanr

from headrace.pipeline.ladder import law as laws
from headrace.pipeline.ladder.law import COVERAGE
from headrace.pipeline.ladder.optima import IntervalEnds

Floats = npt.NDArray[np.float64]

STARTS = (0.3, 0.9)
"""Starts of c_i, as shares of the lowest loss."""
MOST_EXPONENT = 30.0
"""A limit of the exponent while the fit searches, far above any loss."""
MOST_LOGIT = 12.0
"""A limit of |u|, where c_i = lowest loss / (1 + exp(-u))."""
ROUNDS = 60
FIRST_DAMPING = 1e-3
"""Steps of the fit, and the damping of the first one."""


def least_trainings(sources: int) -> int:
    """Returns the least number of trainings for the law of two ``sources`` or more.

    n draws with replacement hold about 0.63 n different trainings, and must determine ``sources`` + 1 coefficients.
    """
    return 2 * sources


@dataclasses.dataclass(frozen=True)
class MixingLaw:
    """The coefficients of all sources."""

    floors: Floats
    """c_i in nats per token, (sources,)."""
    exponents: Floats
    """t_ij + ln k_i: row i is the loss of source i, column j the share of source j; (sources, sources)."""

    def losses(self, shares: Floats) -> Floats:
        """Returns the held-out loss of each source at ``shares``, (..., sources)."""
        return self.floors + np.exp(np.minimum(shares @ self.exponents.T, MOST_EXPONENT))

    def loss(self, shares: Floats, target: Floats) -> Floats:
        """Returns the weighted loss at ``shares``, (...)."""
        losses: Floats = self.losses(shares) @ target
        return losses

    def best(self, target: Floats, measured: Floats) -> Floats:
        """Returns the shares with the lowest loss, (sources,), each within its ``measured`` shares, (n, sources)."""

        def both(shares: Floats) -> tuple[float, Floats]:
            terms = target * np.exp(np.minimum(self.exponents @ shares, MOST_EXPONENT))
            return float(terms.sum() + self.floors @ target), terms @ self.exponents

        start = measured[int(np.argmin(self.loss(measured, target)))]
        ends = np.stack([measured.min(axis=0), measured.max(axis=0)], axis=1)
        whole = {"type": "eq", "fun": lambda shares: shares.sum() - 1, "jac": np.ones_like}
        options = {"ftol": 1e-12, "maxiter": 200}
        optimum = minimize(both, start, jac=True, method="SLSQP", bounds=ends, constraints=whole, options=options)
        shares: Floats = np.clip(optimum.x, ends[:, 0], ends[:, 1])
        return shares if self.loss(shares, target) <= self.loss(start, target) else start


def fit(shares: Floats, losses: Floats) -> MixingLaw:
    """Returns the law of trainings with these ``shares`` and held-out ``losses``, both (trainings, sources)."""
    return fits(shares[None], losses[None])[0]


def fits(shares_BNM: Floats, losses_BNM: Floats) -> list[MixingLaw]:
    """Returns the law of each of B sets of N trainings on M sources; all sets are fitted together, which is fast."""
    of_sources = [_fit_source(shares_BNM, losses_BNM[..., source]) for source in range(losses_BNM.shape[-1])]
    floors_BM = np.stack([floors for floors, _ in of_sources], axis=1)
    exponents_BMM = np.stack([exponents for _, exponents in of_sources], axis=1)
    return [MixingLaw(floors, exponents) for floors, exponents in zip(floors_BM, exponents_BMM, strict=True)]


def _fit_source(shares_BNM: Floats, losses_BN: Floats) -> tuple[Floats, Floats]:
    """Returns c_i and row i of the exponents for each set, (B,) and (B, M).

    c_i is between 0 and the lowest loss: lowest / (1 + exp(-u)).
    """
    lowest_B1 = losses_BN.min(axis=1, keepdims=True)
    descents = []
    for share in STARTS:
        straight_BM = _solved(shares_BNM, np.log(losses_BN - share * lowest_B1))
        logit_B = np.full(len(losses_BN), math.log(share / (1 - share)))
        descents.append(_descended(np.column_stack([logit_B, straight_BM]), shares_BNM, losses_BN))
    lowest_B = np.argmin([squares_B for _, squares_B in descents], axis=0)
    best_BP = np.stack([values_BP for values_BP, _ in descents])[lowest_B, np.arange(len(lowest_B))]
    return lowest_B1[:, 0] / (1 + np.exp(-best_BP[:, 0])), best_BP[:, 1:]


def _descended(start_BP: Floats, shares_BNM: Floats, losses_BN: Floats) -> tuple[Floats, Floats]:
    """Returns (u, exponents) after ``ROUNDS`` steps of Levenberg and Marquardt, (B, 1 + M), and the sum of squares."""
    lowest_B1 = losses_BN.min(axis=1, keepdims=True)

    def residuals(values_BP: Floats) -> tuple[Floats, Floats]:
        floors_B1 = lowest_B1 / (1 + np.exp(-values_BP[:, :1]))
        terms_BN = np.exp(np.minimum((shares_BNM @ values_BP[:, 1:, None])[..., 0], MOST_EXPONENT))
        slopes_BN1 = np.broadcast_to(floors_B1 * (1 - floors_B1 / lowest_B1), terms_BN.shape)[..., None]
        return losses_BN - floors_B1 - terms_BN, np.concatenate([slopes_BN1, terms_BN[..., None] * shares_BNM], axis=2)

    best_BP, damping_B = start_BP, np.full(len(start_BP), FIRST_DAMPING)
    left_BN, jacobian_BNP = residuals(best_BP)
    squares_B = np.square(left_BN).sum(axis=1)
    for _ in range(ROUNDS):
        next_BP = best_BP + _solved(jacobian_BNP, left_BN, damping_B)
        next_BP[:, 0] = np.clip(next_BP[:, 0], -MOST_LOGIT, MOST_LOGIT)
        next_left_BN, next_jacobian_BNP = residuals(next_BP)
        next_squares_B = np.square(next_left_BN).sum(axis=1)
        is_lower_B = next_squares_B < squares_B
        best_BP = np.where(is_lower_B[:, None], next_BP, best_BP)
        left_BN = np.where(is_lower_B[:, None], next_left_BN, left_BN)
        jacobian_BNP = np.where(is_lower_B[:, None, None], next_jacobian_BNP, jacobian_BNP)
        squares_B = np.where(is_lower_B, next_squares_B, squares_B)
        damping_B = np.where(is_lower_B, damping_B / 4, np.minimum(damping_B * 8, 1e6))
    return best_BP, squares_B


def _solved(rows_BNP: Floats, values_BN: Floats, damping_B: Floats | float = 0.0) -> Floats:
    """Returns the solutions of B damped least-squares problems, (B, P)."""
    transposed_BPN = rows_BNP.swapaxes(1, 2)
    products_BPP = transposed_BPN @ rows_BNP
    scales_BP = np.diagonal(products_BPP, axis1=1, axis2=2)
    added_BP = scales_BP * np.reshape(damping_B, (-1, 1)) + 1e-12 * (scales_BP.sum(axis=1, keepdims=True) + 1e-12)
    squares_BPP = products_BPP + added_BP[..., None] * np.eye(scales_BP.shape[1])
    solution: Floats = np.linalg.solve(squares_BPP, transposed_BPN @ values_BN[..., None])[..., 0]
    return solution


@dataclasses.dataclass(frozen=True)
class Proposal:
    """The mixture with the lowest loss by the law, and how sure it is."""

    law: MixingLaw
    shares: Floats
    """(sources,)."""
    intervals: Sequence[IntervalEnds]
    """The interval of each share."""
    loss: float
    """The predicted loss, in nats per token."""
    gain: float
    """The loss of the given mixture minus that of the proposed one, both by the law."""
    gain_interval: IntervalEnds
    left_out: Floats
    """The loss of each training by a law of the others, (trainings,)."""

    @property
    def is_better(self) -> bool:
        """Whether the interval of the gain is above 0."""
        return self.gain_interval[0] > 0


def propose(shares: Floats, losses: Floats, target: Floats, given: Floats, seed: int = 0) -> Proposal:
    """Returns the best mixture by trainings of these ``shares`` and ``losses``, both (trainings, sources).

    Args:
        shares: the mixtures of the trainings; at least ``least_trainings`` of them.
        losses: their held-out losses by source, in nats per token.
        target: the weights of the sources in the loss, with the sum 1.
        given: the shares of the mixture that the gain is counted from.
        seed: of the draws.
    """
    law = fit(shares, losses)
    drawn = _resampled(shares, losses, np.random.default_rng(seed))
    bests = np.stack([law_of_sample.best(target, shares) for law_of_sample in drawn])
    best = law.best(target, shares)
    others = np.stack([np.delete(np.arange(len(shares)), number) for number in range(len(shares))])
    of_others = fits(shares[others], losses[others])
    loss = float(law.loss(best, target))
    return Proposal(
        law=law,
        shares=best,
        intervals=[laws.interval(column.tolist()) for column in bests.T],
        loss=loss,
        gain=float(law.loss(given, target)) - loss,
        gain_interval=_gain_interval(law, drawn, np.stack([best, *shares, *bests]), target, given),
        left_out=np.array(
            [
                float(law_of_others.loss(left_out_shares, target))
                for law_of_others, left_out_shares in zip(of_others, shares, strict=True)
            ]
        ),
    )


def rank_correlation(proposal: Proposal, measured: Floats) -> float:
    """Returns Spearman's correlation of ``measured`` losses, (trainings,), and those of the laws of the others."""
    return float(spearmanr(proposal.left_out, measured).statistic)


def _resampled(shares: Floats, losses: Floats, generator: np.random.Generator) -> list[MixingLaw]:
    """Returns the laws of ``laws.RESAMPLES`` draws of trainings with replacement."""
    samples: list[npt.NDArray[np.int64]] = []
    while len(samples) < laws.RESAMPLES:
        drawn = generator.integers(len(shares), size=len(shares))
        if np.linalg.matrix_rank(shares[drawn]) == shares.shape[1] and len(set(drawn)) > shares.shape[1]:
            samples.append(drawn)
    chosen = np.stack(samples)
    return fits(shares[chosen], losses[chosen])


def _gain_interval(
    law: MixingLaw, drawn: Sequence[MixingLaw], candidates: Floats, target: Floats, given: Floats
) -> IntervalEnds:
    """Returns the interval of the gain of the first of ``candidates``, (n, sources), which was chosen among them.

    The 95 % band of all candidates: gain ± q · deviation, where q covers the largest of the |differences| / deviation.
    """

    def gains(mixing_law: MixingLaw) -> Floats:
        gain: Floats = mixing_law.loss(given, target) - mixing_law.loss(candidates, target)
        return gain

    center, others = gains(law), np.stack([gains(law_of_sample) for law_of_sample in drawn])
    deviations = others.std(axis=0)
    if deviations[0] < 1e-12:  # it is the given mixture
        return 0.0, 0.0
    varies = deviations >= 1e-12
    largest = (np.abs(others - center)[:, varies] / deviations[varies]).max(axis=1)
    width = float(np.percentile(largest, COVERAGE[1] - COVERAGE[0]) * deviations[0])
    return float(center[0]) - width, float(center[0]) + width
