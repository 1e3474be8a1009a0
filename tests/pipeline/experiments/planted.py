"""Losses of a known law, with noise of a known size."""

import numpy as np

from headrace.pipeline.experiments.law import BestRate, FinishedTraining, Law

LAW = Law(1.7, 400.0, 0.34, 410.0, 0.28)
"""Near the published constants (Hoffmann et al. 2022, equation 10)."""
SIZES = [1e6, 2e6, 4e6, 8e6, 16e6]
TOKENS = [2e7, 4e7, 8e7, 1.6e8, 3.2e8]
RATES = [5e-4, 1e-3, 2e-3, 4e-3, 8e-3]
CURVATURE = 0.02
"""Nats for a rate that is e times too high or too low."""


def points(noise: float = 0.0, seed: int = 0) -> list[BestRate]:
    """A loss for each size and token count, with relative ``noise``."""
    generator = np.random.default_rng(seed)
    return [
        BestRate(n, d, 6 * n * d, 1e-3, LAW.loss(n, d) * np.exp(generator.normal(0, noise)), True)
        for n in SIZES
        for d in TOKENS
    ]


def best_rate(parameters: float, tokens: float) -> float:
    """The planted best rate: it falls with the size and rises with the tokens."""
    return 0.6 * parameters**-0.5 * tokens**0.1


def arms(noise: float = 0.0, seed: int = 0, sizes=SIZES, tokens=TOKENS) -> list[FinishedTraining]:
    """A training for each size, token count and rate; the loss is a parabola in ln(rate) above the law."""
    generator = np.random.default_rng(seed)
    found = []
    for n, d in ((n, d) for n in sizes for d in tokens):
        for rate in RATES:
            off = np.log(rate / best_rate(n, d))
            loss = LAW.loss(n, d) + CURVATURE * off**2 + generator.normal(0, noise)
            found.append(FinishedTraining(n, d, rate, 6 * n * d, loss))
    return found
