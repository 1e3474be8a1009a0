"""Scores benchmarks while the model is being trained.

    shares of all ranks ── gathered, as for the export ──> a copy of the model ── sharing.py ──> benchmark → metrics

Each rank scores its part of the queries with a copy of the model, in the precision and on the device of the evaluation,
and then frees the copy. Weights come one at a time, so no rank holds all of them in fp32 as well. The copy has the
exported weights, so the scores are those of ``headrace evaluate`` and of the stage ``scores``. The training is not
changed, and every step seeds its own random numbers. So the trained weights are the same with and without evaluation.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from headrace.data_prep.tokenization.encode import Encoder
from headrace.train.checkpoint.consolidation import assembled
from headrace.train.config import ModelConfig
from headrace.train.context import ContextForm
from headrace.train.distributed.processes import Ranks
from headrace.train.distributed.watchdog import Watchdog
from headrace.train.evaluation.held_out_documents import HeldOut
from headrace.train.evaluation.scoring import score_all
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.inference_model import placement, prepared
from headrace.train.inference.sharing import Sharing


@dataclasses.dataclass(frozen=True, kw_only=True)
class InLoopEvaluation:
    """The benchmarks to score, and access to the model that is being trained."""

    evaluation: Evaluation
    held_out: HeldOut
    encoder: Encoder
    model: ModelConfig
    context_form: ContextForm
    weights: Callable[[], Iterator[tuple[str, Tensor]]]
    """Returns name and whole fp32 value of every parameter; all ranks iterate together."""
    ranks: Ranks
    watchdog: Watchdog

    def scores(self, step: int) -> dict[str, list[dict[str, Any]]]:
        """Returns the metrics of each benchmark after ``step``, the same on all ranks. All ranks call it together."""
        vocabulary = self.encoder.vocabulary_size
        device, dtype = placement(self.evaluation)
        weights = ((name, value.to(device, dtype)) for name, value in self.weights())
        network = assembled(weights, self.model, vocabulary, self.context_form)
        model = prepared(network, self.encoder, vocabulary, self.model.context, self.evaluation, "weights")
        shared = model.shared(Sharing(self.ranks, lambda queries: self.watchdog.updated(step)))
        return {
            scored.scores.name: [metric.row() for metric in scored.scores.metrics]
            for scored in score_all(self.evaluation, self.held_out, {}, shared)
        }
