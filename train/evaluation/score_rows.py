"""The rows of a score table: a class for a metric, a class for a benchmark. scores.json holds them, and scores.md the
table in Markdown. Free of torch.

    {"benchmarks": [{"name": "piqa_5shot", "shots": 5, "items": 1838, "metrics": [{"name": "acc", "value": 0.61, …}]}]}

``KINDS`` declares each metric once. The score table, the report, ``compare``, ``evaluate`` and the
export to lm-evaluation-harness take headings, units, directions and tests of differences from it.

    | benchmark | shots | metric | value | 95 % interval | random | items | clean | dirty |

In Markdown, shares of right answers are in percent. The standard error follows the value after ±. ``clean`` and
``dirty`` are the value on the items that training cannot, or may, have seen, with the number of items.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.kinds import Kinds
from headrace.pipeline.core.statistics import Difference, compared
from headrace.train.inference.queries import Tally

DIGITS = 6
"""Decimals of log-likelihoods and outcomes in the samples; fp32 resolves fewer in a sum of tens."""
CLEAN, DIRTY, TOO_SHORT = "clean", "dirty", "too_short"
"""The parts of a benchmark by what training may have seen (contamination.py)."""


@dataclasses.dataclass(frozen=True)
class MetricKind:
    """The declaration of a metric."""

    name: str
    is_share: bool = False
    """Whether it is a share of right answers, shown in percent."""
    higher_is_better: bool | None = True
    """None where it is unknown."""
    outcome: str = ""
    """The outcome of items that the metric sums up; empty: the outcome with the metric's name."""
    size: str = ""
    """The outcome that is the size of an item; empty: each item counts once."""
    factor: float = 1.0
    """``factor`` · sum of outcomes / sum of sizes is the metric; for a perplexity, its logarithm."""

    @property
    def heading(self) -> str:
        """The name with its unit, for a column of bare numbers."""
        return self.name + self.unit

    @property
    def scale(self) -> float:
        """The factor from the value to the number that is shown."""
        return 100.0 if self.is_share else 1.0

    @property
    def is_exponential(self) -> bool:
        """Whether it is exp of a mean: its interval is one of the logarithm, so no error stands for both sides."""
        return self.name.endswith("perplexity")

    @property
    def unit(self) -> str:
        """The unit after a number that is shown."""
        return " %" if self.is_share else ""


def _perplexity(name: str, outcome: str = "nats", size: str = "", factor: float = 1.0) -> MetricKind:
    return MetricKind(name, higher_is_better=False, outcome=outcome, size=size, factor=factor)


KINDS: Mapping[str, MetricKind] = {
    kind.name: kind
    for kind in (
        *(
            MetricKind(name, is_share=True)
            for name in ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "centered_acc", "exact_match", "em", "f1")
        ),
        _perplexity("perplexity", "log_likelihood", factor=-1.0),
        _perplexity("loss", size="tokens"),
        _perplexity("bits_per_byte", size="bytes", factor=1 / math.log(2)),
        _perplexity("bits_per_character", size="characters", factor=1 / math.log(2)),
        _perplexity("word_perplexity", size="words"),
        _perplexity("token_perplexity", size="tokens"),
        _perplexity("byte_perplexity", size="bytes"),
        MetricKind("repeated_4grams", higher_is_better=False),
        *(MetricKind(name) for name in ("bleu", "chrf", "mcc")),
        MetricKind("brier_score", higher_is_better=False),
        *(MetricKind(name, is_share=True) for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")),
    )
}
"""The metrics of our benchmarks, by name. A name may carry a filter: ``exact_match (strict-match)``."""
INSTALLED = Kinds("metric", MetricKind, {})
"""The metrics of other packages: their entry points name a ``MetricKind``."""
HARNESS_SHARES = ("acc", "exact_match", "em", "f1")
"""Metrics of lm-evaluation-harness that are not declared here are shares if their names begin so."""
HARNESS_DIRECTIONS: Mapping[str, bool] = {
    "mae": False, "ter": False,
}  # fmt: skip
"""Other metrics of lm-evaluation-harness → whether higher is better, as lm_eval/api/metrics.py describes them. The
direction of a metric that only one task defines is unknown."""


def kind_of(name: str) -> MetricKind:
    """Returns the declaration of the metric ``name``, with its filter; undeclared ones are the harness's."""
    bare, _ = split_filter(name)
    is_share = bare.startswith(HARNESS_SHARES)
    of_harness = MetricKind(bare, is_share, higher_is_better=True if is_share else HARNESS_DIRECTIONS.get(bare))
    declared: MetricKind = INSTALLED[bare] if bare in INSTALLED else KINDS.get(bare, of_harness)
    return dataclasses.replace(declared, name=name)


def check_declared(name: str) -> None:
    """Checks that the metric ``name`` of one of our benchmarks is declared.

    Raises:
        KeyError: naming it.
    """
    bare, _ = split_filter(name)
    if bare not in KINDS and bare not in INSTALLED:
        raise KeyError(f"the metric {bare!r} is declared neither in score_rows.KINDS nor by an entry point")


def split_filter(name: str) -> tuple[str, str]:
    """Returns a metric's name and its filter: ``exact_match (strict-match)`` → exact_match, strict-match."""
    metric, _, filtered = name.partition(" (")
    return metric, filtered.rstrip(")") or "none"


@dataclasses.dataclass(frozen=True)
class Metric:
    """One number of the score table."""

    name: str
    value: float
    standard_error: float | None
    """None for a single item: its spread is unknown."""
    interval: tuple[float, float] | None
    """95 % confidence interval."""
    random: float | None
    """The value of guessing; for likelihoods, of the uniform distribution over tokens."""
    items: int
    group: str = ""
    """The part of the benchmark that it covers; empty for all of it."""
    clean: "Metric | None" = None
    """The same on items that no training document overlaps with; None where this is unknown, or there are none."""
    dirty: "Metric | None" = None
    """The same on items that training documents overlap with."""
    signature: str = ""
    """The settings and the version of the package that computed it, in sacrebleu's form; empty: our own code did."""

    @property
    def kind(self) -> MetricKind:
        return kind_of(self.name)

    def row(self) -> dict[str, Any]:
        """Returns the metric as JSON, without its clean and dirty parts."""
        return {
            "name": self.name,
            "group": self.group,
            "value": self.value,
            "standard_error": self.standard_error,
            "interval": self.interval,
            "random": self.random,
            "items": self.items,
            **({"signature": self.signature} if self.signature else {}),
        }

    def whole_row(self) -> dict[str, Any]:
        """Returns the metric as scores.json has it."""
        parts = {"clean": self.clean, "dirty": self.dirty}
        return self.row() | {name: part and part.row() for name, part in parts.items()}

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "Metric":
        """Returns the metric of a JSON ``row``; older rows lack some fields."""
        interval, clean, dirty = (row.get(name) for name in ("interval", "clean", "dirty"))
        return cls(
            name=row["name"],
            value=row["value"],
            standard_error=row.get("standard_error"),
            interval=None if interval is None else (interval[0], interval[1]),
            random=row.get("random"),
            items=row["items"],
            group=row.get("group") or "",
            clean=clean and cls.read(clean),
            dirty=dirty and cls.read(dirty),
            signature=row.get("signature", ""),
        )


@dataclasses.dataclass(frozen=True)
class BenchmarkScores:
    """The scores of one benchmark."""

    name: str
    type: str = ""
    shots: int = 0
    """Worked examples before each question."""
    items: int = 0
    tally: Tally = dataclasses.field(default_factory=Tally)
    overlap: Mapping[str, int] | None = None
    """The number of clean, dirty and too short items; None where overlaps were not searched for."""
    metrics: tuple[Metric, ...] = ()
    """The main one first."""
    notes: tuple[str, ...] = ()
    """Sentences about what could not be measured."""

    @property
    def base_name(self) -> str:
        """The name without the number of shots."""
        return without_shots(self.name, self.shots)

    @property
    def order(self) -> tuple[str, int, str]:
        """A key that sorts by name, then by number of shots (2 before 16)."""
        return self.base_name, self.shots, self.name

    @property
    def whole(self) -> list[Metric]:
        """The metrics of the whole benchmark, without those of its groups."""
        return [metric for metric in self.metrics if not metric.group]

    def row(self) -> dict[str, Any]:
        """Returns the scores as scores.json has them."""
        return {
            "name": self.name,
            "type": self.type,
            "shots": self.shots,
            "items": self.items,
            **dataclasses.asdict(self.tally),
            "overlap": self.overlap,
            "metrics": [metric.whole_row() for metric in self.metrics],
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "BenchmarkScores":
        """Returns the scores of a JSON ``row``; older rows lack some fields."""
        return cls(
            name=row["name"],
            type=row.get("type", ""),
            shots=int(row.get("shots") or 0),
            items=row.get("items", 0),
            tally=Tally(*(row.get(field.name, 0) for field in dataclasses.fields(Tally))),
            overlap=row.get("overlap"),
            metrics=tuple(map(Metric.read, row["metrics"])),
            notes=tuple(row.get("notes", ())),
        )


def read_scores(path: Path) -> list[BenchmarkScores]:
    """Returns the benchmarks in the scores.json at ``path``."""
    return [BenchmarkScores.read(row) for row in read_json(path)["benchmarks"]]


Outcomes = Mapping[tuple[str, str], Mapping[str, float]]
"""(Name of an item, its group) → name of an outcome → value."""


def read_outcomes(path: Path) -> Outcomes:
    """Returns the outcomes of the items in the samples/<benchmark>.jsonl at ``path``."""
    rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    return {(row["name"], row["group"]): row["outcome"] for row in rows}


def difference_of(kind: MetricKind, first: Outcomes, second: Outcomes) -> Difference | None:
    """Returns the difference of a metric over the items that both have.

    None when they have fewer than two in common, because one item shows nothing about others, or no outcomes.
    """
    bare, filtered = split_filter(kind.name)
    top = kind.outcome or (kind.name if any(kind.name in outcome for outcome in first.values()) else bare)
    groups = {group for _, group in first} & {filtered}  # the harness has a line for each filter of a metric
    shared = [
        item
        for item in first
        if item in second and top in first[item] and top in second[item] and (not groups or item[1] in groups)
    ]
    if len(shared) < 2:
        return None
    ours, theirs = ([kind.factor * run[item][top] for item in shared] for run in (first, second))
    if not kind.size:
        return compared(ours, theirs)
    sizes, others = ([run[item][kind.size] for item in shared] for run in (first, second))
    return compared(ours, theirs, sizes) if sizes == others else None


def shots_name(name: str, shots: int) -> str:
    """Returns the name of the benchmark ``name`` with this many worked examples, where several numbers are scored."""
    return f"{name}_{shots}shot"


def without_shots(name: str, shots: int) -> str:
    """Returns the name that ``shots_name`` was given: ``piqa`` for ``piqa_8shot``."""
    return name.removesuffix(shots_name("", shots))


HEADER = ("benchmark", "shots", "metric", "value", "95 % interval", "random", "items", "clean", "dirty")


def markdown(benchmarks: Sequence[BenchmarkScores]) -> str:
    """Returns a table of ``benchmarks``, then a table of their groups, then notes on truncation and overlaps."""
    benchmarks = sorted(benchmarks, key=lambda scores: scores.order)
    lines = _table_of([(scores, metric) for scores in benchmarks for metric in scores.whole])
    lines += [
        f"| {benchmark.name} | {benchmark.shots} | – | no items | – | – | 0 | – | – |"
        for benchmark in benchmarks
        if not benchmark.items
    ]
    groups = [(scores, metric) for scores in benchmarks for metric in scores.metrics if metric.group]
    if groups:
        lines += ["", "By group:", "", *_table_of(groups)]
    notes = [note for scores in benchmarks for note in _notes(scores)]
    if notes:
        lines += ["", *notes]
    return "\n".join(lines) + "\n"


def _table_of(rows: Sequence[tuple[BenchmarkScores, Metric]]) -> list[str]:
    lines = [f"| {' | '.join(HEADER)} |", "|---|--:|---|--:|--:|--:|--:|--:|--:|"]
    for scores, metric in rows:
        name = f"{scores.name} / {metric.group}" if metric.group else scores.name
        lines.append(f"| {' | '.join((name, str(scores.shots), *_cells(metric)))} |")
    return lines


def _cells(metric: Metric) -> Iterator[str]:
    """Yields the cells from the metric's name on."""
    yield metric.name
    error = "" if metric.standard_error is None else f" ± {_text(metric, metric.standard_error)}"
    yield _text(metric, metric.value) + error
    yield "–" if metric.interval is None else " – ".join(_text(metric, end) for end in metric.interval)
    yield "–" if metric.random is None else _text(metric, metric.random)
    yield f"{metric.items:,}"
    for part in (metric.clean, metric.dirty):
        yield "–" if part is None else f"{_text(metric, part.value)} ({part.items:,})"


def _text(metric: Metric, value: float) -> str:
    """Returns ``value`` in the unit of ``metric``."""
    kind = metric.kind
    if kind.unit:
        return f"{kind.scale * value:.2f}{kind.unit}"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}" if abs(value) < 1e9 else f"{value:.3g}"


def _notes(scores: BenchmarkScores) -> Iterator[str]:
    tally = scores.tally
    yield from (f"{scores.name}: {note}" for note in scores.notes)
    yield from (f"{scores.name}: {metric.name} {metric.signature}" for metric in scores.whole if metric.signature)
    if tally.truncated_contexts:
        lost = f"{tally.truncated_contexts:,} of {tally.queries:,} contexts did not fit the window"
        yield f"{scores.name}: {lost} and lost {tally.truncated_tokens:,} tokens on the left."
    if tally.split_continuations:
        yield f"{scores.name}: {tally.split_continuations:,} continuations were longer than the window."
    if scores.overlap and scores.overlap[TOO_SHORT]:
        yield f"{scores.name}: {scores.overlap[TOO_SHORT]:,} items have too few words to be called clean or dirty."
