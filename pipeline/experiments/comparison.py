"""Runs side by side on the terminal and on a page: what ``headrace compare`` shows.

    benchmark  shots  metric  items  A                     B                     B − A                 p
    piqa           0  acc     1,838  61.0 % [58.8, 63.2]   63.4 % [61.2, 65.6]   +2.4 % [+0.9, +3.9]   0.0021 **

The others are compared with the first run, over the items that both answered (core/statistics.py).
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.pipeline.command_line.result_files import Captioned, Results, write_files
from headrace.pipeline.config import RunConfig
from headrace.pipeline.configuration.options import NOT_DECISIVE
from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.setting_classes import with_defaults
from headrace.pipeline.core.statistics import Difference, holm, mark
from headrace.pipeline.documents.lookup import whole
from headrace.pipeline.experiments.setting_differences import ABSENT, data_lines, parting_lines, setting_lines
from headrace.pipeline.report.drawing import losses
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.report.funnel import StageFunnel, funnel, steps
from headrace.pipeline.report.score_figures import Interval, forest
from headrace.pipeline.report.training_section import series
from headrace.pipeline.run.saved_run import SavedRun, named_file
from headrace.pipeline.run.storage import scored_folder
from headrace.train.evaluation.score_rows import (
    BenchmarkScores,
    Metric,
    MetricKind,
    Outcomes,
    difference_of,
    kind_of,
    read_outcomes,
    read_scores,
)

SCORES = "scores"
MODEL = "model/"
"""The names of the files of a scored folder's model begin so (train/scores.py): models that are compared differ."""
MEASURES = {
    "step": "steps",
    "tokens_seen": "tokens seen",
    "loss": "training loss",
    "validation_loss": "validation loss",
    "bits_per_byte": "bits per byte",
}
"""Names in metrics.jsonl → what the table of runs without scores calls them."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    """The training and the scores of one run."""

    name: str
    scores: Artifact | None
    """None while the run has none."""
    weights: Path | None
    """The folder of its training; it does not exist where the model of a folder was scored. None: it trains none."""
    benchmarks: Mapping[str, BenchmarkScores]
    """The scores of each benchmark, by its name."""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The nested settings that decide the results, with their defaults; empty where a folder was scored."""
    descriptions: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """The description of each stage (``Stage.description``), by its name."""
    addresses: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The address of each stage of the run, by its name, in their order; empty where a folder was scored."""
    documents: Sequence[StageFunnel] = ()
    """The documents that each finished stage read, dropped and kept."""
    long_name: str = ""
    """The name where another run has the same ``name``; empty when it is not known."""

    @classmethod
    def of(cls, name: str, scores: Artifact) -> "Contestant":
        """Returns the scores of a model that is called ``name``."""
        address = str(scores.manifest.get("inputs", {}).get("weights", "none"))
        benchmarks = {benchmark.name: benchmark for benchmark in read_scores(scores.path("scores.json"))}
        weights = scores.folder.parents[1] / "weights" / address
        return cls(name, scores, weights, benchmarks, descriptions={SCORES: scores.manifest})

    @property
    def logged(self) -> list[dict[str, Any]]:
        """The rows that the training logged; none before it begins, and for a run that trains no model."""
        return [] if self.weights is None else read_metrics(metrics_path(self.weights))

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


def contestants(wanted: Sequence[str], root: str) -> list[Contestant]:
    """Returns the runs and folders of scores that ``wanted`` names; with longer names where two are equal."""
    runs = [contestant(name, root) for name in wanted]
    names = [run.name for run in runs]
    if is_double(names):
        names = [run.long_name if names.count(run.name) > 1 and run.long_name else run.name for run in runs]
    if is_double(names):
        names = list(wanted)
    return [dataclasses.replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def is_double(names: Sequence[str]) -> bool:
    """Whether two of ``names`` are equal."""
    return len({*names}) < len(names)


def contestant(wanted: str, root: str) -> Contestant:
    """Returns what ``wanted`` names: a folder of scores, or a run by its name, id, beginning of an id, or path.

    Scores of ``headrace evaluate FOLDER`` have the name of the model's folder.

    Raises:
        ConfigError: when it names neither.
    """
    if (Path(wanted) / "scores.json").is_file():
        scores, model = Artifact(Path(wanted)), scored_folder(Path(wanted))
        return dataclasses.replace(Contestant.of(Path(model).name or Path(wanted).name, scores), long_name=model)
    run = SavedRun.read(named_file(root, wanted, "a run or a folder of scores"))
    weights = next((stage.folder for stage in run.stages if stage.name == "weights"), None)
    finished = whole(run.stages)
    scored = finished.get(SCORES)
    contestant_of_run = Contestant.of(run.label, scored) if scored else Contestant(run.label, None, weights, {})
    described = {
        stage.name: run.descriptions[stage.address] for stage in run.stages if stage.address in run.descriptions
    }
    addresses = {stage.name: stage.address for stage in run.stages}
    for of_stages in (described, addresses):
        of_stages.pop("report", None)  # it hashes the id of the run
    return dataclasses.replace(
        contestant_of_run,
        settings=decisive(run.values["config"]),
        descriptions=described,
        addresses=addresses,
        documents=funnel(finished),
    )


def restricted(runs: Sequence[Contestant], only: Sequence[str]) -> list[Contestant]:
    """Returns ``runs`` with the benchmarks ``only``, each with any number of shots; with all when none is named.

    Raises:
        ConfigError: when no run has a benchmark of a name, with the nearest one.
    """
    known = {name for run in runs for key, benchmark in run.benchmarks.items() for name in (key, benchmark.base_name)}
    for name in only:
        if name not in known:
            raise ConfigError("--only", f"no run has a benchmark {name!r}", suggestion(name, known))
    kept = [
        {name: scores for name, scores in run.benchmarks.items() if not only or {name, scores.base_name} & {*only}}
        for run in runs
    ]
    return [dataclasses.replace(run, benchmarks=benchmarks) for run, benchmarks in zip(runs, kept, strict=True)]


def differing_settings(runs: Sequence[Contestant]) -> list[list[str]]:
    """Returns a line for each setting that differs between ``runs``, then for their data: a name, then the values.

    Of scored folders only the evaluation is known: then that of all is compared, as the scores were computed with it.
    """
    if all(run.settings for run in runs):
        lines = setting_lines([run.settings for run in runs])
        return lines + data_lines([run.descriptions for run in runs], lines)
    of_scores = [run.descriptions.get(SCORES, {}) for run in runs]
    if not all(of_scores):
        return []
    lines = setting_lines(
        [{"evaluation": description.get("settings", {}).get("evaluation", {})} for description in of_scores]
    )
    raw_files = [
        [file for file in description.get("raw_files", ()) if not file["name"].startswith(MODEL)]
        for description in of_scores
    ]
    return lines + data_lines([{SCORES: {"raw_files": files}} for files in raw_files], lines)


def differing_stages(runs: Sequence[Contestant]) -> list[list[str]]:
    """Returns a line for each stage at which ``runs`` part (``parting_lines``); none for scored folders."""
    return parting_lines([run.addresses for run in runs]) if all(run.addresses for run in runs) else []


def document_lines(runs: Sequence[Contestant]) -> list[list[str]]:
    """Returns a line for each step of the funnel, then for each rule that dropped other numbers; none if all are equal.

    The numbers are documents. ``–``: the run has not finished the stage, or has no such rule.
    """
    of_steps = [{step.name: step.documents for step in steps(run.documents)} for run in runs]
    of_rules = [
        {f"{drops.stage}: dropped by {drops.rule}": drops.dropped for stage in run.documents for drops in stage.rules}
        for run in runs
    ]
    rules = [line for line in _count_lines(of_rules) if len({*line[1:]}) > 1]
    return [*_count_lines(of_steps), *rules] if rules or any(counts != of_steps[0] for counts in of_steps) else []


def _count_lines(of_runs: Sequence[Mapping[str, int]]) -> list[list[str]]:
    names = dict.fromkeys(name for counts in of_runs for name in counts)
    return [[name, *(f"{counts[name]:,}" if name in counts else ABSENT for counts in of_runs)] for name in names]


def measure_lines(runs: Sequence[Contestant]) -> list[list[str]]:
    """Returns lines of a name and the value of each run: the parameters where models differ in size, and where a run
    has no scores, what each logged last."""
    trained = [run.weights is not None and is_whole(run.weights) for run in runs]
    sizes = [
        Artifact(run.weights).counts.get("parameters") if run.weights and is_trained else None
        for run, is_trained in zip(runs, trained, strict=True)
    ]
    lines = [] if len({*sizes} - {None}) < 2 else [["parameters", *(ABSENT if n is None else f"{n:,}" for n in sizes)]]
    if any(run.scores is None for run in runs):
        last = [{key: row[key] for row in run.logged for key in MEASURES if key in row} for run in runs]
        for key, name in MEASURES.items():
            if any(key in values for values in last):
                numbers = [values.get(key) for values in last]
                lines.append([name, *(f"{n:,}" if isinstance(n, int) else decimal(n) for n in numbers)])
    return lines


def decisive(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the nested ``settings`` that decide the results, with the defaults of those that they lack."""
    whole_settings = with_defaults(RunConfig, settings)
    return {key: value for key, value in whole_settings.items() if key not in (*NOT_DECISIVE, "until")}


@dataclasses.dataclass(frozen=True)
class ComparedMetric:
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


def compared_metrics(runs: Sequence[Contestant]) -> Iterator[ComparedMetric]:
    """Yields every metric that at least two runs have, by the benchmarks' names and their shots."""
    known = {name: scores for run in runs for name, scores in run.benchmarks.items()}
    for benchmark in sorted(known, key=lambda name: known[name].order):
        scored = [run.benchmarks[benchmark] for run in runs if benchmark in run.benchmarks]
        outcomes = [run.outcomes(benchmark) for run in runs]
        for name in dict.fromkeys(metric.name for scores in scored for metric in scores.whole):
            metrics, kind = [run.metric(benchmark, name) for run in runs], kind_of(name)
            if sum(metric is not None for metric in metrics) >= 2:
                others = [difference_of(kind, outcomes[0], other) for other in outcomes[1:]]
                yield ComparedMetric(benchmark, scored[0].shots, kind, metrics, others)


def header(runs: Sequence[Contestant]) -> list[str]:
    """Returns the names of the columns."""
    first, *others = [run.name for run in runs]
    return [
        "benchmark",
        "shots",
        "metric",
        "items",
        first,
        *itertools.chain(*([n, f"{n} − {first}", "p"] for n in others)),
    ]


def cells(rows: Sequence[ComparedMetric]) -> list[list[str]]:
    """Returns the rows as text, with stars after Holm's correction over each column."""
    return [_line(row, adjusted) for row, adjusted in zip(rows, adjusted_p_values(rows), strict=True)]


def intervals(runs: Sequence[Contestant], rows: Sequence[ComparedMetric], is_share: bool) -> list[Interval]:
    """Returns differences for a figure: of accuracies, in percentage points (``is_share``), or of all other metrics."""
    figure_rows = []
    for row, adjusted in zip(rows, adjusted_p_values(rows), strict=True):
        for run, difference, p in zip(runs[1:], row.differences, adjusted, strict=True):
            if difference is not None and p is not None and row.kind.is_share == is_share:
                value, low, high = (row.kind.scale * end for end in (difference.value, *difference.interval))
                figure_rows.append(Interval(f"{row.benchmark} {row.kind.name}", run.name, value, low, high, mark(p)))
    return figure_rows


def adjusted_p_values(rows: Sequence[ComparedMetric]) -> list[tuple[float | None, ...]]:
    """Returns for each row the p-values of its differences, after Holm's correction over each column."""
    adjusted = []
    for column in zip(*(row.differences for row in rows), strict=True):
        p_values = iter(holm([difference.p for difference in column if difference is not None]))
        adjusted.append([None if difference is None else next(p_values) for difference in column])
    return list(zip(*adjusted, strict=True))


def _line(row: ComparedMetric, adjusted: Sequence[float | None]) -> list[str]:
    known = next(metric for metric in row.metrics if metric is not None)
    first, *others = [_value(row, metric) for metric in row.metrics]
    line = [row.benchmark, str(row.shots), row.kind.heading, f"{known.items:,}", first]
    for value, difference, p in zip(others, row.differences, adjusted, strict=True):
        line.append(value)
        if difference is None or p is None:
            line += ["–", "–"]
            continue
        low, high = (row.text(end, "+") for end in difference.interval)
        line += [f"{row.text(difference.value, '+')} [{low}, {high}]", f"{difference.p:.2g} {mark(p)}".rstrip()]
    return line


def _value(row: ComparedMetric, metric: Metric | None) -> str:
    if metric is None:
        return "–"
    ends = "" if metric.interval is None else f" [{', '.join(row.text(end) for end in metric.interval)}]"
    return row.text(metric.value) + ends


NOTE = (
    "In [brackets]: 95 % intervals. p: McNemar's exact test for right or wrong, paired bootstrap else; after Holm's "
    "correction over the column * < 0.05, ** < 0.01, *** < 0.001. Differences of perplexity are of its logarithm. "
    "An item is one question, or one held-out document of a loss. p is over items alone, without the differences "
    "between training seeds: for those, train each run with -m training.seed=1,2,3."
)
EQUAL = "All stages of the runs are the same artifacts: they have the same settings and data."


@dataclasses.dataclass(frozen=True)
class RunComparison:
    """All that differs between runs, and the tests of their scores."""

    runs: Sequence[Contestant]

    @cached_property
    def rows(self) -> list[ComparedMetric]:
        """The metrics that two of the runs have."""
        return list(compared_metrics(self.runs))

    def results(self) -> Results:
        """Returns what the terminal and the page show: settings, first stages, documents, measures, scores."""
        runs, names = self.runs, [run.name for run in self.runs]
        stages = differing_stages(runs)
        differences = (
            ("settings", "Settings that differ", "setting", differing_settings(runs)),
            ("stages", "Stages at which the runs part", "first stage that differs", stages),
            ("documents", "Documents", "documents", document_lines(runs)),
            ("measures", "Models", "measure", measure_lines(runs)),
        )
        tables = [(id, heading, [[title, *names], *lines]) for id, heading, title, lines in differences if lines]
        notes = [EQUAL] if all(run.addresses for run in runs) and not stages else []
        if self.rows:
            tables.append(("table", "Scores", [header(runs), *cells(self.rows)]))
            notes.append(NOTE)
        elif any(run.weights for run in runs):
            benchmarks = "; ".join(f"{run.name} has {', '.join(run.benchmarks) or 'none'}" for run in runs)
            notes.append(f"No benchmark is common to two of the runs: {benchmarks}.")
        lede = f"Headrace comparison of {len(names)} runs · compared with {names[0]}"
        return Results(", ".join(names), lede, tables, notes=notes)

    def figures(self) -> Captioned:
        """Returns the losses of the runs and the differences of their scores, each with its caption."""
        runs, first = self.runs, self.runs[0].name
        shares, others = (intervals(runs, self.rows, is_share) for is_share in (True, False))
        logs = {run.name: run.logged for run in runs}
        curves = {name: series(rows, "validation_loss") or series(rows, "loss") for name, rows in logs.items() if rows}
        drawn = [
            (losses(curves), "Mean negative log-likelihood of a held-out token over the steps of each training; of a "
             "training token if nothing was held out."),
            (forest("shares", shares, f"percentage points more than {first}"), "Differences in shares of right "
             "answers, with 95 % intervals. A run is better to the right of the line. Hollow marks are not "
             "significant."),
            (forest("others", others, f"more than {first}, in the units of the table"), "Differences in other "
             "metrics: losses in nats, perplexities as logarithms. If lower is better, as for losses, a run is better "
             "to the left of the line."),
        ]  # fmt: skip
        return [(figure, caption) for figure, caption in drawn if figure is not None]


def show(runs: Sequence[Contestant], page: Path | None) -> None:
    """Prints the differences of ``runs``: settings, first stages, documents, scores; writes them to ``page``, too."""
    comparison = RunComparison(runs)
    shown = comparison.results()
    shown.show()
    write_files(None, None, page, lambda: shown.page(comparison.figures()))
