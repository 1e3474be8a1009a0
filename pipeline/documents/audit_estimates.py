"""Estimates precision and recall of rules for a whole corpus from marked pages of a stratified sample.

    stratum: N documents, of n marked ones b bad ──> share of bad pages b / n, about N · b / n bad pages

    precision of a rule    share of bad pages among those that it dropped               Wilson's interval
    recall of a rule       bad pages that it dropped / all bad pages                    ratio of sums over strata

Each stratum is a simple random sample without replacement. Sums and ratios get their intervals from those of the
shares, by the method of variance estimates recovery (MOVER). Unlike a normal interval by the delta method it has a
width where no marked page is bad, which is usual among kept pages.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from headrace.pipeline.core.statistics import Estimate, wilson
from headrace.pipeline.documents.audit_results import Kappa


@dataclasses.dataclass(frozen=True)
class MarkedStratum:
    """A stratum of ``documents``, of which a random sample was marked as ``good`` and ``bad``."""

    documents: int
    good: int
    bad: int

    @property
    def marked(self) -> int:
        return self.good + self.bad


def bad_share(stratum: MarkedStratum) -> Estimate | None:
    """Returns the share of bad pages in ``stratum``; None without marks.

    Wilson's interval, with the effective sample size n (N - 1) / (N - n) of a sample without replacement: the variance
    of a share is p (1 - p) / n · (N - n) / (N - 1) (Cochran, Sampling Techniques, 1977, theorem 3.2). A stratum that is
    marked whole has no error.
    """
    n, documents = stratum.marked, stratum.documents
    if not n:
        return None
    share = stratum.bad / n
    if n >= documents:
        return Estimate(share, share, share)
    low, high = wilson(share, n * (documents - 1) / (documents - n))
    return Estimate(share, min(share, low), max(share, high))  # at 0 and 1 they are equal but for rounding


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Returns ``estimate`` times ``factor``, which is not negative."""
    return Estimate(factor * estimate.value, factor * estimate.low, factor * estimate.high)


def complement(estimate: Estimate) -> Estimate:
    """Returns the share of all others."""
    return Estimate(1 - estimate.value, 1 - estimate.high, 1 - estimate.low)


def total(parts: Sequence[Estimate]) -> Estimate:
    """Returns the sum of independent estimates.

    Interval: the distance from the sum to each limit is the root of the sum of the squares of those of the parts (Zou
    and Donner, Statistics in Medicine 27, 2008, the limits of a sum).
    """
    value = math.fsum(part.value for part in parts)
    below = math.sqrt(math.fsum((part.value - part.low) ** 2 for part in parts))
    above = math.sqrt(math.fsum((part.high - part.value) ** 2 for part in parts))
    return Estimate(value, value - below, value + above)


def share_of_sum(part: Estimate, others: Estimate) -> Estimate | None:
    """Returns part / (part + others) of independent estimates; None if both are 0.

    With the ratio r = part / others it is r / (1 + r), and grows with it. The interval is that of r by MOVER (Donner
    and Zou, Statistical Methods in Medical Research 21, 2012, the limits of a ratio).
    """
    if not part.value + others.value:
        return None
    low, high = _ratio_limits(part, others)
    upper = 1.0 if math.isinf(high) else high / (1 + high)
    return Estimate(part.value / (part.value + others.value), 1.0 if math.isinf(low) else low / (1 + low), upper)


def _ratio_limits(top: Estimate, bottom: Estimate) -> tuple[float, float]:
    """Returns the limits of top / bottom, infinite where the bottom may be 0.

    The lower limit is the published one times its conjugate: the published form is 0 / 0 at high = 2 · value.
    """
    product = top.value * bottom.value
    lower_part = top.low * (2 * top.value - top.low)
    lower_root = math.sqrt(max(0.0, product**2 - lower_part * bottom.high * (2 * bottom.value - bottom.high)))
    upper_part = bottom.low * (2 * bottom.value - bottom.low)
    upper_root = math.sqrt(max(0.0, product**2 - top.high * (2 * top.value - top.high) * upper_part))
    lower_bottom = product + lower_root
    low = lower_part / lower_bottom if lower_bottom else math.inf if lower_part else 0.0
    return low, (product + upper_root) / upper_part if upper_part else math.inf


def cohens_kappa(first: Mapping[str, str], second: Mapping[str, str]) -> Kappa:
    """Returns the agreement of two markers on the pages that both marked: page → mark.

    (p_o - p_e) / (1 - p_e), with the observed agreement p_o and the one p_e of independent markers with the same
    shares of each mark (Cohen, Educational and Psychological Measurement 20, 1960). None where it is not defined.
    """
    pages = first.keys() & second.keys()
    if not pages:
        return Kappa(0, None, None)
    observed = sum(first[page] == second[page] for page in pages) / len(pages)
    shares = [Counter(marks[page] for page in pages) for marks in (first, second)]
    expected = sum(number * shares[1][mark] for mark, number in shares[0].items()) / len(pages) ** 2
    return Kappa(len(pages), observed, None if expected == 1 else (observed - expected) / (1 - expected))
