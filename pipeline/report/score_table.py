"""The scores of the page and the terminal: rows of scores.json, a figure, and a sentence about each benchmark."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report.drawing import Figure
from headrace.pipeline.report.formatting import count, decimal
from headrace.pipeline.report.questions import AnsweredQuestion, WrittenTexts, questions, written_texts
from headrace.pipeline.report.score_figures import AccuracyMark, accuracies
from headrace.train.evaluation.benchmarks import BENCHMARKS
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, read_scores

HEADLINES = 3
CONTINUATIONS = "continuations"
"""The type of the benchmark whose answers are texts to be read."""
EMPTY = ("", "–")
"""Cells without a number."""


@dataclasses.dataclass(frozen=True)
class ScoreRow:
    """One metric of one benchmark, or of a group within it."""

    benchmark: BenchmarkScores
    metric: Metric

    @property
    def title(self) -> str:
        return f"{self.benchmark.base_name} {self.metric.name}".replace("_", " ")

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for rows that differ only in their shots."""
        return self.benchmark.base_name, self.metric.group, self.metric.name

    def text(self, value: float | None) -> str:
        """Returns ``value`` in the unit of this metric, with at most as many digits as its main value."""
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
        shots = count(self.benchmark.shots) if self.benchmark.shots else ""
        error = None if metric.kind.is_exponential else metric.standard_error
        return {
            "shots": shots,
            "value": self.text(metric.value),
            "standard error": "" if error is None else f"± {self.text(error)}",
            "95 % interval": "–" if metric.interval is None else " to ".join(self.text(end) for end in metric.interval),
            "random": self.text(metric.random),
            "items": count(metric.items),
            **{name: f"{self.text(part.value)} ({count(part.items)})" if part else "–" for name, part in parts.items()},
        }


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """The scores of a run, ready to be shown."""

    rows: list[ScoreRow]
    groups: list[ScoreRow]
    notes: list[str]
    """Limitations of the scores: truncated contexts, missing items, overlaps with training documents."""
    held_out: Mapping[str, float]
    """Metric → value over all held-out documents; the validation during training uses a sample of them."""
    figure: Figure | None
    questions: list[AnsweredQuestion]
    written: list[WrittenTexts]
    sentences: dict[str, str]
    """Benchmark, without its shots → one sentence about it."""

    @staticmethod
    def columns(rows: Sequence[ScoreRow]) -> list[str]:
        """Returns the headings of the columns in which at least one of ``rows`` has a number."""
        headings = rows[0].cells if rows else ()
        return [heading for heading in headings if any(row.cells[heading] not in EMPTY for row in rows)]

    @classmethod
    def of(cls, scores: Artifact) -> "ScoreTable":
        """Returns the table of ``scores``."""
        benchmarks = sorted(read_scores(scores.path("scores.json")), key=lambda benchmark: benchmark.order)
        rows = [ScoreRow(benchmark, metric) for benchmark in benchmarks for metric in benchmark.metrics]
        whole = [row for row in rows if not row.metric.group]
        shown = first_accuracies(whole, lambda row: row.benchmark.name)
        texts = [benchmark for benchmark in benchmarks if benchmark.type == CONTINUATIONS]
        return cls(
            rows=_by_shots(whole),
            groups=_by_shots([row for row in rows if row.metric.group]),
            notes=list(dict.fromkeys(note for benchmark in benchmarks for note in _notes(benchmark))),
            held_out={
                m.name: m.value for benchmark in benchmarks if benchmark.type == "validation" for m in benchmark.metrics
            },
            figure=accuracies([_accuracy(row) for row in shown]),
            questions=questions(scores, [benchmark for benchmark in benchmarks if benchmark not in texts]),
            written=written_texts(scores, texts),
            sentences={
                benchmark.base_name: BENCHMARKS[benchmark.type].sentence
                for benchmark in benchmarks
                if benchmark.type in BENCHMARKS
            },
        )

    def headlines(self) -> list[ScoreRow]:
        """Returns the first accuracy of each of the first benchmarks, with the fewest worked examples."""
        return first_accuracies(self.rows, lambda row: row.benchmark.base_name)[:HEADLINES]


def first_accuracies(rows: Sequence[ScoreRow], name: Callable[[ScoreRow], str]) -> list[ScoreRow]:
    """Returns for each ``name`` the first row that is a share of right answers."""
    firsts: dict[str, ScoreRow] = {}
    for row in rows:
        if row.metric.kind.is_share:
            firsts.setdefault(name(row), row)
    return list(firsts.values())


def _accuracy(row: ScoreRow) -> AccuracyMark:
    metric = row.metric
    return AccuracyMark(row.title, row.benchmark.shots, metric.value, metric.interval, metric.random)


def _by_shots(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Returns ``rows``; rows that differ only by their shots follow each other."""
    by_key: dict[tuple[str, str, str], list[ScoreRow]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    return [row for alike in by_key.values() for row in alike]


def _notes(scores: BenchmarkScores) -> Iterator[str]:
    """Yields the limitations: no items, truncated contexts, overlaps with training documents."""
    tally = scores.tally
    yield from (f"{scores.name}: {note}" for note in scores.notes)
    yield from (f"{scores.name}: {metric.name} {metric.signature}" for metric in scores.whole if metric.signature)
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
        overlaps = f"{dirty} items overlap with training documents, {clean} do not"
        yield f"{scores.base_name}: {overlaps}, {short} are too short to decide."
