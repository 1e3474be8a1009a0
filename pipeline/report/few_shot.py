"""Accuracy by the number of worked examples: which scores of a table are points of one curve.

    piqa_0shot  0  acc 0.55 ┐                      arithmetic_8shot / two_digit_addition  8  acc 0.31
    piqa_1shot  1  acc 0.57 ├─> a panel, a line             └─> a panel of its own, a line for each group
    piqa_8shot  8  acc 0.58 ┘

As Brown et al. 2020 (GPT-3), figures 1.2 and 3.10. Where the window had no room for all examples, the score is of fewer
of them: its point says so.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.report.formatting import is_share
from headrace.train.evaluation.benchmarks.base import without_shots


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


def panels_of(models: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Panel]:
    """For each benchmark that was scored with two or more numbers of shots a panel with a line for each of ``models``
    (name -> entries of scores.json), then for each that has groups, and each model, one with a line for each group."""
    found: dict[tuple[bool, str], Panel] = {}
    for model, entries in models.items():
        for benchmark, group, random, line in _lines(entries):
            title = f"{benchmark}, {model}" if group and len(models) > 1 else benchmark
            panel = found.setdefault((bool(group), title), Panel(title, random, bool(group)))
            panel.curves[group or model] = line
    return [found[key] for key in sorted(found)]


def _lines(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, float | None, list[Shot]]]:
    """(benchmark, group, what guessing gives, curve) of the first share of right answers of each benchmark."""
    by_name: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for entry in entries:
        if entry["metrics"]:
            by_name[without_shots(entry["name"], entry["shots"])][entry["shots"]] = entry
    for benchmark, by_shots in by_name.items():
        scored = [by_shots[shots] for shots in sorted(by_shots)]
        shares = [metric for metric in scored[0]["metrics"] if is_share(metric["name"])]
        for metric in shares:
            if len(scored) > 1 and metric["name"] == shares[0]["name"]:
                name, group = metric["name"], metric["group"]
                yield benchmark, group, metric["random"], [s for e in scored for s in _shots(e, name, group)]


def _shots(entry: Mapping[str, Any], name: str, group: str) -> Iterator[Shot]:
    for metric in entry["metrics"]:
        if (metric["name"], metric["group"]) == (name, group):
            interval = metric["interval"] and (metric["interval"][0], metric["interval"][1])
            yield Shot(entry["shots"], metric["value"], interval, bool(entry.get("truncated_contexts")))
