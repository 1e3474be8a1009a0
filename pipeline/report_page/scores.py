"""The score table: scores.json as rows, accuracies as a figure, and a few questions with what the model chose."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from pipeline.core.artifact import Artifact, read_json
from pipeline.report_page import figures
from pipeline.report_page.formatting import count, decimal, visible
from pipeline.report_page.samples import CHARACTERS

HEADLINES = 3
ITEMS_PER_BENCHMARK = 2
BENCHMARKS_SAMPLED = 12
PROMPT_CHARACTERS = 400


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
        return self.metric.startswith("acc")

    @property
    def title(self) -> str:
        return f"{self.benchmark} {self.metric}".replace("_", " ")

    def text(self, value: float | None) -> str:
        """``value`` in the unit of this metric, with as many digits as its main value has."""
        if value is None:
            return "–"
        return f"{100 * value:.1f} %" if self.is_share else decimal(value, 3 if abs(self.value) < 100 else 1)

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
class Choice:
    """A continuation that was scored: its log-likelihood, whether it was right and whether the model liked it best."""

    text: str
    log_likelihood: str
    right: bool
    chosen: bool


@dataclasses.dataclass(frozen=True)
class Question:
    """An item of a benchmark with the model's answers."""

    benchmark: str
    name: str
    prompt: str
    choices: list[Choice]


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """Everything about scores that the page shows."""

    rows: list[Row]
    groups: list[Row]
    notes: list[str]
    """What a reader must know to trust the rows."""
    held_out: Mapping[str, float]
    """Metric → value over all held-out documents: what the training's own validation is a sample of."""
    figure: figures.Figure | None
    questions: list[Question]

    @classmethod
    def of(cls, scores: Artifact) -> "ScoreTable":
        """What ``scores`` holds."""
        entries: list[Mapping[str, Any]] = read_json(scores.path("scores.json"))["benchmarks"]
        rows = [_row(entry, metric) for entry in entries for metric in entry["metrics"]]
        whole, groups = [row for row in rows if not row.group], [row for row in rows if row.group]
        shares = [figures.Score(row.title, row.value, row.interval, row.random) for row in whole if row.is_share]
        notes = [note for entry in entries for note in _notes(entry)]
        held_out = {m["name"]: m["value"] for e in entries if e.get("type") == "validation" for m in e["metrics"]}
        return cls(whole, groups, notes, held_out, figures.scores(shares), _questions(scores, entries))

    def headlines(self) -> list[Row]:
        """The first accuracy of each of the first benchmarks in the table."""
        firsts: dict[str, Row] = {}
        for row in self.rows:
            if row.is_share:
                firsts.setdefault(row.benchmark, row)
        return list(firsts.values())[:HEADLINES]


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
    if entry.get("overlap"):
        clean, dirty, short = (count(entry["overlap"][part]) for part in ("clean", "dirty", "too_short"))
        overlap = f"{dirty} items overlap with training documents, {clean} do not"
        yield f"{entry['name']}: {overlap}, {short} are too short to tell."


def _questions(scores: Artifact, entries: Sequence[Mapping[str, Any]]) -> list[Question]:
    """The first questions of each benchmark whose samples have text."""
    found = []
    for entry in entries[:BENCHMARKS_SAMPLED]:
        name = f"samples/{entry['name']}.jsonl"
        if name not in scores.manifest["files"]:
            continue
        with scores.path(name).open("rb") as stream:
            records = [orjson.loads(line) for line in itertools.islice(stream, ITEMS_PER_BENCHMARK)]
        found += [_question(str(entry["name"]), record) for record in records if record["continuations"]]
    return found


def _question(benchmark: str, record: Mapping[str, Any]) -> Question:
    """A line of samples/*.jsonl; where each choice has a prompt of its own, it stands before the choice."""
    prompts, texts, likelihoods = record["prompts"], record["continuations"], record["log_likelihoods"]
    shared = prompts[0] if len(prompts) == 1 else ""
    own = prompts if len(prompts) == len(texts) > 1 else [""] * len(texts)
    best = max(range(len(texts)), key=lambda i: likelihoods[i])
    choices = [
        Choice(
            text=_end(prompt + text),
            log_likelihood=f"{likelihood:.2f}".replace("-", "−"),
            right=number == record["gold"],
            chosen=number == best if len(texts) > 1 else bool(record["greedy"][0]),
        )
        for number, (prompt, text, likelihood) in enumerate(zip(own, texts, likelihoods, strict=True))
    ]
    return Question(benchmark, visible(str(record["name"]), CHARACTERS), _end(shared), choices)


def _end(text: str) -> str:
    """The end of a prompt, which is what the answer hangs on."""
    cut = len(text) > PROMPT_CHARACTERS
    return ("…" if cut else "") + visible(text[-PROMPT_CHARACTERS:], PROMPT_CHARACTERS)
