"""Tests whether worked examples help: each number of them against the fewest, on the same items.

    piqa_0shot   right/wrong of each item ┐
    piqa_1shot                            ├─> 1: +0.5 % [−1.9, +2.9], p 0.74    8: +2.1 % [−0.3, +4.5], p 0.10
    piqa_8shot                            ┘

The intervals of two accuracies say little about this: they leave out that both have the same items (significance.py).
"""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from headrace.pipeline.core.artifact import Artifact
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, Outcomes, read_outcomes
from headrace.train.evaluation.significance import Difference, difference_of, holm, mark

NOTE = (
    "In [brackets]: 95 % intervals of the difference, by resampling the items. p: McNemar's exact test; after Holm's "
    "correction over the table * < 0.05, ** < 0.01, *** < 0.001."
)
"""The text below a table of gains."""


@dataclasses.dataclass(frozen=True)
class ShotGain:
    """The difference of a share of right answers between two numbers of worked examples."""

    benchmark: str
    """The name of the benchmark, without its shots."""
    metric: Metric
    fewest: int
    shots: int
    difference: Difference
    adjusted_p: float
    """The p-value after Holm's correction over all gains."""

    @property
    def cells(self) -> dict[str, str]:
        """The cells of its row, by the headings of the columns; stars mark p after the correction."""
        low, high = (f"{100 * end:+.1f}" for end in self.difference.interval)
        shown = f"{100 * self.difference.value:+.1f} % [{low}, {high}]"
        return {
            "benchmark": self.benchmark,
            "metric": self.metric.name,
            "examples": f"{self.fewest} → {self.shots}",
            "difference": shown,
            "p": f"{self.difference.p:.2g} {mark(self.adjusted_p)}".rstrip(),
        }


def shot_gains(scores: Artifact, benchmarks: Sequence[BenchmarkScores]) -> list[ShotGain]:
    """Returns the gains of the first share of right answers of each benchmark with two or more numbers of shots.

    Args:
        scores: the artifact with the answers of ``benchmarks``.
        benchmarks: in the order of their shots.
    """
    by_name: dict[str, list[BenchmarkScores]] = defaultdict(list)
    for benchmark in benchmarks:
        by_name[benchmark.base_name].append(benchmark)
    gains = []
    for name, (fewest, *others) in by_name.items():
        metric = next((metric for metric in fewest.whole if metric.kind.is_share), None)
        if metric is None or not others:
            continue
        first = _outcomes(scores, fewest)
        for other in others:
            difference = difference_of(metric.kind, first, _outcomes(scores, other))
            if difference is not None:
                gains.append(ShotGain(name, metric, fewest.shots, other.shots, difference, difference.p))
    adjusted = holm([gain.difference.p for gain in gains])
    return [dataclasses.replace(gain, adjusted_p=p) for gain, p in zip(gains, adjusted, strict=True)]


def _outcomes(scores: Artifact, benchmark: BenchmarkScores) -> Outcomes:
    """Returns the outcomes of the items; none where their answers were not kept."""
    name = f"samples/{benchmark.name}.jsonl"
    return read_outcomes(scores.path(name)) if name in scores.manifest["files"] else {}
