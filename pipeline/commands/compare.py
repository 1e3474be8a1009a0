"""``headrace compare``: the scores of runs side by side, with tests of their differences.

headrace compare 0b5c2f7d9e11 41aa0c3e5d22          runs by their ids below root/runs
headrace compare runs/folder_scores/77aa… runs/scores/0c1d…    folders of scores
headrace compare A B C > table.md                   Markdown when the output is not a terminal
headrace compare A B C --page comparison.html       with figures (compare_page.py)

    benchmark  shots  metric  items  A                     B                     B − A                 p
    piqa           0  acc     1,838  61.0 % [58.8, 63.2]   63.4 % [61.2, 65.6]   +2.4 % [+0.9, +3.9]   0.0021 **

The others are compared with the first run, over the items that both answered (significance.py).
Stars mark p-values after Holm's correction over all rows of a column; p itself is not corrected.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import orjson
from rich.table import Table

from headrace.pipeline.commands import compare_page
from headrace.pipeline.commands.declaration import command
from headrace.pipeline.commands.lookup import need
from headrace.pipeline.commands.request import config_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import Artifact, read_json
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.terminal import terminal
from headrace.pipeline.report.forest import Interval
from headrace.pipeline.report.formatting import is_share
from headrace.pipeline.run.planner import load
from headrace.train.evaluation.significance import Difference, compared, holm, mark
from headrace.train.evaluation.table import place

NOTE = (
    "In [brackets]: 95 % intervals. p: McNemar's exact test for right or wrong, paired bootstrap else; after Holm's "
    "correction over the column * < 0.05, ** < 0.01, *** < 0.001. Differences of perplexity are of its logarithm."
)


@command
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@click.argument("others", metavar="[RUN ...]", nargs=-1)
@click.option("--page", metavar="FILE", type=click.Path(), help="Write a page with figures, too.")
def compare(overrides: Sequence[str], first: str, second: str, others: Sequence[str], page: str | None) -> None:
    """Prints the scores of runs (ids or folders) side by side, with tests of the differences from the first."""
    show(config_of(overrides), [first, second, *others], Path(page) if page else None)


@dataclasses.dataclass(frozen=True)
class Measure:
    """Computes a metric from items: ``factor`` · sum of outcome ``top`` / sum of outcome ``bottom`` (empty: items)."""

    top: str
    bottom: str = ""
    factor: float = 1.0


MEASURES = {
    "perplexity": Measure("log_likelihood", "", -1.0),
    "loss": Measure("nats", "tokens"),
    "bits_per_byte": Measure("nats", "bytes", 1 / math.log(2)),
    "bits_per_character": Measure("nats", "characters", 1 / math.log(2)),
    **{f"{unit}_perplexity": Measure("nats", f"{unit}s") for unit in ("word", "token", "byte")},
}
"""The metrics that are not the mean of the outcome of their name. Perplexity is compared by its logarithm."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    """The scores of one run."""

    name: str
    scores: Artifact
    entries: Mapping[str, Mapping[str, Any]]
    """By benchmark."""

    @classmethod
    def of(cls, name: str, scores: Artifact) -> "Contestant":
        entries = read_json(scores.path("scores.json"))["benchmarks"]
        return cls(name, scores, {entry["name"]: entry for entry in entries})

    def metric(self, benchmark: str, name: str) -> Mapping[str, Any] | None:
        metrics = self.entries.get(benchmark, {}).get("metrics", [])
        return next((one for one in metrics if one["name"] == name and not one["group"]), None)

    def outcomes(self, benchmark: str) -> dict[tuple[str, str], Mapping[str, float]]:
        """Each item's outcome, by name and group."""
        path = self.scores.path(f"samples/{benchmark}.jsonl")
        rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        return {(row["name"], row["group"]): row["outcome"] for row in rows}


@dataclasses.dataclass(frozen=True)
class Row:
    """One metric of one benchmark."""

    benchmark: str
    shots: int
    name: str
    metrics: Sequence[Mapping[str, Any] | None]
    """One of each run."""
    differences: Sequence[Difference | None]
    """Differences of all other runs from the first; None where they cannot be computed."""

    @property
    def is_share(self) -> bool:
        return is_share(self.name)

    def text(self, value: float, sign: str = "") -> str:
        return f"{100 * value:{sign}.2f}" if self.is_share else f"{value:{sign}.4g}"


def show(config: RunConfig, wanted: Sequence[str], page: Path | None) -> None:
    """Prints the table of the runs that ``wanted`` names, and writes it with figures to ``page``."""
    names = [Path(one).name for one in wanted]
    names = names if len(set(names)) == len(names) else list(wanted)
    runs = [Contestant.of(name, scores_of(one, config.root)) for name, one in zip(names, wanted, strict=True)]
    rows, console = list(rows_of(runs)), terminal()
    head, body = header(runs), cells(rows)
    if page is not None:
        entries = {run.name: list(run.entries.values()) for run in runs}
        shares, others = intervals(runs, rows, True), intervals(runs, rows, False)
        page.write_text(compare_page.render(entries, [head, *body], NOTE, shares, others), encoding="utf-8")
    if console.is_terminal:
        table = Table(*head, box=None, header_style="bold", pad_edge=False)
        for line in body:
            table.add_row(*line)
        console.print(table, "", NOTE, sep="\n")
    else:
        lines = [head, ["---"] * len(head), *body]
        print("\n".join(f"| {' | '.join(line)} |" for line in lines), "", NOTE, sep="\n")


def scores_of(name: str, root: str) -> Artifact:
    """Returns the scores that ``name`` names: their folder, a run's folder, or a run's id below ``root``.

    Raises:
        ConfigError: when it names neither.
        ArtifactError: when the run has no scores yet.
    """
    if (Path(name) / "scores.json").is_file():
        return Artifact(Path(name))
    for folder in (Path(name), Path(root) / "runs" / name):
        if (folder / "run.json").is_file():
            return need("scores", load(folder / "run.json")[1])
    known = [path.parent.name for path in Path(root).glob("runs/*/run.json")]
    raise ConfigError("compare", f"{name!r} is neither a run nor a folder of scores", suggestion(name, known))


def rows_of(runs: Sequence[Contestant]) -> Iterator[Row]:
    """Yields every metric that at least two runs have, ordered by benchmark and number of shots."""
    known = {name: entry for run in runs for name, entry in run.entries.items()}
    for benchmark in sorted(known, key=lambda name: place(known[name])):
        entries = [run.entries[benchmark] for run in runs if benchmark in run.entries]
        names = dict.fromkeys(one["name"] for entry in entries for one in entry["metrics"] if not one["group"])
        shots = int(entries[0]["shots"])
        outcomes = [run.outcomes(benchmark) if benchmark in run.entries else {} for run in runs]
        for name in names:
            metrics = [run.metric(benchmark, name) for run in runs]
            if sum(metric is not None for metric in metrics) >= 2:
                others = [difference(name, outcomes[0], own) for own in outcomes[1:]]
                yield Row(benchmark, shots, name, metrics, others)


Outcomes = Mapping[tuple[str, str], Mapping[str, float]]


def difference(name: str, first: Outcomes, second: Outcomes) -> Difference | None:
    """Tests metric ``name`` over the items that both have; None without such items or without the outcome."""
    measure = MEASURES.get(name, Measure(name))
    shared = [item for item in first if item in second and {measure.top} <= first[item].keys() & second[item].keys()]
    if not shared:
        return None
    ours, theirs = ([measure.factor * run[item][measure.top] for item in shared] for run in (first, second))
    if not measure.bottom:
        return compared(ours, theirs)
    sizes, others = ([run[item][measure.bottom] for item in shared] for run in (first, second))
    return compared(ours, theirs, sizes) if sizes == others else None


def header(runs: Sequence[Contestant]) -> list[str]:
    """Returns the names of the columns."""
    first, *others = [run.name for run in runs]
    return ["benchmark", "shots", "metric", "items", first, *itertools.chain(*([n, f"− {first}", "p"] for n in others))]


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """Returns the rows as text, with stars after Holm's correction over each column."""
    return [_line(row, adjusted) for row, adjusted in zip(rows, adjusted_p_values(rows), strict=True)]


def intervals(runs: Sequence[Contestant], rows: Sequence[Row], is_share: bool) -> list[Interval]:
    """Returns differences for a figure: of accuracies, in percentage points (``is_share``), or of all other metrics."""
    found = []
    for row, adjusted in zip(rows, adjusted_p_values(rows), strict=True):
        for run, one, p in zip(runs[1:], row.differences, adjusted, strict=True):
            if one is not None and p is not None and row.is_share == is_share:
                value, low, high = ((100 if is_share else 1) * end for end in (one.value, *one.interval))
                found.append(Interval(f"{row.benchmark} {row.name}", run.name, value, low, high, mark(p)))
    return found


def adjusted_p_values(rows: Sequence[Row]) -> list[tuple[float | None, ...]]:
    """Returns for each row the p-values of its differences, after Holm's correction over each column."""
    adjusted = []
    for column in zip(*(row.differences for row in rows), strict=True):
        p_values = iter(holm([one.p for one in column if one is not None]))
        adjusted.append([None if one is None else next(p_values) for one in column])
    return list(zip(*adjusted, strict=True))


def _line(row: Row, adjusted: Sequence[float | None]) -> list[str]:
    known = next(metric for metric in row.metrics if metric is not None)
    first, *others = [_value(row, metric) for metric in row.metrics]
    line = [row.benchmark, str(row.shots), row.name + (" %" if row.is_share else ""), f"{known['items']:,}", first]
    for value, found, p in zip(others, row.differences, adjusted, strict=True):
        line.append(value)
        if found is None or p is None:
            line += ["–", "–"]
            continue
        low, high = (row.text(end, "+") for end in found.interval)
        line += [f"{row.text(found.value, '+')} [{low}, {high}]", f"{found.p:.2g} {mark(p)}".rstrip()]
    return line


def _value(row: Row, metric: Mapping[str, Any] | None) -> str:
    if metric is None:
        return "–"
    interval = metric["interval"]
    ends = "" if interval is None else f" [{row.text(interval[0])}, {row.text(interval[1])}]"
    return row.text(metric["value"]) + ends
