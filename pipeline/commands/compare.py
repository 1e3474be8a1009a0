"""``headrace compare``: settings, losses and scores of runs side by side, with tests of the differences of scores.

headrace compare small large                        runs by their names, ids, beginnings of ids, or paths
headrace compare runs/folder_scores/77aa… runs/scores/0c1d…    folders of scores; 77aa… has the name of its model
headrace compare A B --only piqa,arc_easy           some benchmarks, or one of your own alone
headrace compare A B C > table.md                   Markdown when the output is not a terminal
headrace compare A B C --page comparison.html       with loss curves and figures (compare_page.py)

    setting                  A       B
    optimizer.learning_rate  0.0003  0.0006

    benchmark  shots  metric  items  A                     B                     B − A                 p
    piqa           0  acc     1,838  61.0 % [58.8, 63.2]   63.4 % [61.2, 65.6]   +2.4 % [+0.9, +3.9]   0.0021 **

    measure          A      B               where a run has no scores yet
    validation loss  3.417  3.402

The others are compared with the first run, over the items that both answered (significance.py).
Stars mark p-values after Holm's correction over all rows of a column; p itself is not corrected.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from headrace.pipeline.command_line.declaration import NewFile, command
from headrace.pipeline.command_line.facts import show_lines
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.conf_folder import NOT_DECISIVE
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.report import compare_page
from headrace.pipeline.report.figures.forest import Interval
from headrace.pipeline.report.formatting import decimal, flat
from headrace.pipeline.run.run_files import named_file
from headrace.pipeline.run.saved import SavedRun, scored_folder
from headrace.pipeline.tracing.lookup import whole
from headrace.train.evaluation.score_rows import (
    BenchmarkScores,
    Metric,
    MetricKind,
    Outcomes,
    kind_of,
    read_outcomes,
    read_scores,
)
from headrace.train.evaluation.significance import Difference, difference_of, holm, mark

NOTE = (
    "In [brackets]: 95 % intervals. p: McNemar's exact test for right or wrong, paired bootstrap else; after Holm's "
    "correction over the column * < 0.05, ** < 0.01, *** < 0.001. Differences of perplexity are of its logarithm."
)
MEASURES = {
    "step": "steps",
    "tokens_seen": "tokens seen",
    "loss": "training loss",
    "validation_loss": "validation loss",
    "bits_per_byte": "bits per byte",
}
"""Names in metrics.jsonl → what the table of runs without scores calls them."""


@command
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@click.argument("others", metavar="[RUN ...]", nargs=-1)
@click.option("--only", metavar="NAMES", default="", help="Compare these benchmarks only, separated by commas.")
@click.option("--page", metavar="FILE", type=NewFile(), help="Write a page with figures, too.")
def compare(
    overrides: Sequence[str], first: str, second: str, others: Sequence[str], only: str, page: Path | None
) -> None:
    """Prints the scores of runs (names, ids or folders) side by side, with tests of the differences from the first."""
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    show(config_of(overrides), [first, second, *others], wanted, page)


@dataclasses.dataclass(frozen=True)
class Contestant:
    """The training and the scores of one run."""

    name: str
    scores: Artifact | None
    """None while the run has none."""
    weights: Path
    """The folder of its training; it does not exist where the model of a folder was scored."""
    benchmarks: Mapping[str, BenchmarkScores]
    """The scores of each benchmark, by its name."""
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The settings that decide the results, by their dotted names."""
    long_name: str = ""
    """The name where another run has the same ``name``; empty when it is not known."""

    @classmethod
    def of(cls, name: str, scores: Artifact, settings: Mapping[str, Any] = MappingProxyType({})) -> "Contestant":
        """Returns the run called ``name`` with its ``scores`` and nested ``settings``."""
        address = str(scores.manifest.get("inputs", {}).get("weights", "none"))
        benchmarks = {one.name: one for one in read_scores(scores.path("scores.json"))}
        return cls(name, scores, scores.folder.parents[1] / "weights" / address, benchmarks, decisive(settings))

    @property
    def metrics_log(self) -> Path:
        """The metrics of the training; the file may not exist. See ``metrics_path``."""
        return metrics_path(self.weights)

    def metric(self, benchmark: str, name: str) -> Metric | None:
        """Returns the metric ``name`` of the whole ``benchmark``; None when this run lacks it."""
        whole = self.benchmarks[benchmark].whole if benchmark in self.benchmarks else []
        return next((metric for metric in whole if metric.name == name), None)

    def outcomes(self, benchmark: str) -> Outcomes:
        """Returns the outcomes of each item of ``benchmark``; none where this run lacks it."""
        if benchmark not in self.benchmarks:
            return {}
        assert self.scores is not None, "a benchmark has scores"
        return read_outcomes(self.scores.path(f"samples/{benchmark}.jsonl"))


@dataclasses.dataclass(frozen=True)
class Row:
    """One metric of one benchmark."""

    benchmark: str
    shots: int
    kind: MetricKind
    metrics: Sequence[Metric | None]
    """The metric of each run."""
    differences: Sequence[Difference | None]
    """The difference of each run but the first from the first; None when no outcomes give it."""

    def text(self, value: float, sign: str = "") -> str:
        """Returns ``value`` in the unit of the row's heading."""
        return f"{self.kind.scale * value:{sign}{'.2f' if self.kind.unit else '.4g'}}"


def decisive(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns the nested ``settings`` that decide the results, by their dotted names."""
    return dict(flat({key: value for key, value in settings.items() if key not in (*NOT_DECISIVE, "until")}))


def show(config: RunConfig, wanted: Sequence[str], only: Sequence[str], page: Path | None) -> None:
    """Prints the settings that differ and the scores of the runs that ``wanted`` names; writes both to ``page``.

    Where a run has no scores, it prints what was measured last in training.
    """
    runs = [restricted(run, only) for run in contestants(wanted, config.root)]
    refuse_unknown(only, runs, wanted, config.root)
    settings, rows = differing_settings(runs), list(rows_of(runs))
    head, body = header(runs), cells(rows)
    nothing = "" if rows else nothing_in_common(runs)
    if settings:
        show_lines(["setting", *(run.name for run in runs)], settings)
        print()
    if any(run.scores is None for run in runs):
        show_lines(["measure", *(run.name for run in runs)], training_lines(runs))
        print()
    if rows:
        show_lines(head, body)
        print("", NOTE, sep="\n")
    else:
        print(nothing)
    if page is not None:
        shares, others = intervals(runs, rows, True), intervals(runs, rows, False)
        figures = compare_page.Figures.of(_scores(runs), {run.name: run.metrics_log for run in runs}, shares, others)
        text = compare_page.render([run.name for run in runs], settings, [head, *body], nothing or NOTE, figures)
        write_file(page, text)
        print(f"\npage: {page}")


def contestants(wanted: Sequence[str], root: str) -> list[Contestant]:
    """Returns the runs and folders of scores that ``wanted`` names; with longer names where two are equal."""
    found = [contestant(one, root) for one in wanted]
    names = [run.name for run in found]
    if is_double(names):
        names = [run.long_name if names.count(run.name) > 1 and run.long_name else run.name for run in found]
    if is_double(names):
        names = list(wanted)
    return [dataclasses.replace(run, name=name) for run, name in zip(found, names, strict=True)]


def is_double(names: Sequence[str]) -> bool:
    """Whether two of ``names`` are equal."""
    return len({*names}) < len(names)


def contestant(wanted: str, root: str) -> Contestant:
    """Returns what ``wanted`` names: a folder of scores, or a run by its name, id, beginning of an id, or path.

    Scores of ``headrace evaluate FOLDER`` have the name of the model's folder.

    Raises:
        ConfigError: when it names neither, or a run that trains no model.
    """
    if (Path(wanted) / "scores.json").is_file():
        scores, model = Artifact(Path(wanted)), scored_folder(Path(wanted))
        found = Contestant.of(Path(model).name or Path(wanted).name, scores, scores.manifest.get("settings", {}))
        return dataclasses.replace(found, long_name=model)
    run = SavedRun.read(named_file(root, wanted, "a run or a folder of scores"))
    settings, finished = run.values["config"], whole(run.stages)
    if "scores" in finished:
        return Contestant.of(run.label, finished["scores"], settings)
    weights = next((step.folder for step in run.stages if step.name == "weights"), None)
    if weights is None:
        raise ConfigError("RUN", f"{run.label!r} trains no model", "name another run (headrace runs lists all)")
    return Contestant(run.label, None, weights, {}, decisive(settings))


def restricted(run: Contestant, only: Sequence[str]) -> Contestant:
    """Returns ``run`` with the benchmarks ``only``, each with any number of shots; with all when none is named."""
    kept = {name: one for name, one in run.benchmarks.items() if not only or {name, one.base_name} & {*only}}
    return dataclasses.replace(run, benchmarks=kept)


def refuse_unknown(only: Sequence[str], runs: Sequence[Contestant], wanted: Sequence[str], root: str) -> None:
    """Refuses a name in ``only`` that is no benchmark of any run.

    Raises:
        ConfigError: with the nearest name.
    """
    shown = {name for run in runs for key, one in run.benchmarks.items() for name in (key, one.base_name)}
    for name in only:
        if name not in shown:
            known = {one for run in contestants(wanted, root) for one in run.benchmarks}
            raise ConfigError("--only", f"no run has a benchmark {name!r}", suggestion(name, known))


def differing_settings(runs: Sequence[Contestant]) -> list[list[str]]:
    """Returns a line for each setting whose value differs between runs that have it: its name, then the values."""
    found = []
    for key in dict.fromkeys(key for run in runs for key in run.settings):
        values = [run.settings.get(key) for run in runs]
        if len({value for value in values if value is not None}) > 1:
            found.append([key, *("–" if value is None else value for value in values)])
    return found


def training_lines(runs: Sequence[Contestant]) -> list[list[str]]:
    """Returns a line for each of MEASURES that a run has: its name, then the value that each run logged last."""
    last: list[dict[str, float]] = []
    for run in runs:
        rows = read_metrics(run.metrics_log)
        last.append({key: row[key] for row in rows for key in MEASURES if key in row})
    known = [key for key in MEASURES if any(key in values for values in last)]
    return [[MEASURES[key], *(_measured(values.get(key)) for values in last)] for key in known]


def _measured(value: float | None) -> str:
    return f"{value:,}" if isinstance(value, int) else decimal(value)


def nothing_in_common(runs: Sequence[Contestant]) -> str:
    """Returns the sentence for runs without a common metric, with the benchmarks that each has."""
    each = "; ".join(f"{run.name} has {', '.join(run.benchmarks) or 'none'}" for run in runs)
    return f"No benchmark is common to two of the runs: {each}."


def _scores(runs: Sequence[Contestant]) -> dict[str, list[BenchmarkScores]]:
    return {run.name: list(run.benchmarks.values()) for run in runs}


def rows_of(runs: Sequence[Contestant]) -> Iterator[Row]:
    """Yields every metric that at least two runs have, by the benchmarks' names and their shots."""
    known = {name: scores for run in runs for name, scores in run.benchmarks.items()}
    for benchmark in sorted(known, key=lambda name: known[name].order):
        found = [run.benchmarks[benchmark] for run in runs if benchmark in run.benchmarks]
        outcomes = [run.outcomes(benchmark) for run in runs]
        for name in dict.fromkeys(metric.name for scores in found for metric in scores.whole):
            metrics, kind = [run.metric(benchmark, name) for run in runs], kind_of(name)
            if sum(metric is not None for metric in metrics) >= 2:
                others = [difference_of(kind, outcomes[0], own) for own in outcomes[1:]]
                yield Row(benchmark, found[0].shots, kind, metrics, others)


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
            if one is not None and p is not None and row.kind.is_share == is_share:
                value, low, high = (row.kind.scale * end for end in (one.value, *one.interval))
                found.append(Interval(f"{row.benchmark} {row.kind.name}", run.name, value, low, high, mark(p)))
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
    line = [row.benchmark, str(row.shots), row.kind.heading, f"{known.items:,}", first]
    for value, found, p in zip(others, row.differences, adjusted, strict=True):
        line.append(value)
        if found is None or p is None:
            line += ["–", "–"]
            continue
        low, high = (row.text(end, "+") for end in found.interval)
        line += [f"{row.text(found.value, '+')} [{low}, {high}]", f"{found.p:.2g} {mark(p)}".rstrip()]
    return line


def _value(row: Row, metric: Metric | None) -> str:
    if metric is None:
        return "–"
    ends = "" if metric.interval is None else f" [{', '.join(row.text(end) for end in metric.interval)}]"
    return row.text(metric.value) + ends
