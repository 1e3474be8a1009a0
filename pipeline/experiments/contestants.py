"""The runs that are compared: what they trained, their scores, their settings and their data."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.config import RunConfig
from headrace.pipeline.configuration.options import NOT_DECISIVE
from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.setting_classes import with_defaults
from headrace.pipeline.documents.lookup import whole
from headrace.pipeline.experiments.setting_differences import ABSENT, data_lines, parting_lines, setting_lines
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.report.funnel import StageFunnel, funnel, steps
from headrace.pipeline.run.saved_run import SavedRun, named_file
from headrace.pipeline.run.storage import scored_folder
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, Outcomes, read_outcomes, read_scores

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

    @property
    def parameters(self) -> int | None:
        """The number of the model's parameters; None before the end of its training, and for the model of a folder."""
        is_trained = self.weights is not None and is_whole(self.weights)
        return Artifact(self.weights).counts.get("parameters") if self.weights is not None and is_trained else None

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


def restricted(run: Contestant, only: Sequence[str]) -> Contestant:
    """Returns ``run`` with the benchmarks ``only``, each with any number of shots; with all when none is named."""
    kept = {
        name: benchmark
        for name, benchmark in run.benchmarks.items()
        if not only or {name, benchmark.base_name} & {*only}
    }
    return dataclasses.replace(run, benchmarks=kept)


def refuse_unknown(only: Sequence[str], runs: Sequence[Contestant]) -> None:
    """Refuses a name in ``only`` that is no benchmark of any run.

    Raises:
        ConfigError: with the nearest name.
    """
    known = {name for run in runs for key, benchmark in run.benchmarks.items() for name in (key, benchmark.base_name)}
    for name in only:
        if name not in known:
            raise ConfigError("--only", f"no run has a benchmark {name!r}", suggestion(name, known))


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


def parameter_lines(runs: Sequence[Contestant]) -> list[list[str]]:
    """Returns a line with the number of parameters of each model where they differ; none where all are equal."""
    numbers = [run.parameters for run in runs]
    if len({number for number in numbers if number is not None}) < 2:
        return []
    return [["parameters", *(ABSENT if number is None else f"{number:,}" for number in numbers)]]


def training_lines(runs: Sequence[Contestant]) -> list[list[str]]:
    """Returns a line for each of MEASURES that a run has: its name, then the value that each run logged last."""
    last: list[dict[str, float]] = []
    for run in runs:
        last.append({key: row[key] for row in run.logged for key in MEASURES if key in row})
    known = [key for key in MEASURES if any(key in values for values in last)]
    return [[MEASURES[key], *(_measured(values.get(key)) for values in last)] for key in known]


def _measured(value: float | None) -> str:
    return f"{value:,}" if isinstance(value, int) else decimal(value)


def decisive(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the nested ``settings`` that decide the results, with the defaults of those that they lack."""
    whole_settings = with_defaults(RunConfig, settings)
    return {key: value for key, value in whole_settings.items() if key not in (*NOT_DECISIVE, "until")}
