"""Splits scores into clean and dirty items, to show whether a score comes from memorized text; gives the items' texts.

    items.json of ``overlaps`` ──> each item is clean | dirty | too short ──> every metric on clean and on dirty items

**Dirty**: the item shares an n-gram with a document that training may have seen (documents that decontamination dropped
or masked do not count). **Clean**: it was searched for and shares none. Both as in GPT-3 (Brown et al. 2020, appendix
C). An article of raw text may share some (``language_modelling.DIRTY_SHARE``). **Too short**: an item with fewer than 8
words cannot be searched for, and is in neither part. Benchmarks that are made here or from the run's own held-out text
are not split, nor are files that are read as one text.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.stage import RawFile
from headrace.train.evaluation.benchmarks.base import Benchmark, FileBenchmark, Item, Outcome
from headrace.train.evaluation.score_rows import CLEAN, DIRTY, TOO_SHORT, Metric, check_declared

PARTS = (CLEAN, DIRTY)
"""The parts of a benchmark that get scores of their own."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkTexts:
    """The texts of a benchmark's files, for decontamination (headrace.data_prep.decontamination.config.ItemTexts).

    The files and the way of reading decide them. Shots, delimiters and limits, which make prompts of them, do not: all
    lines of a file are searched for.
    """

    type: str
    """The way that the files are read (``FileBenchmark.reading``)."""
    benchmark: FileBenchmark[Any] = dataclasses.field(metadata={"hashed": False})
    data: Path = dataclasses.field(metadata={"hashed": False})

    @property
    def dirty_share(self) -> float:
        return self.benchmark.dirty_share

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.benchmark.raw_files(self.data)

    def texts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        names, parsed = zip(*self.benchmark.read(self.data), strict=True)
        return zip(names, self.benchmark.texts(parsed), strict=True)


@dataclasses.dataclass(frozen=True)
class BenchmarkOverlap:
    """The items of one benchmark that overlap with training documents."""

    dirty: Mapping[str, int]
    """Name of each dirty item → the number of documents that it is in."""
    too_short: frozenset[str]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "BenchmarkOverlap":
        """Returns the overlap of a benchmark's entry in items.json."""
        return cls(entry["dirty"], frozenset(entry["too_short"]))

    def part(self, item: Item) -> str:
        """Returns ``clean``, ``dirty`` or ``too_short``."""
        if item.name in self.dirty:
            return DIRTY
        return TOO_SHORT if item.name in self.too_short else CLEAN


def parts_of(items: Sequence[Item], overlap: BenchmarkOverlap | None) -> list[str | None]:
    """Returns the part of each item; None for all items of a benchmark that was not searched for."""
    return [overlap.part(item) if overlap else None for item in items]


def sizes(parts: Sequence[str | None]) -> dict[str, int]:
    """Returns the number of items of each part."""
    return {part: parts.count(part) for part in (*PARTS, TOO_SHORT)}


def metrics_by_part(
    benchmark: Benchmark,
    items: Sequence[Item],
    outcomes: Sequence[Outcome],
    parts: Sequence[str | None],
    vocabulary: int,
) -> list[Metric]:
    """Returns every metric of the benchmark, with the same metric on clean and on dirty items.

    A part without items has none (None), and a group has none of a part in which it does not occur.
    """
    if not items:
        return []
    of_part: dict[str, dict[tuple[str, str], Metric]] = {}
    for part in PARTS:
        numbers = [number for number, part_of_item in enumerate(parts) if part_of_item == part]
        items_of_part = [items[number] for number in numbers]
        outcomes_of_part = [outcomes[number] for number in numbers]
        metrics = benchmark.metrics(items_of_part, outcomes_of_part, vocabulary) if numbers else []
        groups = {item.group for item in items_of_part}
        only = groups.pop() if len(groups) == 1 else ""  # a single group is the whole, and has no metric of its own
        of_part[part] = {
            (metric.name, group): metric for metric in metrics for group in {metric.group, metric.group or only}
        }
    split_metrics = []
    for metric in benchmark.metrics(items, outcomes, vocabulary):
        check_declared(metric.name)
        clean, dirty = (_same_metric(metric, of_part[part]) for part in PARTS)
        split_metrics.append(dataclasses.replace(metric, clean=clean, dirty=dirty))
    return split_metrics


def _same_metric(metric: Metric, by_name: Mapping[tuple[str, str], Metric]) -> Metric | None:
    """Returns the metric with the name and group of ``metric`` among those of a part."""
    same = by_name.get((metric.name, metric.group))
    return same and dataclasses.replace(same, group=metric.group)
