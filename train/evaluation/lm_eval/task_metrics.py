"""The metrics of ``metric_list``: which are computed for which output type, and with which settings.

metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true}]
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.train.evaluation.lm_eval.task_yaml import refused

METRICS: Mapping[str, tuple[str, ...]] = {
    "multiple_choice": (
        *("acc", "acc_norm", "acc_bytes", "acc_mutual_info"),
        *("exact_match", "f1", "mcc", "brier_score"),
    ),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "generate_until": ("exact_match", "bleu", "chrf"),
}
"""Output type → its metrics."""
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "multiple_choice": ("acc", "acc_norm"),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "generate_until": ("exact_match",),
}
"""Output type → the metrics of a task without ``metric_list`` (api/registry.py, DEFAULT_METRIC_REGISTRY)."""
AGGREGATIONS: Mapping[str, str] = {
    "perplexity": "perplexity",
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
    "f1": "f1",
    "mcc": "matthews_corrcoef",
    "brier_score": "brier_score",
    "bleu": "bleu",
    "chrf": "chrf",
}
"""Metric → the way in which the harness sums it up over items; any other is a mean."""
SWITCHES = ("ignore_case", "ignore_punctuation", "ignore_numbers")
DESCRIBED = ("metric", "aggregation", "higher_is_better", "hf_evaluate", "weight_by_size")
"""Keys of a metric that are no settings of its computation."""


@dataclasses.dataclass(frozen=True)
class TaskMetric:
    """A metric, and how ``exact_match`` of written texts compares them."""

    name: str
    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore_numbers: bool = False
    regexes_to_ignore: tuple[str, ...] = ()


def task_metrics(path: Path, metric_list: Any, output_type: str) -> tuple[TaskMetric, ...]:
    """Returns the metrics of ``metric_list`` of the task ``path``; None: those of the output type.

    Raises:
        ConfigError: naming a metric, an aggregation or a setting that is not computed.
    """
    if metric_list is None:
        return tuple(map(TaskMetric, DEFAULTS[output_type]))
    if not isinstance(metric_list, list) or not metric_list:
        raise refused(path, f"metric_list is {metric_list!r}", "give a list of metrics")
    metrics = tuple(_metric(path, entry, output_type) for entry in metric_list)
    if len({metric.name for metric in metrics}) < len(metrics):
        raise refused(path, "metric_list names a metric twice", "keep one")
    return metrics


def _metric(path: Path, entry: Any, output_type: str) -> TaskMetric:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("metric"), str):
        raise refused(path, f"metric_list holds {entry!r}", "write metric: NAME in each entry")
    name, remedy = entry["metric"], f"take {', '.join(METRICS[output_type])}, or run the task by evaluation.tasks"
    if name not in METRICS[output_type]:
        raise refused(path, f"no metric {name!r} is computed for {output_type}", remedy)
    if entry.get("hf_evaluate"):
        raise refused(path, f"{name} is that of another package (hf_evaluate)", "remove hf_evaluate")
    aggregation, known = entry.get("aggregation"), AGGREGATIONS.get(name, "mean")
    if aggregation not in (None, known):
        raise refused(path, f"{name} has the aggregation {aggregation!r}", f"write aggregation: {known}")
    settings = {key: value for key, value in entry.items() if key not in DESCRIBED and value is not None}
    is_compared = (name, output_type) == ("exact_match", "generate_until")
    for key in settings:
        if not is_compared or key not in (*SWITCHES, "regexes_to_ignore"):
            raise refused(path, f"the metric {name} has no setting {key!r}", "remove it")
    switches = {key: bool(settings.get(key)) for key in SWITCHES}
    return TaskMetric(name, **switches, regexes_to_ignore=_regexes(path, settings.get("regexes_to_ignore", [])))


def _regexes(path: Path, regexes: Any) -> tuple[str, ...]:
    if not isinstance(regexes, list):
        raise refused(path, f"regexes_to_ignore is {regexes!r}", "give a list of regular expressions")
    for regex in regexes:
        try:
            re.compile(regex)
        except (re.error, TypeError) as error:
            problem = f"regexes_to_ignore has {regex!r}, no regular expression ({error})"
            raise refused(path, problem, "correct it") from None
    return tuple(regexes)
