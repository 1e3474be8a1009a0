"""The score table: scores.json as rows, accuracies as a figure, curves over shots, questions with answers."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.core.artifact import Artifact, read_json
from headrace.pipeline.report import panels
from headrace.pipeline.report.accuracies import Score, accuracies
from headrace.pipeline.report.few_shot import panels_of
from headrace.pipeline.report.figures import Figure
from headrace.pipeline.report.formatting import count, decimal, is_share
from headrace.pipeline.report.questions import Question, questions
from headrace.train.evaluation.benchmarks.base import without_shots
from headrace.train.evaluation.table import place

HEADLINES = 3


@dataclasses.dataclass(frozen=True)
class Part:
    """A metric on the clean or on the dirty items of a benchmark."""

    value: float
    items: int

    @classmethod
    def of(cls, metric: Mapping[str, Any] | None) -> "Part | None":
        return None if metric is None else cls(metric["value"], metric["items"])


@dataclasses.dataclass(frozen=True)
class Row:
    """One metric of one benchmark, or of a group within it."""

    benchmark: str
    group: str
    metric: str
    shots: int | None
    value: float
    error: float | None
    interval: tuple[float, float] | None
    random: float | None
    items: int
    clean: Part | None = None
    """On the items that no training document overlaps with; None where nothing is known of that, or there are none."""
    dirty: Part | None = None
    """On the items that training documents overlap with."""

    @property
    def is_share(self) -> bool:
        """Whether the value is a share of right answers, shown in percent."""
        return is_share(self.metric)

    @property
    def base(self) -> str:
        """The benchmark without its number of shots."""
        return without_shots(self.benchmark, self.shots or 0)

    @property
    def title(self) -> str:
        return f"{self.base} {self.metric}".replace("_", " ")

    def text(self, value: float | None) -> str:
        """``value`` in the unit of this metric, with at most as many digits as its main value has."""
        if value is None:
            return "–"
        large = max(abs(self.value), abs(value)) >= 100
        return f"{100 * value:.1f} %" if self.is_share else decimal(value, 1 if large else 3)

    @property
    def cells(self) -> dict[str, str]:
        """What the table shows, column by column."""
        low_high = "–" if self.interval is None else " to ".join(self.text(end) for end in self.interval)
        error = "" if self.error is None else f"± {self.text(self.error)}"
        value, random = self.text(self.value), self.text(self.random)
        clean, dirty = (
            f"{self.text(one.value)} ({count(one.items)})" if one else "–" for one in (self.clean, self.dirty)
        )
        plain = {"value": value, "error": error, "interval": low_high, "random": random, "items": count(self.items)}
        return {**plain, "clean": clean, "dirty": dirty}


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """Everything about scores that the page shows."""

    rows: list[Row]
    groups: list[Row]
    notes: list[str]
    """What a reader must know to trust the rows."""
    held_out: Mapping[str, float]
    """Metric → value over all held-out documents: what the training's own validation is a sample of."""
    figure: Figure | None
    few_shot: Figure | None
    few_shot_groups: list[Figure]
    questions: list[Question]

    @classmethod
    def of(cls, scores: Artifact) -> "ScoreTable":
        """What ``scores`` holds."""
        entries: list[Mapping[str, Any]] = sorted(read_json(scores.path("scores.json"))["benchmarks"], key=place)
        rows = [_row(entry, metric) for entry in entries for metric in entry["metrics"]]
        whole, groups = [row for row in rows if not row.group], _by_shots([row for row in rows if row.group])
        shown = first_accuracies(whole, lambda row: row.benchmark)
        marks = [Score(row.title, row.shots or 0, row.value, row.interval, row.random) for row in shown]
        notes = list(dict.fromkeys(note for entry in entries for note in _notes(entry)))
        held_out = {m["name"]: m["value"] for e in entries if e.get("type") == "validation" for m in e["metrics"]}
        by_shots = panels_of({"this model": entries})
        return cls(
            rows=_by_shots(whole),
            groups=groups,
            notes=notes,
            held_out=held_out,
            figure=accuracies(marks),
            few_shot=panels.few_shot([panel for panel in by_shots if not panel.is_by_group]),
            few_shot_groups=panels.few_shot_groups([panel for panel in by_shots if panel.is_by_group]),
            questions=questions(scores, entries),
        )

    def headlines(self) -> list[Row]:
        """The first accuracy of each of the first benchmarks in the table, with the fewest worked examples."""
        return first_accuracies(self.rows, lambda row: row.base)[:HEADLINES]


def first_accuracies(rows: Sequence[Row], name: Callable[[Row], str]) -> list[Row]:
    """Of all rows of one ``name`` the first that is a share of right answers."""
    firsts: dict[str, Row] = {}
    for row in rows:
        if row.is_share:
            firsts.setdefault(name(row), row)
    return list(firsts.values())


def _by_shots(rows: Sequence[Row]) -> list[Row]:
    """``rows``, those of one benchmark, group and metric that differ by shots beneath each other."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.base, row.group, row.metric), []).append(row)
    return [row for alike in found.values() for row in alike]


def _row(entry: Mapping[str, Any], metric: Mapping[str, Any]) -> Row:
    interval = metric.get("interval")
    return Row(
        benchmark=str(entry["name"]),
        group=str(metric.get("group") or ""),
        metric=str(metric["name"]),
        shots=entry.get("shots"),
        value=metric["value"],
        error=metric.get("standard_error"),
        interval=None if interval is None else (interval[0], interval[1]),
        random=metric.get("random"),
        items=metric["items"],
        clean=Part.of(metric.get("clean")),
        dirty=Part.of(metric.get("dirty")),
    )


def _notes(entry: Mapping[str, Any]) -> Iterator[str]:
    """Whether the benchmark had no items, the model could not see all of them, or training saw some before."""
    if not entry["metrics"]:
        yield f"{entry['name']}: no items."
    if entry.get("truncated_contexts"):
        lost = f"{count(entry['truncated_contexts'])} of {count(entry['queries'])} contexts did not fit the window"
        yield f"{entry['name']}: {lost} and lost {count(entry['truncated_tokens'])} tokens on the left."
    if entry.get("split_continuations"):
        yield f"{entry['name']}: {count(entry['split_continuations'])} continuations were longer than the window."
    overlap = entry.get("overlap")
    if overlap and (overlap["dirty"] or overlap["too_short"]):
        clean, dirty, short = (count(overlap[part]) for part in ("clean", "dirty", "too_short"))
        found = f"{dirty} items overlap with training documents, {clean} do not"
        yield f"{place(entry)[0]}: {found}, {short} are too short to tell."
