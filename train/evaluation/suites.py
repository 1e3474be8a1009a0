"""Suites: several benchmarks as one number, in which each benchmark counts the same.

    evaluation.suites={core: [piqa, arc_easy, copa]}

    acc             mean of the first accuracy of each benchmark
    centered_acc    the same of (accuracy − chance) / (1 − chance): 0 is guessing, 1 all right
    bits_per_byte   mean over the benchmarks, where all have it

The errors are those of a mean of independent values. A centered accuracy is that of DCLM's CORE (Li et al. 2024,
"DataComp-LM", section 3.5). samples/<suite>.jsonl has the items of all benchmarks with weights that make their mean the
suite's value, so ``headrace compare`` tests a difference of suites over items, too.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.train.evaluation.metrics import mean_of
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, shots_name, split_filter
from headrace.train.inference.queries import Tally

SUITE = "suite"
"""The type of the rows of suites in scores.json."""
CENTERED = "centered_acc"
BITS = "bits_per_byte"
SampleLines = Sequence[Mapping[str, Any]]
"""The lines of samples/*.jsonl."""


Suites = Mapping[str, tuple[str, ...]]
"""Name of a suite → names of its benchmarks."""


def check_suites(suites: Suites, known: AbstractSet[str]) -> None:
    """Checks that all benchmarks of ``suites`` are among the ``known`` ones.

    Raises:
        ConfigError: naming the suite and the benchmark; and for a suite with the name of a benchmark.
    """
    for suite, members in suites.items():
        if suite in known:
            raise ConfigError(f"evaluation.suites.{suite}", "is the name of a benchmark, too", "rename one")
        for member in members:
            if member not in known:
                problem = f"no benchmark or task of evaluation is named {member!r}"
                raise ConfigError(f"evaluation.suites.{suite}", problem, suggestion(member, known))


def suites_of_shots(suites: Suites, shots: Sequence[int], known: AbstractSet[str]) -> dict[str, tuple[str, ...]]:
    """Returns ``suites`` written out: one with benchmarks that ``known`` has for each number of ``shots``, for each."""
    written: dict[str, tuple[str, ...]] = {}
    for name, members in suites.items():
        if all(member in known for member in members):
            written[name] = members
            continue
        for number in shots:
            longer = (shots_name(member, number) for member in members)
            names = (long if long in known else member for long, member in zip(longer, members, strict=True))
            written[shots_name(name, number)] = tuple(names)
    return written


@dataclasses.dataclass(frozen=True)
class Member:
    """One benchmark of a suite."""

    scores: BenchmarkScores
    samples: SampleLines

    @property
    def accuracy(self) -> Metric | None:
        """The first metric of the whole benchmark that is a share of right answers."""
        return next((metric for metric in self.scores.whole if metric.kind.is_share), None)

    @property
    def bits(self) -> Metric | None:
        """Bits per byte of the right answers."""
        return next((metric for metric in self.scores.whole if metric.name == BITS), None)


def suite_scores(name: str, members: Sequence[Member]) -> tuple[BenchmarkScores, list[dict[str, Any]]]:
    """Returns the scores of the suite ``name``, and the lines of its samples.

    Benchmarks without an accuracy, and those without items, are left out; a note names them.
    """
    counted = [(member, accuracy) for member in members if (accuracy := member.accuracy) is not None]
    without = [member.scores.name for member in members if member.accuracy is None]
    bits = [member.bits for member in members]
    metrics: list[Metric] = []
    if counted:
        accuracies = [accuracy for _, accuracy in counted]
        metrics += [mean_of("acc", accuracies), mean_of(CENTERED, [centered(accuracy) for accuracy in accuracies])]
    if all(metric is not None for metric in bits):
        metrics.append(mean_of(BITS, [metric for metric in bits if metric is not None]))
    shots = {member.scores.shots for member in members}
    scores = BenchmarkScores(
        name=name,
        type=SUITE,
        shots=shots.pop() if len(shots) == 1 else 0,
        items=sum(member.scores.items for member in members),
        tally=Tally(),
        metrics=tuple(metrics),
        notes=(f"without {', '.join(without)}: no accuracy",) if without else (),
    )
    return scores, list(_samples(counted))


def centered(accuracy: Metric) -> Metric:
    """Returns ``accuracy`` on the scale where chance is 0 and all right is 1."""
    chance = accuracy.random or 0.0
    error = None if accuracy.standard_error is None else accuracy.standard_error / (1 - chance)
    return dataclasses.replace(accuracy, value=_above(accuracy.value, chance), standard_error=error, random=0.0)


def _samples(counted: Sequence[tuple[Member, Metric]]) -> Iterator[dict[str, Any]]:
    """Yields a line for each item, whose outcomes have as mean over all items the mean over benchmarks."""
    outcomes = [(member, accuracy, _outcomes(member, accuracy)) for member, accuracy in counted]
    if not all(rows for _, _, rows in outcomes):
        return
    items = sum(len(rows) for _, _, rows in outcomes)
    for member, accuracy, rows in outcomes:
        weight, chance = items / (len(counted) * len(rows)), accuracy.random or 0.0
        for item, value in rows:
            outcome = {"acc": weight * value, CENTERED: weight * _above(value, chance)}
            yield {"name": item, "group": member.scores.name, "continuations": [], "outcome": outcome}


def _outcomes(member: Member, accuracy: Metric) -> list[tuple[str, float]]:
    """Returns the item's name and outcome of each sample; none where their mean is not the accuracy."""
    bare, filtered = split_filter(accuracy.name)
    rows = [
        (str(row["name"]), float(row["outcome"][bare if accuracy.name not in row["outcome"] else accuracy.name]))
        for row in member.samples
        if {bare, accuracy.name} & row["outcome"].keys() and (filtered == "none" or row["group"] in ("", filtered))
    ]
    is_mean = rows and math.isclose(math.fsum(value for _, value in rows) / len(rows), accuracy.value, abs_tol=1e-5)
    return rows if is_mean else []


def _above(value: float, chance: float) -> float:
    return (value - chance) / (1 - chance)
