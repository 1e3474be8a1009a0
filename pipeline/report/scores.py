"""The scores on the page: rows of scores.json, accuracies as a figure, curves over shots, questions with answers."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report import panels
from headrace.pipeline.report.accuracies import Score, accuracies
from headrace.pipeline.report.few_shot import panels_of
from headrace.pipeline.report.figures import Figure
from headrace.pipeline.report.formatting import count, decimal
from headrace.pipeline.report.questions import Question, questions
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, read_scores

HEADLINES = 3


@dataclasses.dataclass(frozen=True)
class Row:
    """One metric of one benchmark, or of a group within it."""

    benchmark: BenchmarkScores
    metric: Metric

    @property
    def title(self) -> str:
        return f"{self.benchmark.base_name} {self.metric.name}".replace("_", " ")

    @property
    def key(self) -> tuple[str, str, str]:
        """A key that is equal for rows that differ only by their shots."""
        return self.benchmark.base_name, self.metric.group, self.metric.name

    def text(self, value: float | None) -> str:
        """Returns ``value`` in the unit of this metric, with at most as many digits as its main value has."""
        if value is None:
            return "–"
        kind = self.metric.kind
        if kind.unit:
            return f"{kind.scale * value:.1f}{kind.unit}"
        large = max(abs(self.metric.value), abs(value)) >= 100
        return decimal(value, 1 if large else 3)

    @property
    def cells(self) -> dict[str, str]:
        """The numbers of the row, by the heading of their column."""
        metric = self.metric
        parts = {"clean": metric.clean, "dirty": metric.dirty}
        return {
            "value": self.text(metric.value),
            "standard error": "" if metric.standard_error is None else f"± {self.text(metric.standard_error)}",
            "95 % interval": "–" if metric.interval is None else " to ".join(self.text(end) for end in metric.interval),
            "random": self.text(metric.random),
            "items": count(metric.items),
            **{name: f"{self.text(one.value)} ({count(one.items)})" if one else "–" for name, one in parts.items()},
        }


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """The scores on the page."""

    rows: list[Row]
    groups: list[Row]
    notes: list[str]
    """Limits of the scores that a reader must know."""
    held_out: Mapping[str, float]
    """Metric → value over all held-out documents; the training's own validation is a sample of them."""
    figure: Figure | None
    few_shot: Figure | None
    few_shot_groups: list[Figure]
    questions: list[Question]

    @classmethod
    def of(cls, scores: Artifact) -> "ScoreTable":
        """Returns the table of ``scores``."""
        benchmarks = sorted(read_scores(scores.path("scores.json")), key=lambda one: one.order)
        rows = [Row(one, metric) for one in benchmarks for metric in one.metrics]
        whole = [row for row in rows if not row.metric.group]
        shown = first_accuracies(whole, lambda row: row.benchmark.name)
        by_shots = panels_of({"this model": benchmarks})
        return cls(
            rows=_by_shots(whole),
            groups=_by_shots([row for row in rows if row.metric.group]),
            notes=list(dict.fromkeys(note for one in benchmarks for note in _notes(one))),
            held_out={m.name: m.value for one in benchmarks if one.type == "validation" for m in one.metrics},
            figure=accuracies([_mark(row) for row in shown]),
            few_shot=panels.few_shot([panel for panel in by_shots if not panel.is_by_group]),
            few_shot_groups=panels.few_shot_groups([panel for panel in by_shots if panel.is_by_group]),
            questions=questions(scores, benchmarks),
        )

    def headlines(self) -> list[Row]:
        """Returns the first accuracy of each of the first benchmarks, with the fewest worked examples."""
        return first_accuracies(self.rows, lambda row: row.benchmark.base_name)[:HEADLINES]


def first_accuracies(rows: Sequence[Row], name: Callable[[Row], str]) -> list[Row]:
    """Returns for each ``name`` the first row that is a share of right answers."""
    firsts: dict[str, Row] = {}
    for row in rows:
        if row.metric.kind.is_share:
            firsts.setdefault(name(row), row)
    return list(firsts.values())


def _mark(row: Row) -> Score:
    metric = row.metric
    return Score(row.title, row.benchmark.shots, metric.value, metric.interval, metric.random)


def _by_shots(rows: Sequence[Row]) -> list[Row]:
    """Returns ``rows``; rows that differ only by their shots follow each other."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return [row for alike in found.values() for row in alike]


def _notes(scores: BenchmarkScores) -> Iterator[str]:
    """Yields whether the benchmark had no items, contexts were cut, or items overlap with training documents."""
    tally = scores.tally
    if not scores.metrics:
        yield f"{scores.name}: no items."
    if tally.truncated_contexts:
        lost = f"{count(tally.truncated_contexts)} of {count(tally.queries)} contexts did not fit the window"
        yield f"{scores.name}: {lost} and lost {count(tally.truncated_tokens)} tokens on the left."
    if tally.split_continuations:
        yield f"{scores.name}: {count(tally.split_continuations)} continuations were longer than the window."
    overlap = scores.overlap
    if overlap and (overlap["dirty"] or overlap["too_short"]):
        clean, dirty, short = (count(overlap[part]) for part in ("clean", "dirty", "too_short"))
        found = f"{dirty} items overlap with training documents, {clean} do not"
        yield f"{scores.base_name}: {found}, {short} are too short to tell."
