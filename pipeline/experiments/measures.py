"""The measures of a finished run: values of metrics.jsonl and scores.json, of a fine-tuning, or of a function.

KEY                        the last value in metrics.jsonl
BENCHMARK.METRIC[@GROUP]   of scores.json
finetuned.METRIC           the mean over the seeds of the fine-tuning
PACKAGE.MODULE:FUNCTION    what the function returns for the artifacts of the run (stage → Artifact)

And the verdict on a claim, from the values of its arms. A claim orders values from the lowest to the highest. Each
neighbouring pair is a step: the difference of the higher value minus the lower one, paired by seed. Its interval over
seeds is that of Student's t. Where both arms keep the outcomes of the same items, a second interval is a bootstrap over
these items, of their means over the seeds (core/statistics.py).

    all intervals of a step below ``by``             contradicted
    ``by`` below 0, both values at chance            at chance
    all intervals of a step above ``by``             confirmed
    else, or fewer than two seeds                    undecided

A claim is confirmed if all steps are, contradicted if one is, else at chance if the intervals of all its values include
chance or are worse, else undecided. Any two models that guess are "not worse" than each other.
"""

import dataclasses
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import orjson

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.kinds import imported
from headrace.pipeline.core.metrics_file import METRICS, read_metrics
from headrace.pipeline.core.statistics import IntervalEnds, mean_interval, paired_bootstrap, share_interval
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
LOSSES = ("loss", CURVE, "source_loss")
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
    if names_function(source):
        value = measure_function(source)(artifacts)
        return value if value is None or isinstance(value, Measured) else Measured(float(value))
    stage, _, metric = source.partition(".")
    if stage == FINETUNED:
        return _of_finetuning(metric, artifacts[FINETUNED])
    if metric:
        return _of_scores(source, artifacts["scores"])
    if source not in last:
        return None
    return Measured(float(last[source]), *((math.log(vocabulary), False) if source.partition(":")[0] in LOSSES else ()))


def names_function(source: str) -> bool:
    """Whether ``source`` is PACKAGE.MODULE:FUNCTION, and not a key of metrics.jsonl with the name of a mixture's
    source."""
    return ":" in source and not source.startswith(("source_loss:", "epoch:"))


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


StudyVerdict = Literal["confirmed", "contradicted", "undecided", "at chance", "no result"]
CONFIRMED: StudyVerdict = "confirmed"
CONTRADICTED: StudyVerdict = "contradicted"
UNDECIDED: StudyVerdict = "undecided"
AT_CHANCE: StudyVerdict = "at chance"
NO_RESULT: StudyVerdict = "no result"
DIFFERENCE = " - "
"""Between the two values of a difference in a claim."""
MIN_ITEMS = 2

BySeed = Mapping[int, Measured]
"""Seed → what was measured."""


@dataclasses.dataclass(frozen=True)
class NeighbourPair:
    """A neighbouring pair of values of a claim."""

    lower: str
    higher: str
    """The two values, as the claim names them."""
    difference: float | None
    """The higher minus the lower, the mean over the seeds that both have; None: there are none."""
    over_seeds: IntervalEnds | None
    """95 %; None with fewer than two seeds."""
    over_items: IntervalEnds | None
    """95 %; None where the arms do not keep the same items."""
    seeds: int
    """The number of seeds that both have."""
    verdict: StudyVerdict

    @property
    def pair(self) -> str:
        """The subtraction for readers; a side that is a difference itself stands in brackets."""
        higher, lower = (f"({side})" if DIFFERENCE in side else side for side in (self.higher, self.lower))
        return f"{higher} − {lower}"


@dataclasses.dataclass(frozen=True)
class ClaimVerdict:
    """The verdict of the rule on a claim."""

    claim: str
    by: float
    verdict: StudyVerdict
    steps: Sequence[NeighbourPair]


def difference(first: BySeed, second: BySeed | None = None) -> BySeed:
    """Returns ``first`` − ``second`` of the seeds that both have, without outcomes of items; ``first`` alone."""
    if second is None:
        return first
    return {seed: Measured(first[seed].value - second[seed].value) for seed in first.keys() & second.keys()}


def decided(claim: str, rising: Sequence[str | float], by: float, values_of: Mapping[str, BySeed]) -> ClaimVerdict:
    """Returns the verdict on ``claim``.

    Args:
        claim: its sentence.
        rising: its values, the lowest first: names in ``values_of``, or numbers.
        by: each value is above the one before it by more than this.
        values_of: what was measured, by the names of values.
    """
    sides = [(str(side), values_of.get(side, {}) if isinstance(side, str) else side) for side in rising]
    steps = [_step(lower, higher, by) for lower, higher in itertools.pairwise(sides)]
    measured = [side for _, side in sides if not isinstance(side, float)]
    verdicts = {step.verdict for step in steps}
    verdict = UNDECIDED
    if NO_RESULT in verdicts:
        verdict = NO_RESULT
    elif verdicts == {CONFIRMED}:
        verdict = CONFIRMED
    elif CONTRADICTED in verdicts:
        verdict = CONTRADICTED
    elif measured and all(map(is_at_chance, measured)):
        verdict = AT_CHANCE
    return ClaimVerdict(claim, by, verdict, steps)


def _step(lower: tuple[str, BySeed | float], higher: tuple[str, BySeed | float], by: float) -> NeighbourPair:
    differences = _differences(lower[1], higher[1])
    if not differences:
        return NeighbourPair(lower[0], higher[0], None, None, None, 0, NO_RESULT)
    over_seeds, over_items = mean_interval(differences), _over_items(lower[1], higher[1])
    intervals = [interval for interval in (over_seeds, over_items) if interval is not None]
    verdict = UNDECIDED
    if over_seeds is not None and all(high < by for _, high in intervals):
        verdict = CONTRADICTED
    elif by < 0 and all(not isinstance(side, float) and is_at_chance(side) for _, side in (lower, higher)):
        verdict = AT_CHANCE
    elif over_seeds is not None and all(low > by for low, _ in intervals):
        verdict = CONFIRMED
    mean = statistics.fmean(differences)
    return NeighbourPair(lower[0], higher[0], mean, over_seeds, over_items, len(differences), verdict)


def interval(by_seed: BySeed) -> IntervalEnds | None:
    """Returns the interval of the mean over seeds; None for a single value. That of a share of items is Wilson's."""
    values, items = [measured.value for measured in by_seed.values()], [row.items for row in by_seed.values()]
    is_share = all(of_seed and {*of_seed.values()} <= {(0.0, 1.0), (1.0, 1.0)} for of_seed in items)
    return share_interval(values, len(items[0])) if is_share and len(values) > 1 else mean_interval(values)


def is_at_chance(by_seed: BySeed) -> bool:
    """Whether the interval over seeds includes the value of a model that knows nothing, or is worse."""
    chances = [measured.chance for measured in by_seed.values() if measured.chance is not None]
    values = [measured.value for measured in by_seed.values()]
    if not values or len(chances) < len(values):
        return False
    low, high = interval(by_seed) or (min(values), max(values))
    chance, better = statistics.fmean(chances), next(iter(by_seed.values())).higher_is_better
    return (better is False or low <= chance) and (better is True or high >= chance)


def _differences(lower: BySeed | float, higher: BySeed | float) -> list[float]:
    """Returns the differences of the seeds that both sides have; a number is the same for each seed."""
    by_seed = [side for side in (lower, higher) if not isinstance(side, float)]
    seeds = sorted(set.intersection(*(set(side) for side in by_seed))) if by_seed else []
    low, high = ([side if isinstance(side, float) else side[seed].value for seed in seeds] for side in (lower, higher))
    return [above - below for below, above in zip(low, high, strict=True)]


def _over_items(lower: BySeed | float, higher: BySeed | float) -> IntervalEnds | None:
    """Returns the interval of the difference over the items of both sides, each the mean over the common seeds."""
    if isinstance(lower, float) or isinstance(higher, float):
        return None
    seeds = sorted(lower.keys() & higher.keys())
    sides = [[side[seed].items for seed in seeds] for side in (lower, higher)]
    shared = sorted(set[str].intersection(*(set(items) for side in sides for items in side)))
    sizes = {name: {items[name][1] for side in sides for items in side} for name in shared}
    if len(shared) < MIN_ITEMS or any(len(of_item) > 1 for of_item in sizes.values()):
        return None
    first, second = ([statistics.fmean(items[name][0] for items in side) for name in shared] for side in sides)
    return paired_bootstrap(first, second, [next(iter(sizes[name])) for name in shared]).interval
