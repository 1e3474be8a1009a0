"""N-gram models as a baseline: modified Kneser–Ney, fitted to the run's training rows, on its held-out documents.

    training rows ── counts ──> models of orders 3, 4, 5 ──┐
    held-out documents ────────────────────────────────────┴──> their losses, and that of the run's model

The n-gram models and the run's model predict the same tokens after the same spans (train/evaluation/kneser_ney.py).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources
from headrace.train.evaluation.benchmarks.validation import document_queries
from headrace.train.evaluation.held_out import HeldOutDocument, sample
from headrace.train.evaluation.kneser_ney import KneserNey
from headrace.train.evaluation.metrics import exponential, ratio
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer
from headrace.train.parts import StackName

WHERE = "evaluation.benchmarks"
Order = Annotated[int, Field(ge=1, le=9)]


@settings
class Ngram(Benchmark):
    """The loss of n-gram models of several orders on the held-out documents, beside that of the run's model."""

    needs_run: ClassVar[bool] = True
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    type: Literal["ngram"] = "ngram"
    orders: tuple[Order, ...] = (3, 4, 5)
    """The orders of the models, rising; the last one stands for the whole."""
    train_tokens: Positive | None = 10_000_000
    """At most this many positions of training rows are counted, those of random rows; null: all rows."""

    def __post_init__(self) -> None:
        if not self.orders or list(self.orders) != sorted(set(self.orders)):
            raise ConfigError(WHERE, f"orders is {list(self.orders)}", "give rising numbers, such as [3,4,5]")

    def items(self, sources: Sources) -> list[Item]:
        """Returns an item for each document; its sizes have the losses of the n-gram models."""
        documents = sample(sources.held_out_documents, self.limit)
        if not documents:
            return []
        pieces = sources.held_out_run.training_pieces(self.train_tokens)
        model = KneserNey(pieces, sources.vocabulary, self.orders[-1])
        losses = {nats_of(order): self._nats(model, order, documents) for order in self.orders}
        return [
            Item(
                document.name,
                document_queries(document),
                sizes={"bytes": document.text_bytes, **{name: nats[number] for name, nats in losses.items()}},
            )
            for number, document in enumerate(documents)
        ]

    def _nats(self, model: KneserNey, order: int, documents: Sequence[HeldOutDocument]) -> list[float]:
        """Returns the loss of each document in nats, the sum over its tokens."""
        log_probs = model.log_probs([span for document in documents for span in document.spans], order)
        sizes = [sum(len(span) - 1 for span in document.spans) for document in documents]
        return [-math.fsum(part) for part in np.split(log_probs, np.cumsum(sizes)[:-1])]

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        nats = -math.fsum(answer.log_likelihood for answer in answers)
        own = item.sizes[nats_of(self.orders[-1])]
        return {"nats": own, "model_nats": nats, "tokens": sum(answer.tokens for answer in answers), **item.sizes}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns for each order its loss (nats per token), perplexity and bits per byte, and the loss of the run's
        model minus it; documents are the unit of the errors, and those of the difference are paired."""
        found = {name: [outcome[name] for outcome in outcomes] for name in outcomes[0]}
        groups = [
            dataclasses.replace(metric, group=f"order_{order}")
            for order in self.orders
            for metric in _metrics(found[nats_of(order)], found, vocabulary)
        ]
        last = [metric for metric in groups if metric.group == f"order_{self.orders[-1]}"]
        return [*(dataclasses.replace(metric, group="") for metric in last), *groups]


def nats_of(order: int) -> str:
    """Returns the name of the loss of one order among the outcomes."""
    return f"nats_of_order_{order}"


def _metrics(nats: Sequence[float], found: Mapping[str, Sequence[float]], vocabulary: int) -> list[Metric]:
    tokens, text_bytes, model = found["tokens"], found["bytes"], found["model_nats"]
    loss = ratio("loss", nats, tokens, math.log(vocabulary))
    bits = [value / math.log(2) for value in nats]
    uniform_bits = math.log2(vocabulary) * math.fsum(tokens) / math.fsum(text_bytes)
    return [
        loss,
        exponential(loss, "perplexity", float(vocabulary)),
        ratio("bits_per_byte", bits, text_bytes, uniform_bits),
        ratio("model_loss_minus", [own - other for own, other in zip(model, nats, strict=True)], tokens, None),
    ]
