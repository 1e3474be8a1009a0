"""Clean and dirty items: does a score come from what the model has read?

    items.json of ``overlaps`` ──> each item is clean | dirty | too short ──> every metric on clean, on dirty items

**Dirty**: the item shares an n-gram with a document that training may have seen (what decontamination dropped or masked
is not among them). **Clean**: it was searched for and shares none. Both as in GPT-3 (Brown et al. 2020, appendix C). An
article of raw text may share some (``language_modelling.DIRTY_SHARE``). An item with fewer than 8 words cannot be
searched for: **too short**, in neither part. Benchmarks that are made here or from the run's own held-out text are not
split, nor are files that are read as one text.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.train.evaluation.benchmarks.base import Benchmark
from headrace.train.evaluation.metrics import Metric
from headrace.train.inference.item import Item, Outcome

CLEAN, DIRTY, TOO_SHORT = "clean", "dirty", "too_short"
PARTS = (CLEAN, DIRTY)
"""The parts of a benchmark that get scores of their own."""


@dataclasses.dataclass(frozen=True)
class Overlap:
    """What ``overlaps`` found of the items of one benchmark."""

    dirty: Mapping[str, int]
    """The name of each dirty item, and how many documents it is in."""
    too_short: frozenset[str]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> "Overlap":
        """From a benchmark's entry in items.json."""
        return cls(found["dirty"], frozenset(found["too_short"]))

    def part(self, item: Item) -> str:
        """``clean``, ``dirty`` or ``too_short``."""
        if item.name in self.dirty:
            return DIRTY
        return TOO_SHORT if item.name in self.too_short else CLEAN


def parts_of(items: Sequence[Item], overlap: Overlap | None) -> list[str | None]:
    """The part of each item; None for all where the benchmark was not searched for."""
    return [overlap.part(item) if overlap else None for item in items]


def sizes(parts: Sequence[str | None]) -> dict[str, int]:
    """How many items each part has."""
    return {part: parts.count(part) for part in (*PARTS, TOO_SHORT)}


def metrics_by_part(
    benchmark: Benchmark,
    items: Sequence[Item],
    outcomes: Sequence[Outcome],
    parts: Sequence[str | None],
    vocabulary: int,
) -> list[dict[str, Any]]:
    """Every metric of the benchmark as scores.json has it: with the same metric on clean and on dirty items.

    A part without items has none (None), and a group has none of a part in which it does not occur.
    """
    if not items:
        return []
    of_part = {}
    for part in PARTS:
        here = [number for number, one in enumerate(parts) if one == part]
        some = [items[number] for number in here], [outcomes[number] for number in here]
        metrics = benchmark.metrics(*some, vocabulary) if here else []
        groups = {item.group for item in some[0]}
        only = groups.pop() if len(groups) == 1 else ""  # a single group is the whole, and has no metric of its own
        of_part[part] = {(one.name, group): one for one in metrics for group in {one.group, one.group or only}}
    return [
        {**dataclasses.asdict(metric), **{part: _of(metric, of_part[part]) for part in PARTS}}
        for metric in benchmark.metrics(items, outcomes, vocabulary)
    ]


def _of(metric: Metric, found: Mapping[tuple[str, str], Metric]) -> dict[str, Any] | None:
    """The metric of the same name and group among those of a part."""
    same = found.get((metric.name, metric.group))
    return dataclasses.asdict(dataclasses.replace(same, group=metric.group)) if same else None
