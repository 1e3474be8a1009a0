"""The measures of a finished run: values of metrics.jsonl and scores.json, of a fine-tuning, or of a function.

KEY                        the last value in metrics.jsonl
BENCHMARK.METRIC[@GROUP]   of scores.json
finetuned.METRIC           the mean over the seeds of the fine-tuning
PACKAGE.MODULE:FUNCTION    what the function returns for the artifacts of the run (stage → Artifact)
"""

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.kinds import imported
from headrace.pipeline.core.metrics_file import METRICS, read_metrics
from headrace.pipeline.documents.lookup import whole
from headrace.pipeline.run.saved_run import AnyStage
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, read_scores, split_filter
from headrace.train.finetuned import SCORES

Points = Sequence[tuple[float, float]]
Items = dict[str, tuple[float, float]]
"""Item → (outcome, size), as of ``Measured.items``."""
FINETUNED = "finetuned"
"""The stage of fine-tuning."""
CURVE = "validation_loss"
"""The key of metrics.jsonl whose course is drawn."""
LOSSES = ("loss", CURVE)
"""Keys of metrics.jsonl that are nats per token: a model that knows nothing has the logarithm of the vocabulary."""
ACCURACY = "accuracy"
CORRELATIONS = ("matthews", "pearson", "spearman")
"""Metrics of a fine-tuning that are 0 for answers that do not depend on the question."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """One measure of one run."""

    value: float
    chance: float | None = None
    """The value of a model that knows nothing; None: unknown."""
    higher_is_better: bool | None = None
    """None where it is unknown."""
    items: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    """Item → (outcome, size), where sum of outcomes / sum of sizes is the value; empty: not stored."""


MeasureFunction = Callable[[Mapping[str, Artifact]], Measured | float | None]
"""Reads a measure from the finished stages of a run, by their names; None where the run does not have it."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """All that is read of one finished run."""

    values: Mapping[str, Measured]
    """Measure → value; measures that the run does not have are left out."""
    curve: Points
    """(step, validation loss)."""
    seconds: float
    """The time of the updates of pretraining and fine-tuning, without validation and saving."""


def read(sources: Mapping[str, str], stages: Sequence[AnyStage], vocabulary: int) -> Reading:
    """Returns what the finished run of ``stages`` measured.

    Args:
        sources: measure → where it is read.
        stages: those of the run; results of finished ones are compared with their checksums.
        vocabulary: the number of tokens.
    """
    artifacts = whole(stages)
    rows = read_metrics(artifacts["weights"].path(METRICS)) if "weights" in artifacts else []
    last = {key: value for row in rows for key, value in row.items() if isinstance(value, int | float)}
    values = {name: _measured(source, artifacts, last, vocabulary) for name, source in sources.items()}
    curve = [(row["step"], row[CURVE]) for row in rows if row.get(CURVE) is not None]
    seconds = sum(map(_seconds, [rows, *(_curves_of_seeds(artifacts[FINETUNED]) if FINETUNED in artifacts else [])]))
    return Reading({name: value for name, value in values.items() if value is not None}, curve, seconds)


def _measured(
    source: str, artifacts: Mapping[str, Artifact], last: Mapping[str, float], vocabulary: int
) -> Measured | None:
    if ":" in source:
        value = measure_function(source)(artifacts)
        return value if value is None or isinstance(value, Measured) else Measured(float(value))
    stage, _, metric = source.partition(".")
    if stage == FINETUNED:
        return _of_finetuning(metric, artifacts[FINETUNED])
    if metric:
        return _of_scores(source, artifacts["scores"])
    if source not in last:
        return None
    return Measured(float(last[source]), *((math.log(vocabulary), False) if source in LOSSES else ()))


def measure_function(source: str) -> MeasureFunction:
    """Returns the function that ``source``, PACKAGE.MODULE:FUNCTION, names.

    Raises:
        ConfigError: when it cannot be imported.
    """
    try:
        function: MeasureFunction = imported(source)
    except (ImportError, AttributeError) as error:
        remedy = "give PACKAGE.MODULE:FUNCTION of an installed package, or of a folder in PYTHONPATH"
        raise ConfigError("measures", f"{source!r} names no function ({error})", remedy) from None
    return function


def _curves_of_seeds(finetuned: Artifact) -> list[list[dict[str, Any]]]:
    """Returns the logged rows of each seed."""
    return [read_metrics(finetuned.path(name)) for name in finetuned.manifest["files"] if name.endswith(f"/{METRICS}")]


def _seconds(rows: Sequence[Mapping[str, float]]) -> float:
    """Returns the time of the updates in ``rows``: the tokens between two of them over the tokens per second."""
    seconds, before = 0.0, 0.0
    for row in rows:
        if rate := row.get("tokens_per_second"):
            seconds, before = seconds + (row["tokens_seen"] - before) / rate, row["tokens_seen"]
    return seconds


def _of_scores(source: str, artifact: Artifact) -> Measured | None:
    """Returns the metric ``source`` of the scores in ``artifact``; None when they lack it."""
    benchmark, _, name = source.partition(".")
    name, _, group = name.partition("@")
    for scores in read_scores(artifact.path("scores.json")):
        for metric in scores.metrics if scores.name == benchmark else ():
            if (metric.name, metric.group) == (name, group):
                items = _items(artifact, scores, metric)
                return Measured(metric.value, metric.random, metric.kind.higher_is_better, items)
    return None


def _of_finetuning(name: str, artifact: Artifact) -> Measured | None:
    """Returns the metric ``name`` of the fine-tuning in ``artifact``, the mean over its seeds; None when it lacks it.

    A model that knows nothing answers with the class that most examples have. All metrics are better when higher.
    """
    scores = read_json(artifact.path(SCORES))
    if name not in scores["scores"]:
        return None
    value = scores["scores"][name]["mean"]
    if name != ACCURACY:
        return Measured(value, 0.0 if name in CORRELATIONS else None, True)
    paths = [artifact.path(f"seed_{seed['seed']}/predictions.jsonl") for seed in scores["seeds"]]
    seeds = [{row["id"]: row for row in map(orjson.loads, path.read_bytes().splitlines())} for path in paths]
    labels = Counter(label for row in seeds[0].values() for label, _ in _answers(row))
    right: Items = {
        item: (
            statistics.fmean(sum(label == answer for label, answer in _answers(seed[item])) for seed in seeds),
            float(len(_answers(row))),
        )
        for item, row in seeds[0].items()
    }
    return Measured(value, max(labels.values()) / labels.total(), True, _adding_up(right, value))


def _answers(row: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Returns label and prediction of an example: one pair, or one for each of its words."""
    label, prediction = row["label"], row["prediction"]
    return list(zip(label, prediction, strict=True)) if isinstance(prediction, list) else [(label, prediction)]


def _items(artifact: Artifact, scores: BenchmarkScores, metric: Metric) -> Items:
    """Returns the outcomes of the items that ``metric`` sums up; none where they do not add up to its value."""
    name, kind = f"samples/{scores.name}.jsonl", metric.kind
    lines = artifact.path(name).read_bytes().splitlines() if name in artifact.manifest["files"] else []
    items: Items = {}
    for row in map(orjson.loads, lines):
        outcome = row["outcome"]
        top = kind.outcome or (kind.name if kind.name in outcome else split_filter(kind.name)[0])
        if top in outcome and (not metric.group or row["group"] == metric.group):
            name = row["name"] if metric.group else f"{row['name']} {row['group']}"
            items[name] = (kind.factor * outcome[top], outcome[kind.size] if kind.size else 1.0)
    return _adding_up(items, metric.value)


def _adding_up(items: Items, value: float) -> Items:
    """Returns ``items`` if they add up to the metric's ``value``; else none."""
    sizes = sum(size for _, size in items.values())
    sum_of_items = sum(top for top, _ in items.values()) / sizes if sizes else math.nan
    return items if math.isclose(sum_of_items, value, rel_tol=1e-4, abs_tol=1e-6) else {}
