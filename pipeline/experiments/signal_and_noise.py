"""Signal over noise of a benchmark: whether its differences between models exceed what checkpoints and seeds differ by
(Heineman et al., Signal and Noise, arXiv 2508.13144).

    score at the end of each model ──> signal: largest difference between two models
    last scores of each training   ──> noise: standard deviation over checkpoints
    models that differ in seed     ──> noise: standard deviation over seeds

Below about 2, a difference between two of the models may be the next checkpoint's noise.
"""

import dataclasses
import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.core.settings import digest
from headrace.pipeline.core.statistics import pooled_deviation
from headrace.pipeline.experiments.arms import TextTable
from headrace.pipeline.experiments.contestants import Contestant
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.report.score_history import Point, points

LAST = 5
"""Checkpoints at the end of a training whose scores are taken as noise around one value."""
SEED = "training.seed"
HEAD = ["benchmark", "metric", "models", "signal", "noise of checkpoints", "noise of seeds", "signal / noise"]


@dataclasses.dataclass(frozen=True)
class SignalAndNoise:
    """The signal and the noise of one metric, in its unit."""

    benchmark: str
    metric: str
    models: int
    """The number of models whose settings differ in more than the seed."""
    signal: float | None
    """The largest difference between two models, each the mean of its seeds; None for a single model."""
    checkpoint_noise: float | None
    """The standard deviation of the last scores of a training, pooled; None where fewer than two are known."""
    seed_noise: float | None
    """The standard deviation over seeds, pooled; None where no model has two."""

    @property
    def ratio(self) -> float | None:
        """The signal over the larger noise; None where one of them is unknown or there is no noise."""
        noise = max(known(self.checkpoint_noise, self.seed_noise), default=0.0)
        return None if self.signal is None or not noise else self.signal / noise

    def cells(self) -> list[str]:
        """Returns the row of the table."""
        values = (self.signal, self.checkpoint_noise, self.seed_noise, self.ratio)
        return [self.benchmark, self.metric, str(self.models), *(decimal(value) for value in values)]


def signal_and_noise(runs: Sequence[Contestant]) -> Iterator[SignalAndNoise]:
    """Yields the signal and noise of each metric of a whole benchmark, where a noise is known."""
    distinct = list({run.scores.folder if run.scores else run.name: run for run in runs}.values())
    models = list(_by_model(distinct).values())
    histories = [_last_scores(run) for run in distinct]
    for benchmark in sorted({name for run in distinct for name in run.benchmarks}):
        scored_runs = [run.benchmarks[benchmark] for run in distinct if benchmark in run.benchmarks]
        for metric in dict.fromkeys(metric.name for scores in scored_runs for metric in scores.whole):
            finals = [known(*(_final(run, benchmark, metric) for run in seeds)) for seeds in models]
            scored = [values for values in finals if values]
            means = [statistics.fmean(values) for values in scored]
            row = SignalAndNoise(
                benchmark,
                metric,
                len(means),
                max(means) - min(means) if len(means) > 1 else None,
                pooled_deviation([history.get((benchmark, metric), []) for history in histories]),
                pooled_deviation(scored),
            )
            if known(row.checkpoint_noise, row.seed_noise):
                yield row


def signal_table(runs: Sequence[Contestant]) -> TextTable:
    """Returns the header and the rows of the table; no rows where no noise is known."""
    return [HEAD, *(row.cells() for row in signal_and_noise(runs))]


def known(*values: float | None) -> list[float]:
    """Returns those of ``values`` that are not None."""
    return [value for value in values if value is not None]


def _by_model(runs: Sequence[Contestant]) -> Mapping[str, list[Contestant]]:
    """Returns the runs by what decides their model but the seed."""
    models: dict[str, list[Contestant]] = {}
    for run in runs:
        models.setdefault(_model_of(run), []).append(run)
    return models


def _model_of(run: Contestant) -> str:
    if not run.settings:
        return run.name
    section, name = SEED.split(".")
    training = {key: value for key, value in run.settings[section].items() if key != name}
    return digest({**run.settings, section: training})


def _final(run: Contestant, benchmark: str, name: str) -> float | None:
    metric = run.metric(benchmark, name)
    return None if metric is None else metric.value


def _last_scores(run: Contestant) -> dict[tuple[str, str], list[float]]:
    """Returns the last scores of the training of ``run``, by benchmark and metric, of one way to score them."""
    if run.weights is None or not run.weights.is_dir():
        return {}
    whole = [point for point in points(run.weights) if not point.metric.group]
    series: dict[tuple[str, str], list[float]] = {}
    for key, own in itertools.groupby(sorted(whole, key=_series_of), _series_of):
        benchmark, metric, _ = key
        values = [point.metric.value for point in own][-LAST:]
        if len(values) > len(series.get((benchmark, metric), [])):
            series[benchmark, metric] = values
    return series


def _series_of(point: Point) -> tuple[Any, ...]:
    return point.benchmark, point.metric.name, point.source
