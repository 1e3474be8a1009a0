"""Benchmarks put to a model while it is being trained, without leaving the training.

    shares of all ranks ── gathered, as for the export ──> a copy of the model ── sharing.py ──> benchmark → metrics

Each rank scores its part with a copy in the precision and on the device of the evaluation, which is gone afterwards.
The copy holds what an export would, so its scores are those of ``headrace watch`` and of the stage ``scores``. Nothing
of the training is touched, and every step seeds its own random numbers: with or without, the weights are the same.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from headrace.data_prep.tokenization.encode import Encoder
from headrace.train.checkpoint.consolidation import assembled
from headrace.train.config import ModelConfig
from headrace.train.distributed.processes import Ranks
from headrace.train.distributed.watchdog import Watchdog
from headrace.train.evaluation.held_out import HeldOut
from headrace.train.evaluation.scoring import score_all
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.inference_model import prepared
from headrace.train.inference.sharing import Sharing


@dataclasses.dataclass(frozen=True, kw_only=True)
class InLoopEvaluation:
    """What is asked of the model under training, and how to get at it."""

    evaluation: Evaluation
    held_out: HeldOut
    encoder: Encoder
    model: ModelConfig
    weights: Callable[[], Iterator[tuple[str, Tensor]]]
    """Name and whole fp32 value of every parameter; all ranks iterate in step."""
    ranks: Ranks
    watchdog: Watchdog

    def scores(self, step: int) -> dict[str, list[dict[str, Any]]]:
        """The metrics of each benchmark after ``step``, the same on all ranks, which call it together."""
        vocabulary = self.encoder.vocabulary_size
        network = assembled(self.weights(), self.model, vocabulary)
        model = prepared(network, self.encoder, vocabulary, self.model.context, self.evaluation, "weights")
        shared = model.shared(Sharing(self.ranks, lambda queries: self.watchdog.beat(step)))
        return {
            scored.scores.name: [metric.row() for metric in scored.scores.metrics]
            for scored in score_all(self.evaluation, self.held_out, {}, shared)
        }
