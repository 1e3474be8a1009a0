"""Computes metrics with their standard errors, 95 % intervals and the values of guessing.

    mean of right/wrong        value p, s/sqrt(n), Wilson's interval
    mean over groups           mean of the groups' values, their errors pooled
    exp(-mean log-likelihood)  perplexity, error by the delta method
    sum(nats) / sum(size)      ratio over documents: loss per token, bits per byte

All logarithms are natural unless a name says bits.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from headrace.pipeline.core.statistics import Z95, wilson
from headrace.train.evaluation.score_rows import Metric


def accuracy(name: str, right: Sequence[float], random: float, group: str = "") -> Metric:
    """Returns the share of ``right`` (0 or 1 each).

    Standard error sqrt(p (1 - p) / (n - 1)): the sample standard deviation over sqrt(n), as in lm-evaluation-harness
    (api/metrics.py, mean_stderr). The interval is Wilson's, which stays within [0, 1] and has a width at 0 and 1.
    """
    n, p = len(right), math.fsum(right) / len(right)
    error = math.sqrt(p * (1 - p) / (n - 1)) if n > 1 else None
    return Metric(name, p, error, wilson(p, n), random, n, group)


def mean_over_groups(name: str, groups: Mapping[str, Sequence[float]], random: float) -> list[Metric]:
    """Returns the unweighted mean of all groups, then the accuracy of each group.

    Standard error of the mean of K independent groups: sqrt(sum of squared errors) / K (with K groups of one size,
    nearly the pooled error of all items); interval ± 1.96 standard errors within [0, 1].
    """
    parts = [accuracy(name, right, random, group) for group, right in sorted(groups.items())]
    if len(parts) == 1:
        return [dataclasses.replace(parts[0], group="")]
    value = math.fsum(part.value for part in parts) / len(parts)
    errors = [part.standard_error for part in parts if part.standard_error is not None]
    error = math.sqrt(math.fsum(e * e for e in errors)) / len(parts) if len(errors) == len(parts) else None
    interval = None if error is None else (max(0.0, value - Z95 * error), min(1.0, value + Z95 * error))
    return [Metric(name, value, error, interval, random, sum(part.items for part in parts)), *parts]


def perplexity(name: str, log_likelihoods: Sequence[float], random: float | None) -> Metric:
    """Returns exp(-mean) of the ``log_likelihoods`` of whole continuations.

    This is lm-evaluation-harness's perplexity of LAMBADA.

    Standard error by the delta method: value times the standard error of the mean (the harness bootstraps instead);
    the interval is exp of the mean's.
    """
    n, mean = len(log_likelihoods), math.fsum(log_likelihoods) / len(log_likelihoods)
    error = None
    if n > 1:
        error = math.sqrt(math.fsum((x - mean) ** 2 for x in log_likelihoods) / (n - 1) / n)
    return exponential(Metric(name, -mean, error, _normal(-mean, error), None, n), name, random)


def ratio(name: str, tops: Sequence[float], bottoms: Sequence[float], random: float | None) -> Metric:
    """Returns sum(tops) / sum(bottoms) over documents, which are sampled whole.

    Standard error of a ratio estimator r (Cochran, Sampling Techniques, 1977, §2.11):
    sqrt(n / (n - 1) * sum((top - r * bottom)^2)) / sum(bottoms); interval ± 1.96 standard errors.
    """
    n, size = len(tops), math.fsum(bottoms)
    value = math.fsum(tops) / size
    error = None
    if n > 1:
        squares = math.fsum((top - value * bottom) ** 2 for top, bottom in zip(tops, bottoms, strict=True))
        error = math.sqrt(n / (n - 1) * squares) / size
    return Metric(name, value, error, _normal(value, error), random, n)


def mean(name: str, values: Sequence[float], random: float | None, group: str = "") -> Metric:
    """Returns the mean of ``values``; standard error s / sqrt(n), s their sample deviation; interval ± 1.96 of it."""
    return dataclasses.replace(ratio(name, values, [1.0] * len(values), random), group=group)


def exponential(metric: Metric, name: str, random: float | None) -> Metric:
    """Returns exp of ``metric``: the error by the delta method, the interval from both ends."""
    value = _exp(metric.value)
    error = None if metric.standard_error is None else value * metric.standard_error
    interval = None if metric.interval is None else (_exp(metric.interval[0]), _exp(metric.interval[1]))
    return Metric(name, value, error, interval, random, metric.items)


def _normal(value: float, error: float | None) -> tuple[float, float] | None:
    return None if error is None else (value - Z95 * error, value + Z95 * error)


def _exp(value: float) -> float:
    """Returns exp, at most the largest float: a perplexity above 1e308 means nothing more."""
    return math.exp(min(value, 709.0))
