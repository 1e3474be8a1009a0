"""The verdict on a claim, from the values of its arms: confirmed, contradicted, undecided, or at chance.

A claim orders values from the lowest to the highest. Each neighbouring pair is a step: the difference of the higher
value minus the lower one, paired by seed. Its interval over seeds is that of Student's t. Where both arms keep the
outcomes of the same items, a second interval is a bootstrap over these items, of their means over the seeds
(pipeline/core/statistics.py).

    ``by`` below 0, both values at chance            at chance
    all intervals of a step above ``by``             confirmed
    all intervals of a step below ``by``             contradicted
    else, or fewer than two seeds                    undecided

A claim is at chance if all its values are, whose intervals include chance or are worse; else confirmed if all steps
are, contradicted if one is, else undecided. Any two models that guess are "not worse" than each other.
"""

import dataclasses
import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from headrace.pipeline.core.statistics import IntervalEnds, mean_interval, paired_bootstrap
from headrace.pipeline.experiments.measures import Measured

Verdict = Literal["confirmed", "contradicted", "undecided", "at chance", "no result"]
CONFIRMED: Verdict = "confirmed"
CONTRADICTED: Verdict = "contradicted"
UNDECIDED: Verdict = "undecided"
AT_CHANCE: Verdict = "at chance"
NO_RESULT: Verdict = "no result"
DIFFERENCE = " - "
"""Between the two values of a difference in a claim."""
MIN_ITEMS = 2

BySeed = Mapping[int, Measured]
"""Seed → what was measured."""


@dataclasses.dataclass(frozen=True)
class NeighbourPair:
    """A neighbouring pair of values of a claim."""

    lower: str
    higher: str
    """The two values, as the claim names them."""
    difference: float | None
    """The higher minus the lower, the mean over the seeds that both have; None: there are none."""
    over_seeds: IntervalEnds | None
    """95 %; None with fewer than two seeds."""
    over_items: IntervalEnds | None
    """95 %; None where the arms do not keep the same items."""
    seeds: int
    """The number of seeds that both have."""
    verdict: Verdict

    @property
    def pair(self) -> str:
        """The subtraction for readers; a side that is a difference itself stands in brackets."""
        higher, lower = (f"({side})" if DIFFERENCE in side else side for side in (self.higher, self.lower))
        return f"{higher} − {lower}"


@dataclasses.dataclass(frozen=True)
class ClaimVerdict:
    """The verdict of the rule on a claim."""

    claim: str
    by: float
    verdict: Verdict
    steps: Sequence[NeighbourPair]


def difference(first: BySeed, second: BySeed | None = None) -> BySeed:
    """Returns ``first`` − ``second`` of the seeds that both have, without outcomes of items; ``first`` alone."""
    if second is None:
        return first
    return {seed: Measured(first[seed].value - second[seed].value) for seed in first.keys() & second.keys()}


def decided(claim: str, rising: Sequence[str | float], by: float, values_of: Mapping[str, BySeed]) -> ClaimVerdict:
    """Returns the verdict on ``claim``.

    Args:
        claim: its sentence.
        rising: its values, the lowest first: names in ``values_of``, or numbers.
        by: each value is above the one before it by more than this.
        values_of: what was measured, by the names of values.
    """
    sides = [(str(side), values_of.get(side, {}) if isinstance(side, str) else side) for side in rising]
    steps = [_step(lower, higher, by) for lower, higher in itertools.pairwise(sides)]
    measured = [side for _, side in sides if not isinstance(side, float)]
    verdicts = {step.verdict for step in steps}
    verdict = UNDECIDED
    if NO_RESULT in verdicts:
        verdict = NO_RESULT
    elif measured and all(map(is_at_chance, measured)):
        verdict = AT_CHANCE
    elif verdicts == {CONFIRMED}:
        verdict = CONFIRMED
    elif CONTRADICTED in verdicts:
        verdict = CONTRADICTED
    return ClaimVerdict(claim, by, verdict, steps)


def _step(lower: tuple[str, BySeed | float], higher: tuple[str, BySeed | float], by: float) -> NeighbourPair:
    differences = _differences(lower[1], higher[1])
    if not differences:
        return NeighbourPair(lower[0], higher[0], None, None, None, 0, NO_RESULT)
    over_seeds, over_items = mean_interval(differences), _over_items(lower[1], higher[1])
    intervals = [interval for interval in (over_seeds, over_items) if interval is not None]
    verdict = UNDECIDED
    if by < 0 and all(not isinstance(side, float) and is_at_chance(side) for _, side in (lower, higher)):
        verdict = AT_CHANCE
    elif over_seeds is not None and all(low > by for low, _ in intervals):
        verdict = CONFIRMED
    elif over_seeds is not None and all(high < by for _, high in intervals):
        verdict = CONTRADICTED
    mean = statistics.fmean(differences)
    return NeighbourPair(lower[0], higher[0], mean, over_seeds, over_items, len(differences), verdict)


def is_at_chance(by_seed: BySeed) -> bool:
    """Whether the interval over seeds includes the value of a model that knows nothing, or is worse."""
    chances = [measured.chance for measured in by_seed.values() if measured.chance is not None]
    values = [measured.value for measured in by_seed.values()]
    if not values or len(chances) < len(values):
        return False
    low, high = mean_interval(values) or (min(values), max(values))
    chance, better = statistics.fmean(chances), next(iter(by_seed.values())).higher_is_better
    return (better is False or low <= chance) and (better is True or high >= chance)


def _differences(lower: BySeed | float, higher: BySeed | float) -> list[float]:
    """Returns the differences of the seeds that both sides have; a number is the same for each seed."""
    by_seed = [side for side in (lower, higher) if not isinstance(side, float)]
    seeds = sorted(set.intersection(*(set(side) for side in by_seed))) if by_seed else []
    low, high = ([side if isinstance(side, float) else side[seed].value for seed in seeds] for side in (lower, higher))
    return [above - below for below, above in zip(low, high, strict=True)]


def _over_items(lower: BySeed | float, higher: BySeed | float) -> IntervalEnds | None:
    """Returns the interval of the difference over the items of both sides, each the mean over the common seeds."""
    if isinstance(lower, float) or isinstance(higher, float):
        return None
    seeds = sorted(lower.keys() & higher.keys())
    sides = [[side[seed].items for seed in seeds] for side in (lower, higher)]
    shared = sorted(set[str].intersection(*(set(items) for side in sides for items in side)))
    sizes = {name: {items[name][1] for side in sides for items in side} for name in shared}
    if len(shared) < MIN_ITEMS or any(len(of_item) > 1 for of_item in sizes.values()):
        return None
    first, second = ([statistics.fmean(items[name][0] for items in side) for name in shared] for side in sides)
    return paired_bootstrap(first, second, [next(iter(sizes[name])) for name in shared]).interval
