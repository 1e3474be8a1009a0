"""The scores of the page and the terminal: rows of scores.json, figures, what worked examples add, and a plain sentence
about each benchmark, by its name for the public ones, else by its type.

    piqa_0shot   right/wrong of each item ┐
    piqa_1shot                            ├─> 1: +0.5 % [−1.9, +2.9], p 0.74    8: +2.1 % [−0.3, +4.5], p 0.10
    piqa_8shot                            ┘

Each number of worked examples is tested against the fewest on the same items (significance.py): the intervals of two
accuracies leave out that both have the same items.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.statistics import Difference, holm, mark
from headrace.pipeline.report.drawing import Figure
from headrace.pipeline.report.formatting import count, decimal
from headrace.pipeline.report.questions import AnsweredQuestion, WrittenTexts, questions, written_texts
from headrace.pipeline.report.score_figures import AccuracyMark, accuracies, shot_figures
from headrace.train.evaluation.benchmarks import BENCHMARKS
from headrace.train.evaluation.score_rows import (
    BenchmarkScores,
    Metric,
    Outcomes,
    difference_of,
    read_outcomes,
    read_scores,
)

HEADLINES = 3
CONTINUATIONS = "continuations"
"""The type of the benchmark whose answers are texts to be read."""
EMPTY = ("", "–")
"""Cells without a number."""
GAIN_NOTE = (
    "In [brackets]: 95 % intervals of the difference, by resampling the items. p: McNemar's exact test; after Holm's "
    "correction over the table * < 0.05, ** < 0.01, *** < 0.001."
)
"""The text below a table of gains."""


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
    few_shot: Figure | None
    few_shot_groups: list[Figure]
    gains: list[ShotGain]
    """The differences that worked examples make, for benchmarks with several numbers of them."""
    questions: list[AnsweredQuestion]
    written: list[WrittenTexts]
    sentences: dict[str, str]
    """Benchmark, without its shots → one sentence about it."""

    gain_note: ClassVar[str] = GAIN_NOTE

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
        few_shot, few_shot_groups = shot_figures({"this model": benchmarks})
        texts = [benchmark for benchmark in benchmarks if benchmark.type == CONTINUATIONS]
        return cls(
            rows=_by_shots(whole),
            groups=_by_shots([row for row in rows if row.metric.group]),
            notes=list(dict.fromkeys(note for benchmark in benchmarks for note in _notes(benchmark))),
            held_out={
                m.name: m.value for benchmark in benchmarks if benchmark.type == "validation" for m in benchmark.metrics
            },
            figure=accuracies([_accuracy(row) for row in shown]),
            few_shot=few_shot,
            few_shot_groups=few_shot_groups,
            gains=shot_gains(scores, benchmarks),
            questions=questions(scores, [benchmark for benchmark in benchmarks if benchmark not in texts]),
            written=written_texts(scores, texts),
            sentences={benchmark.base_name: sentence(benchmark.base_name, benchmark.type) for benchmark in benchmarks},
        )

    def headlines(self) -> list[ScoreRow]:
        """Returns the first accuracy of each of the first benchmarks, with the fewest worked examples."""
        return first_accuracies(self.rows, lambda row: row.benchmark.base_name)[:HEADLINES]


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


NAMED: Mapping[str, str] = {
    "lambada": "The last word of a passage from a novel, which only the whole passage makes predictable.",
    "piqa": "Everyday physics: which of two ways reaches a goal.",
    "arc_easy": "School science questions with four answers.",
    "arc_challenge": "School science questions that simple methods answer wrong.",
    "copa": "The more likely cause or effect of an event, of two.",
    "openbook_qa": "Science questions that need a fact and common sense.",
    "boolq": "Yes or no questions about a passage.",
    "hellaswag": "The most likely end of a scene, of four.",
    "winogrande": "The person or thing that a pronoun refers to, in sentences made to be hard.",
    "winograd": "The person or thing that a pronoun refers to.",
    "arithmetic": "Short sums, differences and products, written out exactly.",
    "triviaqa": "Questions of general knowledge that the model answers in writing.",
    "gsm8k": "School mathematics in words that the model solves in writing.",
    "mmlu": "Exam questions of 57 subjects with four answers.",
    "gpqa": "Questions of experts in biology, physics and chemistry that a search does not answer.",
    "swag": "The most likely continuation of a description of a scene, of four.",
    "rte": "Whether a text entails a sentence.",
    "cb": "Whether a speaker is committed to a clause, its opposite, or neither.",
    "wic": "Whether a word has one meaning in two sentences.",
    "blimp": "The grammatical sentence of each pair.",
}
OTHER_TYPES = {
    "suite": "Several benchmarks as one number, in which each counts the same.",
    "lm_eval": "A task of lm-evaluation-harness.",
}
"""Types of scores that no class of benchmarks has."""


def sentence(name: str, type: str) -> str:
    """Returns the sentence about the benchmark ``name``; empty for a type that this version does not have."""
    kind = BENCHMARKS[type].sentence if type in BENCHMARKS else OTHER_TYPES.get(type, "")
    return NAMED.get(name) or kind
