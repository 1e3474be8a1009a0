"""Validation and benchmarks while a model is trained, the choice of the best checkpoint by it, and its sums over ranks.

The updates share these sums. The best value and the number of validations since then are part of ``State``, so a
resumed training decides as one that was never interrupted. The checkpoint of the best step is kept
(train/checkpoint/store.py).
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headrace.data_prep.tokenization.encode import Encoder
from headrace.train.checkpoint.saver import assembled
from headrace.train.checkpoint.state import State
from headrace.train.config import ModelConfig
from headrace.train.context import ContextForm
from headrace.train.data.batches import to_device
from headrace.train.data.rows import MixedRows, Rows
from headrace.train.distributed.processes import Ranks, total
from headrace.train.distributed.watchdog import Watchdog
from headrace.train.engine.engine import Engine
from headrace.train.evaluation.held_out_documents import HeldOut
from headrace.train.evaluation.scoring import score_all
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.inference_model import placement, prepared
from headrace.train.inference.sharing import Sharing
from headrace.train.objectives.base import Objective, Terms, bits_per_byte, combined
from headrace.train.objectives.row_reader import Reader

Sums = dict[str, float]


class TrainingValidation(Protocol):
    """The measurement after every ``training.validate_every`` steps of a training."""

    def values(self) -> dict[str, float]:
        """Returns metric → value, the same on all ranks; all of them call it together."""
        ...


@dataclasses.dataclass(frozen=True)
class HeldOutRows:
    """The first held-out rows of a run."""

    engine: Engine
    objective: Objective
    reader: Reader
    train_rows: Rows | MixedRows
    seen_rows: Sequence[int]
    """Numbers of the training rows whose loss is computed with that of held-out rows."""
    rows: Rows
    limit: int
    """The maximum number of rows."""
    sources: Mapping[str, Rows]
    """Held-out rows of each source of a mixture by its name: those that are evaluated; empty: none."""
    token_bytes: NDArray[np.int64] | None
    """UTF-8 bytes of each token, (vocabulary,); None if they differ from text to text."""

    def values(self) -> dict[str, float]:
        """Returns loss and bits per byte; nothing when no row is held out.

        With ``training.seen_rows`` also the loss of rows that were trained on, and how much higher the validation loss
        is; with ``training.source_rows`` the loss of held-out rows of each source that has any.
        """
        sums, counts, text_bytes = self._evaluated(self.rows, range(min(len(self.rows), self.limit)))
        values = losses(self.objective, "validation_loss", sums, counts)
        if any(text_bytes.values()):
            nll_nats = sum(sums[name] for name in text_bytes)
            values["bits_per_byte"] = bits_per_byte(nll_nats, sum(text_bytes.values()))
        sums, counts, _ = self._evaluated(self.train_rows, self.seen_rows)
        values |= losses(self.objective, "seen_loss", sums, counts)
        if "seen_loss" in values and "validation_loss" in values:
            values["loss_gap"] = values["validation_loss"] - values["seen_loss"]
        for name, rows in self.sources.items():
            sums, counts, _ = self._evaluated(rows, range(len(rows)))
            values |= losses(self.objective, f"source_loss:{name}", sums, counts)
        return values

    def _evaluated(self, rows: Rows | MixedRows, numbers: Sequence[int]) -> tuple[Sums, Sums, Sums]:
        """Returns sum, count and UTF-8 bytes of each term of the loss over the rows ``numbers``, on all ranks.

        The model is in evaluation mode. Random numbers of the objective depend on the index in ``numbers`` alone. Bytes
        are those of held-out rows.
        """
        ranks, plan = self.engine.ranks, self.engine.plan
        micro_rows, is_counted = plan.micro_rows, plan.counts_rows(ranks.rank)
        sums, counts, text_bytes = Sums(), Sums(), Sums()
        if not numbers:
            return sums, counts, text_bytes
        for start in range(0, len(numbers), micro_rows * plan.groups):
            first = start + plan.group(ranks.rank) * micro_rows
            # Padding fills the last batches: all ranks evaluate equally often, and compiled layers see one shape.
            of_rank = numbers[first : first + micro_rows]
            part = self.reader.read(rows, of_rank, first, micro_rows)
            add(sums, self.engine.evaluate(self.objective, to_device(part.arrays, ranks.device)))
            add(counts, part.counts, is_counted)
            if rows is self.rows:
                target_bytes_BT = self.rows.target_bytes(of_rank, self.token_bytes, micro_rows)
                if target_bytes_BT is not None:
                    add(text_bytes, self.objective.text_bytes(part.arrays, target_bytes_BT), is_counted)
        return total_of(ranks, sums), total_of(ranks, counts), total_of(ranks, text_bytes)


def losses(objective: Terms, metric: str, sums: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
    """Returns the loss under the name ``metric`` and, of several terms, the mean of each as ``metric:term``.

    Without a single value there is no loss: 0 would look like a perfect one.
    """
    if not any(counts.values()):
        return {}
    values = {metric: combined(objective.weights, sums, counts)}
    if len(objective.weights) > 1:
        values |= {f"{metric}:{name}": sums[name] / counts[name] for name in objective.weights if counts[name]}
    return values


def add(sums: dict[str, float], values: Mapping[str, float], is_counted: bool = True) -> None:
    """Adds each of ``values``, if it ``is_counted``, to the sum of its name."""
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + value * is_counted


def total_of(ranks: Ranks, values: Mapping[str, float]) -> dict[str, float]:
    """Returns each of ``values``, whose names are the same on all ranks, summed over them."""
    names = sorted(values)
    return dict(zip(names, total(ranks, [values[name] for name in names]), strict=True))


@dataclasses.dataclass(frozen=True)
class CheckpointSelection:
    """The rule: the highest value of ``metric``; of equal ones, the first."""

    metric: str
    patience: int | None
    """The validations without a better value after which a training ends; None: it never does."""

    def noted(self, state: State, values: Mapping[str, float]) -> State:
        """Returns ``state`` with the ``values`` of the validation after its step."""
        value = values[self.metric]
        if state.best_value is None or value > state.best_value:
            return dataclasses.replace(state, best_step=state.step, best_value=value, worse_validations=0)
        return dataclasses.replace(state, worse_validations=state.worse_validations + 1)

    def ends(self, state: State) -> bool:
        """Whether a training ends early in this ``state``."""
        return self.patience is not None and state.worse_validations >= self.patience


@dataclasses.dataclass(frozen=True, kw_only=True)
class InLoopEvaluation:
    """The benchmarks to score, and access to the model that is being trained.

    Each rank scores its part of the queries with a copy of the model, in the precision and on the device of the
    evaluation, and then frees the copy. Weights come one at a time, so no rank holds all of them in fp32 as well. The
    scores are those of the exported weights. The training is not changed: every step seeds its own random numbers.
    """

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
