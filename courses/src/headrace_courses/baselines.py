"""Older language models as baselines: trained on a run's training rows, compared with its model on held-out documents.

    training rows ── n-gram counts | a small LSTM ──┐
    held-out documents ─────────────────────────────┴──> their losses, and that of the run's model on the same tokens

All predict the same tokens after the same spans (kneser_ney.py, lstm.py).
"""

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, PositiveNumber, Seed, settings
from headrace.train.data.order import Order
from headrace.train.data.rows import Rows
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources, column
from headrace.train.evaluation.benchmarks.language_modelling import document_queries
from headrace.train.evaluation.held_out_documents import HeldOut, sample
from headrace.train.evaluation.metrics import bits, losses, ratio
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer
from headrace.train.parts import StackName
from headrace_courses.kneser_ney import KneserNey

WHERE = "evaluation.benchmarks"
NgramOrder = Annotated[int, Field(ge=1, le=9)]
TokenPieces = Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Baseline(Benchmark):
    """The loss of other language models on the held-out documents, to compare with that of the run's model."""

    needs_run: ClassVar[bool] = True
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)

    @property
    @abc.abstractmethod
    def groups(self) -> tuple[str, ...]:
        """The names of the models, of which the last one stands for the whole; a single one has no group."""

    @abc.abstractmethod
    def nats(self, run: HeldOut, vocabulary: int, spans: TokenPieces) -> dict[str, Sequence[float]]:
        """Returns for each model the losses of ``spans`` in nats: the sum over the tokens of each after its first."""

    def items(self, sources: Sources) -> list[Item]:
        """Returns an item for each document; its sizes have the losses of the models."""
        documents = sample(sources.held_out_documents, self.limit)
        if not documents:
            return []
        spans = [span for document in documents for span in document.spans]
        ends = np.cumsum([len(document.spans) for document in documents])[:-1]
        losses = {
            group: [math.fsum(part) for part in np.split(np.array(nats), ends)]
            for group, nats in self.nats(sources.held_out_run, sources.vocabulary, spans).items()
        }
        return [
            Item(
                document.name,
                document_queries(document),
                sizes={"bytes": document.text_bytes, **{group: nats[number] for group, nats in losses.items()}},
            )
            for number, document in enumerate(documents)
        ]

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        nats = -math.fsum(answer.log_likelihood for answer in answers)
        baseline = item.sizes[self.groups[-1]]
        return {"nats": baseline, "model_nats": nats, "tokens": sum(answer.tokens for answer in answers), **item.sizes}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns for each model its loss (nats per token), perplexity and bits per byte, and the loss of the run's
        model minus it; documents are the unit of the errors, and those of the difference are paired."""
        nats = {name: column(outcomes, name) for name in outcomes[0]}
        of_group = {group: _metrics(nats[group], nats, vocabulary) for group in self.groups}
        last = of_group[self.groups[-1]]
        if len(self.groups) == 1:
            return last
        grouped = ((group, metric) for group, metrics in of_group.items() for metric in metrics)
        return [*last, *(dataclasses.replace(metric, group=group) for group, metric in grouped)]


@settings
class Ngram(Baseline):
    """Modified Kneser–Ney models that count the n-grams of training rows."""

    sentence: ClassVar[str] = (
        "How well n-gram models of the training rows predict held-out documents, next to the model."
    )
    type: Literal["ngram"] = "ngram"
    orders: Annotated[tuple[NgramOrder, ...], Field(min_length=1)] = (3, 4, 5)
    """The orders of the models, rising; the last one stands for the whole."""
    train_tokens: Positive | None = 10_000_000
    """At most this many positions of training rows are counted, those of random rows; null: all rows."""

    def __post_init__(self) -> None:
        if list(self.orders) != sorted(set(self.orders)):
            raise ConfigError(WHERE, f"orders is {list(self.orders)}", "give rising numbers, such as [3,4,5]")

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(f"order_{order}" for order in self.orders)

    def nats(self, run: HeldOut, vocabulary: int, spans: TokenPieces) -> dict[str, Sequence[float]]:
        model = KneserNey(training_pieces(run, self.train_tokens), vocabulary, self.orders[-1])
        ends = np.cumsum([len(span) - 1 for span in spans])[:-1]
        return {
            group: [-math.fsum(part) for part in np.split(model.log_probs(spans, order), ends)]
            for group, order in zip(self.groups, self.orders, strict=True)
        }


@settings
class LstmBaseline(Baseline):
    """A recurrent model that is trained on training rows while it is scored, on the CPU."""

    sentence: ClassVar[str] = (
        "How well a small LSTM of the training rows predicts held-out documents, next to the model."
    )
    type: Literal["lstm"] = "lstm"
    layers: Positive = 2
    """The number of LSTM layers."""
    width: Positive = 128
    """The width of the embedding and of all layers."""
    train_tokens: Positive = 1_000_000
    """Tokens that it predicts in its training. With the number that the run's model has read, both are comparable."""
    batch_tokens: Positive = 2048
    """Tokens of an update, at least."""
    learning_rate: PositiveNumber = 3e-3
    """The highest learning rate."""
    seed: Seed = 0
    """Decides the first weights and the order of rows."""

    @property
    def groups(self) -> tuple[str, ...]:
        return ("lstm",)

    def nats(self, run: HeldOut, vocabulary: int, spans: TokenPieces) -> dict[str, Sequence[float]]:
        from headrace_courses.lstm import nats_of, trained

        model = trained(training_pieces(run, self.train_tokens), vocabulary, self)
        return {"lstm": nats_of(model, spans)}


def _metrics(nats: Sequence[float], values: Mapping[str, Sequence[float]], vocabulary: int) -> list[Metric]:
    tokens, text_bytes, model = values["tokens"], values["bytes"], values["model_nats"]
    uniform_bits = math.log2(vocabulary) * math.fsum(tokens) / math.fsum(text_bytes)
    return [
        *losses(nats, tokens, vocabulary),
        bits("bits_per_byte", nats, text_bytes, uniform_bits),
        ratio("model_minus_baseline", [a - b for a, b in zip(model, nats, strict=True)], tokens, None),
    ]


def training_pieces(run: HeldOut, most_tokens: int | None) -> list[np.ndarray]:
    """Returns the tokens of spans of training rows, each with the token before it, as the model reads them.

    With ``most_tokens``, those of random rows (a function of their number alone) up to so many positions.
    """
    rows = Rows(run.packed, run.tokens, "train")
    wanted = len(rows) if most_tokens is None else min(len(rows), -(-most_tokens // rows.row_tokens))
    return [piece for row in Order(0, len(rows)).batch(0, wanted).tolist() for piece in rows.pieces(row)]
