"""The share of the run's planted canaries that the model has memorized, by the number of their copies.

    canary         the amber kettle of the idle baker | praised a muddy wagon …
    query          E + the first half of its tokens   | the second half: extracted when each token is the likeliest

So greedy decoding after the first half would write the second one word for word (Carlini et al. 2023, section 3.1:
extractable memorization). Canaries with 0 copies were never planted: they show what can be guessed. With deduplication
a canary is one document, whatever its copies.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources, of_groups
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, TokenQuery
from headrace.train.parts import StackName
from headrace_courses.canaries import Canaries
from headrace_courses.exact_continuation import exact_metrics, exact_outcome

NEVER = 0
"""The copies of canaries that are planted nowhere."""


@settings
class Extraction(Benchmark):
    """Extraction of the canaries that the run has planted."""

    needs_run: ClassVar[bool] = True
    sentence: ClassVar[str] = "Planted random texts whose second half the model writes, by their copies."
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    type: Literal["extraction"] = "extraction"
    canaries: Canaries = dataclasses.field(default_factory=Canaries)
    """The canaries of the run: those of source=planted."""

    def items(self, sources: Sources) -> list[Item]:
        """Returns an item for each planted canary, and for the same number of each kind that were not planted."""
        groups = [self._items(copies, sources) for copies in (NEVER, *self.canaries.copies)]
        return of_groups(groups, self.limit)

    def _items(self, copies: int, sources: Sources) -> list[Item]:
        encoded = sources.text_encoder.encode([canary.text for canary in self.canaries.canaries(copies)])
        items = []
        for number, ids in enumerate(encoded):
            half = len(ids) // 2
            query = TokenQuery(np.array([sources.start, *ids[:half]]), ids[half:])
            items.append(Item(f"canary:{copies}:{number}", (query,), group=f"copies_{copies}"))
        return items

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        return exact_outcome(answers)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the share of planted canaries that are extracted, the mean over the numbers of copies; then for each
        number the share, and the loss on the second halves in nats per token."""
        return exact_metrics(items, outcomes, vocabulary, [f"copies_{NEVER}"])
