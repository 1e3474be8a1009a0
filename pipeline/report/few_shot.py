"""Accuracy by the number of worked examples: groups the scores of a table into curves.

    piqa_0shot  0  acc 0.55 ┐                      arithmetic_8shot / two_digit_addition  8  acc 0.31
    piqa_1shot  1  acc 0.57 ├─> a panel, a line             └─> a panel of its own, a line for each group
    piqa_8shot  8  acc 0.58 ┘

As Brown et al. 2020 (GPT-3), figures 1.2 and 3.10. If the window had no room for all examples, the score is of fewer
examples, and its point is marked.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from headrace.train.evaluation.score_rows import BenchmarkScores, Metric


@dataclasses.dataclass(frozen=True)
class Shot:
    """One score of a curve."""

    shots: int
    value: float
    interval: tuple[float, float] | None
    is_truncated: bool
    """Whether some prompts did not fit the window and lost examples."""


@dataclasses.dataclass(frozen=True)
class Panel:
    """The curves of one benchmark, by the names of models or of groups."""

    title: str
    random: float | None
    is_by_group: bool
    curves: dict[str, list[Shot]] = dataclasses.field(default_factory=dict)


def panels_of(models: Mapping[str, Sequence[BenchmarkScores]]) -> list[Panel]:
    """Returns a panel for each benchmark that was scored with two or more numbers of shots.

    It has a line for each of ``models`` (name → scores). Then follows for each benchmark with groups, and each model, a
    panel with a line for each group.
    """
    found: dict[tuple[bool, str], Panel] = {}
    for model, scores in models.items():
        for benchmark, metric, line in _lines(scores):
            title = f"{benchmark}, {model}" if metric.group and len(models) > 1 else benchmark
            is_by_group = bool(metric.group)
            panel = found.setdefault((is_by_group, title), Panel(title, metric.random, is_by_group))
            panel.curves[metric.group or model] = line
    return [found[key] for key in sorted(found)]


def _lines(scores: Sequence[BenchmarkScores]) -> Iterator[tuple[str, Metric, list[Shot]]]:
    """Yields (benchmark, metric, curve) of the first share of right answers of each benchmark and group."""
    by_name: dict[str, dict[int, BenchmarkScores]] = defaultdict(dict)
    for one in scores:
        if one.metrics:
            by_name[one.base_name][one.shots] = one
    for benchmark, by_shots in by_name.items():
        scored = [by_shots[shots] for shots in sorted(by_shots)]
        shares = [metric for metric in scored[0].metrics if metric.kind.is_share]
        for metric in shares:
            if len(scored) > 1 and metric.name == shares[0].name:
                yield benchmark, metric, [shot for one in scored for shot in _shots(one, metric)]


def _shots(scores: BenchmarkScores, like: Metric) -> Iterator[Shot]:
    """Yields the score of the metric with the name and group of ``like``."""
    for metric in scores.metrics:
        if (metric.name, metric.group) == (like.name, like.group):
            yield Shot(scores.shots, metric.value, metric.interval, bool(scores.tally.truncated_contexts))
