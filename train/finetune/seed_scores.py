"""The scores of several seeds: mean, and the interval that holds the mean of all seeds with 95 %."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.core.statistics import half_width

RESULT = "result.json"
"""The file of the scores of one seed, written last."""
OWN_FORMAT = (
    "no class of transformers has this model with a head for the task: hf/ is in Headrace's own format, which "
    "transformers does not open (docs/fine-tuning.md names the models that have one)"
)
"""Said before the training and with the scores."""


@dataclasses.dataclass(frozen=True)
class SeedScores:
    """The values of one metric, in the order of the seeds."""

    metric: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval; None for a single seed."""
        return half_width(self.values)

    def row(self) -> dict[str, Any]:
        return {"mean": self.mean, "half_width": self.half_width, "values": list(self.values)}


def seed_scores(results: Sequence[Mapping[str, Any]]) -> list[SeedScores]:
    """Returns the scores of each metric, from the result.json of each seed."""
    return [SeedScores(name, tuple(result["scores"][name] for result in results)) for name in results[0]["scores"]]


def best_seed(results: Sequence[Mapping[str, Any]], metric: str) -> int:
    """Returns the seed with the highest ``metric``; of equal ones, the first."""
    return int(max(results, key=lambda result: result["scores"][metric])["seed"])
